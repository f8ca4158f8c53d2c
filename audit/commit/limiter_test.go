package commit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit/commit"
)

// flood sends checks to a writer at a rate for a while, each with the deadline
// that the hot path gives it.
type flood struct {
	w                       *commit.Writer
	mu                      sync.Mutex
	recorded, late, refused int
	slowest                 time.Duration
}

func (f *flood) send(rate int, during time.Duration) {
	const patience = 1700 * time.Millisecond
	var all sync.WaitGroup
	for range rate * int(during/time.Millisecond) / 1000 {
		time.Sleep(time.Second / time.Duration(rate))
		recorded, ok := f.w.Reserve()
		if !ok {
			f.refused++
			continue
		}
		started := time.Now()
		all.Go(func() {
			defer f.w.Free()
			err := f.w.Append(check(1, "")).Wait(started.Add(patience))
			took := time.Since(started)
			f.w.Learn(recorded, took)
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.slowest = max(f.slowest, took); err == nil {
				f.recorded++
			} else {
				f.late++
			}
		})
	}
	all.Wait()
}

// G9: three times what a slow store takes: as much as it can take is recorded,
// the rest is refused at once. Without a bound on the line all would wait until
// they are late.
func TestSlowStoreKeepsItsThroughput(t *testing.T) {
	const batch, capacity = 512, 4096
	for _, ms := range []int{100, 200, 300, 400} {
		takes := time.Duration(ms) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			s := &trail{takes: takes}
			f := &flood{w: s.newWriter(capacity)}
			able := int(batch * time.Second / takes)
			f.send(3*able, 3*time.Second) // until the bound is found
			*f = flood{w: f.w}
			const seconds = 10
			f.send(3*able, seconds*time.Second)
			if f.recorded < able*seconds*8/10 || f.late > f.recorded/20 {
				t.Errorf("commits of %v: %d recorded of the %d that can be, %d late, %d refused", takes, f.recorded, able*seconds, f.late, f.refused)
			}
			// A store that is quick again is used again, bursts included.
			s.mu.Lock()
			s.takes = time.Millisecond
			s.mu.Unlock()
			f.send(1000, time.Second)
			*f = flood{w: f.w}
			f.send(capacity*100, 5*time.Millisecond)
			if f.refused > 0 || f.late > 0 {
				t.Errorf("commits of %v: %d refused and %d late after it", takes, f.refused, f.late)
			}
			f.w.Close()
		})
	}
}

// G9, G7: while nothing is recorded at all few wait in vain, and some always
// find out that the store is back.
func TestHungStoreIsNotQueuedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: time.Minute}
		f := &flood{w: s.newWriter(4096)}
		f.send(2000, 4*time.Second) // all in vain
		before := f.late
		f.send(2000, 4*time.Second)
		if late := f.late - before; late == 0 || late > 2000 {
			t.Errorf("%d of 8000 waited in vain", late)
		}
		f.w.Close()
	})
}
