package httpapi

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOverloadIsRefusedAtOnce(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxInFlight = 2 })
	s.fake.hold = make(chan struct{})
	done := make(chan int, 2)
	for range 2 {
		go func() { done <- s.do("POST", "/v1/checks", plainCheck).status }()
	}
	for s.api.inFlight.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	if a := s.do("POST", "/v1/checks", plainCheck); a.status != 500 || a.code(t) != codeInternal || a.header.Get("Retry-After") != "1" {
		t.Errorf("%d %s", a.status, a.body)
	}
	s.do("GET", "/health", "").is(t, "health under load", http.StatusOK)
	close(s.fake.hold)
	for range 2 {
		if status := <-done; status != 200 {
			t.Errorf("an admitted check got %d", status)
		}
	}
}

// G9: a check that could not be recorded in time is refused unread; a flood of
// refusals does not write a flood of lines.
func TestFullNodeRefusesChecksUnread(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	s := start(t, func(o *Options) { o.Full = full.Load })
	const refusals = 50
	for range refusals {
		if a := s.do("POST", "/v1/checks", "no JSON"); a.status != 500 || a.header.Get("Retry-After") != "1" {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if lines := strings.Count(s.logged.String(), "\n"); lines == 0 || lines > refusals/2 {
		t.Errorf("%d refusals are %d lines of the log", refusals, lines)
	}
	s.do("GET", "/v1/checks/chk_0", "", "X-API-Key: "+goodKey).is(t, "a read", http.StatusNotFound)
	full.Store(false)
	s.do("POST", "/v1/checks", plainCheck).is(t, "afterwards", http.StatusOK)
}

// Refusals for overload are told once a second, and how many they were.
func TestOverloadIsLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		a := &API{Options: Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}}
		refuse := func(times int) {
			for range times {
				a.logOverload()
			}
		}
		refuse(1) // told at once
		refuse(7)
		time.Sleep(tallied - 1)
		refuse(2)
		time.Sleep(time.Nanosecond)
		refuse(1) // with the nine since
		time.Sleep(time.Hour)
		refuse(3) // the other two are told later
		var told []string
		for line := range strings.Lines(logged.String()) {
			_, n, _ := strings.Cut(strings.TrimSpace(line), `level=WARN msg="at capacity; requests are refused" requests=`)
			told = append(told, n)
		}
		if want := []string{"1", "10", "1"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q:\n%s", told, want, logged.String())
		}
	})
}
