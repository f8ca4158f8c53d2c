package ratelimit

import (
	"testing"
	"time"
)

// TestRetryAfter: who waits as long as told finds a new window, and is never
// told to wait for longer than a window lasts (S26).
func TestRetryAfter(t *testing.T) {
	opened := time.UnixMilli(1_800_000_000_700)
	q, admitted := Place{Position: 8, ExpiresMS: opened.Add(Window).UnixMilli()}.Judge(7)
	if admitted || q.Remaining != 0 || q.ResetUnix() != 1_800_000_061 {
		t.Fatalf("%+v, admitted %v, resets at %d", q, admitted, q.ResetUnix())
	}
	f := func(since time.Duration, want int64) {
		t.Helper()
		if got := q.RetryAfter(opened.Add(since)); got != want {
			t.Errorf("%v after the window opened: %d, want %d", since, got, want)
		}
	}
	f(0, 60)
	f(300*time.Millisecond, 60) // the next second by the clock
	f(time.Second, 59)
	f(time.Second+time.Millisecond, 59)
	f(58*time.Second+999*time.Millisecond, 2)
	f(59*time.Second, 1)
	f(Window-time.Millisecond, 1)
	f(Window, 1)
	f(Window+time.Hour, 1)
	f(-3*time.Second, 60) // Redis' clock is ahead of this node's
}
