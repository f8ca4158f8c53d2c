package signin

import (
	"testing"
	"time"
)

// Keys are read twice at once, and then once in a while.
func TestSparing(t *testing.T) {
	now := time.Now()
	s := &sparing{now: func() time.Time { return now }}
	for i, want := range []bool{true, true, false, false} {
		if got := s.take(); got != want {
			t.Errorf("request %d: %t", i, got)
		}
	}
	taken := 0
	for range 60 {
		if now = now.Add(time.Second); s.take() {
			taken++
		}
	}
	if want := int(60 * time.Second / keysEvery); taken != want {
		t.Errorf("%d in a minute, want %d", taken, want)
	}
	now = now.Add(time.Hour)
	for i, want := range []bool{true, true, false} {
		if got := s.take(); got != want {
			t.Errorf("request %d after a rest: %t", i, got)
		}
	}
}
