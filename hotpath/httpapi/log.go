package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/hotpath"
	"spendgate/hotpath/trace"
)

// maxPathLogged bounds what a client can write into the log.
const maxPathLogged = 200

// logFailure writes the line of a failed request, or one line for many if there are too many. It
// contains no keys, no query, no body, and no characters of the path that could look like another
// line.
func (a *API) logFailure(x *exchange) {
	var more []slog.Attr
	due := true
	switch {
	case x.refusal == overloaded:
		a.logOverload()
		return
	case x.refusal == unavailable:
		more, due = a.noteUnavailable(x.failure)
	case x.refusal.status == fasthttp.StatusUnauthorized:
		more, due = a.noteUnauthorized(x)
	case x.refusal.status == fasthttp.StatusTooManyRequests:
		more, due = a.noteLimited(a.Authorizer.KeyID(x.known()))
	}
	if !due {
		return
	}
	level := slog.LevelInfo
	if x.refusal.status >= 500 {
		level = slog.LevelError
	}
	if !a.Logger.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", x.id),
		slog.String("method", printable(string(x.ctx.Method()))),
		slog.String("path", printable(string(x.ctx.URI().PathOriginal()))),
		slog.Int("status", x.refusal.status),
		slog.String("code", x.refusal.code),
		slog.Float64("duration_ms", float64(time.Since(x.started).Microseconds())/1000),
		slog.String("client", a.clientAddress(x)),
	}
	attrs = append(a.appendKnown(attrs, x), more...)
	if id := x.ctx.Request.Header.PeekCanonical(headerClientID); isClientID(id) {
		attrs = append(attrs, slog.String("client_request_id", string(id)))
	}
	if x.traceID != (trace.ID{}) {
		attrs = append(attrs, slog.String("trace_id", x.traceID.String()))
	}
	if level == slog.LevelError {
		attrs = append(attrs, slog.String("error", x.failure.Error()))
	}
	a.Logger.LogAttrs(context.Background(), level, "request failed", attrs...)
}

// appendKnown adds what is known about a request besides its line and its response.
func (a *API) appendKnown(attrs []slog.Attr, x *exchange) []slog.Attr {
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, printable(value)))
		}
	}
	add("route", x.endpoint.path)
	add("key_id", a.Authorizer.KeyID(x.known()))
	if x.action.PolicyID != "" {
		add("policy_id", x.action.PolicyID)
	} else {
		add("policy_id", x.pathValue("policy_id"))
	}
	return attrs
}

// outages are the causes of the response unavailable that the log distinguishes. The first that
// matches is logged; without a match the cause is another.
var outages = [...]error{audit.ErrUnknown, commit.ErrPending, audit.ErrUnavailable, hotpath.ErrUnavailable}

// noteUnavailable counts a request that failed because of a dependency. While one is away all requests
// fail, so one line a second stands for all requests of one cause.
func (a *API) noteUnavailable(failure error) (attrs []slog.Attr, due bool) {
	cause := slices.IndexFunc(outages[:], func(err error) bool { return errors.Is(failure, err) })
	if cause < 0 {
		cause = len(outages)
	}
	requests, due := a.unavailable[cause].add(time.Now())
	return []slog.Attr{slog.Int64("requests", requests)}, due
}

// headerClientID is X-Request-ID as fasthttp spells it.
var headerClientID = []byte("X-Request-Id")

// isClientID reports whether a client's name for its request is fit for the log.
func isClientID(id []byte) bool {
	const longest = 128
	for _, c := range id {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(id) > 0 && len(id) <= longest
}

// logOverload notes a request that was refused for overload. A line for each
// would cost more than the refusal, when there is nothing to spare (G9).
func (a *API) logOverload() {
	if requests, due := a.overloads.add(time.Now()); due {
		a.Logger.Warn("at capacity; requests are refused", "requests", requests)
	}
}

// printable escapes everything but plain ASCII.
func printable(s string) string {
	if len(s) > maxPathLogged {
		s = s[:maxPathLogged] + "..."
	}
	quoted := strconv.QuoteToASCII(s)
	return quoted[1 : len(quoted)-1]
}
