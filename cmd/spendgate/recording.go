package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"spendgate/audit/commit"
)

const (
	// From failuresFor and failuresMost on, commits that fail are no single fault.
	failuresFor  = 3 * time.Second
	failuresMost = 3
	// othersWithin is how lately other nodes must have recorded a check for a node to stay not ready.
	othersWithin = 30 * time.Second
	// rehearseEvery bounds how often a node that is not ready tries.
	rehearseEvery = time.Second
	// restAfter is how long a node that failed stays not ready, at least, also when a
	// rehearsal does not fail: that lacks the end of a commit.
	restAfter = 5 * time.Second
)

// recording judges whether checks should be sent to this node: not while its own
// commits fail and commits of other nodes do not. Where none records, it makes no
// difference, and reads go on.
type recording struct {
	failures func() *commit.Failures
	forget   func()
	stuck    func() bool // no commit begins, whatever a rehearsal says
	// recorded reports whether any node has recorded a check since then.
	recorded func(ctx context.Context, since time.Time) (bool, error)
	rehearse func(context.Context) error

	mu      sync.Mutex
	refused bool      // as the last look found
	tried   time.Time // the last rehearsal
}

// recordingError says that the store can be used, but not to record.
type recordingError struct{ cause error }

func (e *recordingError) Error() string {
	return fmt.Sprintf("this node cannot record checks, and other nodes do: %v", e.cause)
}

func (e *recordingError) Unwrap() error { return e.cause }

// look returns why checks should be sent to other nodes, if they should.
func (r *recording) look(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	failures, now := r.failures(), time.Now()
	if failures == nil {
		r.refused = false
		return nil
	}
	since := now.Add(-othersWithin)
	if !r.refused {
		if failures.Count < failuresMost || now.Sub(failures.First) < failuresFor {
			return nil
		}
		if failures.First.After(since) { // what others recorded before says nothing
			since = failures.First
		}
	}
	others, err := r.recorded(ctx, since)
	switch {
	case err != nil && r.refused:
		return &recordingError{failures.Err}
	case err != nil || !others: // what cannot be asked is told by those who ask it
		r.refused = false
		return nil
	}
	if r.refused && !r.stuck() && now.Sub(r.tried) >= rehearseEvery && now.Sub(failures.Last) >= restAfter {
		r.tried = now
		if r.rehearse(ctx) == nil {
			r.forget()
			r.refused = false
			return nil
		}
	}
	r.refused = true
	return &recordingError{failures.Err}
}
