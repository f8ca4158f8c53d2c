package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/bench/must"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traced answers checks, the first with 500, and keeps the trace headers.
type traced struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // traceparent and tracestate
}

func newTraced(t *testing.T) *traced {
	s := new(traced)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, strings.Join(r.Header.Values("traceparent"), "+")+" "+strings.Join(r.Header.Values("tracestate"), "+"))
		first := len(s.seen) == 1
		s.mu.Unlock()
		if first {
			refuses(500, "internal_error")(w)
			return
		}
		says(200, allowed)(w)
	}))
	t.Cleanup(s.Close)
	return s
}

// A request continues the trace of its context, and so do its repetitions.
func TestTraceIsContinued(t *testing.T) {
	for name, test := range map[string]struct {
		parent, state string
		want          string
	}{
		"with state":          {parent, "a=1,b=2", parent + " a=1,b=2"},
		"without state":       {parent, "", parent + " "},
		"a later version":     {"01" + parent[2:], "", "01" + parent[2:] + " "},
		"none":                {"", "a=1", " "},
		"a line break":        {parent + "\r\nX-Admin-Key: x", "", " "},
		"upper case":          {strings.ToUpper(parent), "", " "},
		"too short":           {parent[:54], "", " "},
		"a field too many":    {parent + "-00", "", " "},
		"a field too few":     {parent[:52], "", " "},
		"no such version":     {"ff" + parent[2:], "", " "},
		"a state that breaks": {parent, "a=1\n", parent + " "},
		"no ASCII":            {parent, "a=é", parent + " "},
		"the longest state":   {parent, strings.Repeat("a", 512), parent + " " + strings.Repeat("a", 512)},
		"a state too long":    {parent, strings.Repeat("a", 513), parent + " "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTraced(t)
			c := must.Get(New(Options{BaseURL: s.URL}))(t)
			c.pause = func(context.Context, time.Duration) error { return nil }
			must.Get(c.Check(WithTrace(t.Context(), test.parent, test.state), action(t)))(t)
			if len(s.seen) != 2 || s.seen[0] != test.want || s.seen[1] != test.want {
				t.Errorf("sent %q, want %q twice", s.seen, test.want)
			}
		})
	}
}

// The trace can come from a tracing library.
func TestTraceOfTheOptions(t *testing.T) {
	type key struct{}
	s := newTraced(t)
	c := must.Get(New(Options{BaseURL: s.URL, Trace: func(ctx context.Context) (string, string) {
		span, _ := ctx.Value(key{}).(string)
		return span, "library=1"
	}}))(t)
	c.pause = func(context.Context, time.Duration) error { return nil }
	must.Get(c.Check(context.WithValue(t.Context(), key{}, parent), action(t)))(t)
	if want := parent + " library=1"; s.seen[1] != want {
		t.Errorf("sent %q, want %q", s.seen[1], want)
	}
	must.Get(c.GetCheck(t.Context(), "chk_1"))(t)
	if s.seen[2] != " " {
		t.Errorf("a request without a trace sent %q", s.seen[2])
	}
}
