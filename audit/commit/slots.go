package commit

import (
	"sync"
	"sync/atomic"
	"time"
)

// slots bound the checks in flight (G9). Capacity bounds memory. It may still
// be more than the store, or the machine, records before the deadlines: then
// all wait in line until they are refused, and the commits are of checks that
// were. So once checks take long, only as many are admitted as were lately
// recorded in a bearable time.
//
// If n checks were recorded in the t seconds that one took, throughput is n/t.
// Throughput times bearable is how many may be in flight (Little's law). It
// follows the store up and down, needs no knowledge of where the time goes, and
// is right as soon as one line of checks has gone through.
type slots struct {
	capacity int64
	taken    atomic.Int64
	limit    atomic.Int64
	recorded atomic.Int64 // checks, ever

	mu     sync.Mutex
	passed float64 // moving averages: recorded while a check was in flight
	took   float64 // seconds
}

const (
	// bearable is the wait that admitted checks are held to: less than they
	// have (G7), since no two lines are the same.
	bearable = time.Second
	// shortWait is no line worth speaking of; bursts are taken whole.
	shortWait = 400 * time.Millisecond
	// fewest are always admitted: nothing is learned from none.
	fewest = maxBatch / 2
	// slotsWeight is how many checks the averages look back on.
	slotsWeight = 128
)

func newSlots(capacity int) *slots {
	s := &slots{capacity: int64(capacity)}
	s.limit.Store(s.capacity)
	return s
}

// take returns how many checks were recorded so far.
func (s *slots) take() (recorded int64, ok bool) {
	if s.taken.Add(1) > s.limit.Load() {
		s.taken.Add(-1)
		return 0, false
	}
	return s.recorded.Load(), true
}

// learn is told how long a check took since take, recorded or refused for want
// of time.
func (s *slots) learn(recorded int64, took time.Duration) {
	passed := float64(s.recorded.Load() - recorded)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed += (passed - s.passed) / slotsWeight
	s.took += (took.Seconds() - s.took) / slotsWeight
	limit := s.capacity
	if s.took > shortWait.Seconds() {
		limit = min(limit, max(fewest, int64(s.passed/s.took*bearable.Seconds())))
	}
	s.limit.Store(limit)
}
