package job

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A replay rests for as long as it worked while its node has checks in flight, until it is broken off, and
// else not at all (S53).
func TestTakesHalfOfTheTime(t *testing.T) {
	busy := true
	r := &run{Worker: &Worker{Options: Options{Busy: func() bool { return busy }}}, held: time.Now()}
	const worked = 100 * time.Millisecond
	r.resumed = time.Now().Add(-worked)
	began := time.Now()
	if err := r.breathe(t.Context()); err != nil || time.Since(began) < worked || time.Since(r.resumed) > time.Since(began)-worked {
		t.Errorf("rested for %s, %v", time.Since(began), err)
	}
	r.resumed = time.Now().Add(-time.Hour)
	broken, stop := context.WithCancel(t.Context())
	stop()
	if err := r.breathe(broken); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	busy, r.resumed = false, time.Now().Add(-time.Hour)
	if err := r.breathe(t.Context()); err != nil || time.Since(r.resumed) > time.Minute {
		t.Error(err)
	}
}
