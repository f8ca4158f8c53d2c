package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"spendgate/bench/must"
	"spendgate/hotpath/wire"
)

// TestDoctorHeaders: a balancer that drops headers is a finding.
func TestDoctorHeaders(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/whole" {
			w.Header().Set("X-Request-Id", "req_1")
		}
		io.WriteString(w, "{}") //nolint:errcheck // the test would notice
	}))
	t.Cleanup(s.Close)
	must.Check(t, get(t.Context(), s.URL+"/whole", new(wire.Health), "X-Request-ID"))
	err := get(t.Context(), s.URL, new(wire.Health), "X-Request-ID")
	if err == nil || !strings.Contains(err.Error(), "without the header X-Request-ID") {
		t.Error(err)
	}
}
