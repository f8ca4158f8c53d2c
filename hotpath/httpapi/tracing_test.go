package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"spendgate/hotpath/trace"
)

// A request that reached a handler is recorded once, with its caller's context and its result. The
// log line of a failure names the trace.
func TestRequestsAreTraced(t *testing.T) {
	records := make(chan trace.Record, 10)
	s := start(t, func(o *Options) {
		o.Trace = func(r *trace.Record) trace.ID {
			records <- *r
			return trace.ID{0xab, 15: 0xcd}
		}
	})
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1"
	s.do("GET", "/health", "")
	s.do("GET", "/none", "")
	a := s.do("POST", "/v1/checks", plainCheck, "Traceparent: "+parent, "Tracestate: "+state)
	r := <-records
	if r.Parent != parent || r.State != state || r.Method != http.MethodPost || r.Route != "/v1/checks" || r.Status != 200 || r.Code != "" ||
		r.Check == nil || !strings.Contains(a.header.Get("X-Request-Id"), r.RequestID) || r.Ended.Before(r.Started) {
		t.Errorf("recorded %+v", r)
	}
	if spans := r.Spans(); len(spans) != 1 || spans[0].Stage != trace.Decode || spans[0].From != r.Started ||
		spans[0].To.Before(spans[0].From) || r.Ended.Before(spans[0].To) {
		t.Errorf("spans %v", spans)
	}
	s.do("GET", "/v1/policies/none", "")
	if r := <-records; r.Route != "/v1/policies/{policy_id}" || r.Status != 404 || r.Code != "policy_not_found" || r.Check != nil ||
		len(r.Spans()) != 0 {
		t.Errorf("recorded %+v", r)
	}
	if !strings.Contains(s.logged.String(), "trace_id=ab0000000000000000000000000000cd") {
		t.Errorf("logged %s", s.logged)
	}
	if len(records) > 0 {
		t.Errorf("also recorded %+v", <-records)
	}
}
