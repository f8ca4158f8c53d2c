package httpapi

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
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
	var all limited
	now := time.Now()
	for i, key := range []string{"a", "b", "a", "a", "b"} {
		if n, due, begins := all.add(key, now); due != (i < 2) || due && n != 1 || begins != (i == 0) {
			t.Errorf("%d: %d, %v, %v", i, n, due, begins)
		}
	}
	if n, due, _ := all.add("a", now.Add(tallied)); !due || n != 3 {
		t.Errorf("a second later: %d, %v", n, due)
	}
}

// A line a minute names the keys that were refused most, of however many.
func TestTopRateRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := new(lockedBuffer)
		a := New(Options{Authorizer: newFake(), Store: new(fakeStore), Logger: slog.New(slog.NewTextHandler(logged, nil))})
		for i := range maxLimitedKeys + 7 {
			a.noteLimited(fmt.Sprintf("key_%04d", i))
			if i%40 == 0 {
				a.noteLimited(fmt.Sprintf("key_%04d", i))
			}
		}
		a.limited.mu.Lock()
		n := len(a.limited.byKey)
		a.limited.mu.Unlock()
		if n > maxLimitedKeys+1 {
			t.Errorf("%d keys are remembered", n)
		}
		time.Sleep(limitedFor)
		synctest.Wait()
		want := fmt.Sprintf("requests=%d keys=%d top_keys=\"[{KeyID: Requests:7} {KeyID:key_0000 Requests:2} ", maxLimitedKeys+110,
			maxLimitedKeys+1)
		if s := logged.String(); !strings.Contains(s, want) || strings.Count(s, "{KeyID:") != topLimitedKeys {
			t.Errorf("the log has no %s:\n%s", want, s)
		}
		time.Sleep(limitedFor)
		a.noteLimited("key_next")
		time.Sleep(limitedFor)
		synctest.Wait()
		if s := logged.String(); strings.Count(s, "top_keys") != 2 ||
			!strings.Contains(s, "requests=1 keys=1 top_keys=\"[{KeyID:key_next Requests:1}]\"") {
			t.Errorf("a quiet minute has a line, or the next period none:\n%s", s)
		}
	})
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
