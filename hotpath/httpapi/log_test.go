package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/hotpath"
)

// A line says whose request failed, where, and for which policy.
func TestFailuresNameWhoAndWhat(t *testing.T) {
	s := start(t, nil)
	s.do("GET", "/v1/policies/refund-desk", "")
	s.fake.workErr = hotpath.ErrPolicyNotFound
	s.do("POST", "/v1/checks", plainCheck)
	lines := strings.Split(strings.TrimSpace(s.logged.String()), "\n")
	for i, want := range []string{
		" client=127.0.0.1 route=/v1/policies/{policy_id} key_id=key_known policy_id=refund-desk",
		" client=127.0.0.1 route=/v1/checks key_id=key_known policy_id=",
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d has no %q:\n%s", i, want, s.logged)
		}
	}
}

// An agent that goes on over its limit writes a line a second, which counts its requests.
func TestRateRefusalsAreSummarized(t *testing.T) {
	s := start(t, nil)
	s.fake.admitErr = hotpath.ErrRateLimited
	for range 20 {
		s.do("POST", "/v1/checks", plainCheck)
	}
	logged := s.logged.String()
	if n := strings.Count(logged, "request failed"); n == 0 || n >= 20 || !strings.Contains(logged, "key_id=key_known") {
		t.Errorf("%d lines for 20 requests:\n%s", n, logged)
	}
	var all tallies
	now := time.Now()
	for i, key := range []string{"a", "b", "a", "a", "b"} {
		if n, due := all.add(key, now); due != (i < 2) || due && n != 1 {
			t.Errorf("%d: %d, %v", i, n, due)
		}
	}
	if n, due := all.add("a", now.Add(tallied)); !due || n != 3 {
		t.Errorf("a second later: %d, %v", n, due)
	}
}

// While a dependency is away a line stands for the requests of one cause.
func TestOutagesAreSummarized(t *testing.T) {
	s := start(t, nil)
	causes := []error{fmt.Errorf("%w: %w", hotpath.ErrUnavailable, audit.ErrUnavailable), hotpath.ErrUnavailable}
	for range 20 {
		for _, cause := range causes {
			s.fake.admitErr = cause
			s.do("POST", "/v1/checks", plainCheck)
		}
	}
	logged := s.logged.String()
	if n := strings.Count(logged, "request failed"); n < len(causes) || n >= 20*len(causes) {
		t.Errorf("%d lines for %d requests:\n%s", n, 20*len(causes), logged)
	}
	if strings.Count(logged, "requests=1 ") != len(causes) || !strings.Contains(logged, "error=") {
		t.Errorf("the first of each cause is not told:\n%s", logged)
	}
}
