package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/bench/must"
)

const (
	apiKey   = "svc_live_0123456789abcdef0123456789abcdef"
	adminKey = "admin-key-that-nobody-sees"

	allowed = `{"check_id":"chk_1","decision":"allow","confidence":"high","reason_code":null,"message":"fine",` +
		`"violated_rule_id":null,"violated_rule_description":null,"policy_version":3,"next_step":"Proceed.",` +
		`"latency_ms":1,"timestamp":"2026-01-02T03:04:05.600Z"}`
)

// seen is a request that the stand-in for a service got.
type seen struct {
	method, uri, key, admin, body string
}

// service is a stand-in that answers requests in the order of its answers, the
// last one for ever.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
}

type respond func(http.ResponseWriter)

// says answers with a status, a body and headers, "Name: value".
func says(status int, body string, headers ...string) respond {
	return func(w http.ResponseWriter) {
		w.Header().Set("X-Request-Id", "req_1")
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Add(name, value)
		}
		w.WriteHeader(status)
		io.WriteString(w, body) //nolint:errcheck // the client would notice
	}
}

// refuses answers with an error of the service.
func refuses(status int, code string, headers ...string) respond {
	return says(status, fmt.Sprintf(`{"error":{"code":%q,"message":"because","request_id":"req_1"}}`, code), headers...)
}

func serve(t *testing.T, answers ...respond) *service {
	t.Helper()
	s := new(service)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, seen{r.Method, r.URL.RequestURI(), r.Header.Get("X-API-Key"), r.Header.Get("X-Admin-Key"), string(body)})
		answer := answers[min(len(s.requests), len(answers))-1]
		s.mu.Unlock()
		answer(w)
	}))
	t.Cleanup(s.Close)
	return s
}

// sent returns the requests so far.
func (s *service) sent() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// client returns a client of the service that does not wait but records how
// long it would have waited.
func (s *service) client(t *testing.T, change func(*Options)) (*Client, *[]time.Duration) {
	t.Helper()
	o := Options{BaseURL: s.URL + "/", APIKey: apiKey, AdminKey: adminKey}
	if change != nil {
		change(&o)
	}
	c := must.Get(New(o))(t)
	waits := new([]time.Duration)
	c.pause = func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}
	return c, waits
}

func action(t *testing.T) Action {
	t.Helper()
	amount := must.Get(ParseAmount("42.50"))(t)
	return Action{AgentID: "a", PolicyID: "p", ActionType: Refund, Amount: amount, Currency: "USD", Counterparty: "c"}
}
