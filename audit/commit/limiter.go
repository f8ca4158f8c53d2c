package commit

import (
	"sync"
	"sync/atomic"
	"time"
)

// limiter bounds the checks in flight (G9). Capacity bounds memory. It may be more than the store, or
// the machine, records before the deadlines: then all checks queue until they are refused, and the
// store commits checks that were refused already. So once checks take long, only as many are admitted
// as were lately recorded in a bearable time.
//
// If n checks were recorded in the t seconds that one took, throughput is n/t. Throughput times
// bearable is how many may be in flight (Little's law). The limit follows the store up and down, does
// not depend on where the time is spent, and is right as soon as one queue of checks has passed.
type limiter struct {
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
	// fewest are always admitted, since refusing all would measure nothing.
	fewest = maxBatch / 2
	// limiterWeight is how many checks the averages look back on.
	limiterWeight = 128
)

func newLimiter(capacity int) *limiter {
	l := &limiter{capacity: int64(capacity)}
	l.limit.Store(l.capacity)
	return l
}

// take returns how many checks were recorded so far.
func (l *limiter) take() (recorded int64, ok bool) {
	if l.taken.Add(1) > l.limit.Load() {
		l.taken.Add(-1)
		return 0, false
	}
	return l.recorded.Load(), true
}

// learn takes the time of a check since take, until it was recorded or refused for lack of time.
func (l *limiter) learn(recorded int64, took time.Duration) {
	passed := float64(l.recorded.Load() - recorded)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passed += (passed - l.passed) / limiterWeight
	l.took += (took.Seconds() - l.took) / limiterWeight
	limit := l.capacity
	if l.took > shortWait.Seconds() {
		limit = min(limit, max(fewest, int64(l.passed/l.took*bearable.Seconds())))
	}
	l.limit.Store(limit)
}
