package client

import (
	"context"
	"net/http"
	"strings"
)

// traceKey is the key of a traceContext in a context.
type traceKey struct{}

type traceContext struct{ parent, state string }

// WithTrace returns a context whose requests continue a trace: traceparent and tracestate are the
// headers of W3C Trace Context, the latter may be empty. Malformed values are not sent: a trace is no
// reason to fail a check.
func WithTrace(ctx context.Context, traceparent, tracestate string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceContext{traceparent, tracestate})
}

// traceOf returns the values that WithTrace put into a context.
func traceOf(ctx context.Context) (traceparent, tracestate string) {
	t, _ := ctx.Value(traceKey{}).(traceContext)
	return t.parent, t.state
}

// continueTrace sets the headers of a trace, each if it is well-formed.
func continueTrace(h http.Header, parent, state string) {
	if !wellFormed(parent) {
		return
	}
	h.Set("traceparent", parent)
	const most = 512
	printable := !strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' })
	if state != "" && len(state) <= most && printable {
		h.Set("tracestate", state)
	}
}

// wellFormed reports whether a traceparent is version, trace, span and flags in
// lower-case hex.
func wellFormed(parent string) bool {
	fields := strings.Split(parent, "-")
	for i, digits := range []int{2, 32, 16, 2} {
		if i >= len(fields) || len(fields[i]) != digits || strings.Trim(fields[i], "0123456789abcdef") != "" {
			return false
		}
	}
	return len(fields) == 4 && fields[0] != "ff"
}
