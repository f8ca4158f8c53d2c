package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"spendgate/audit/commit"
)

const (
	// Failed commits count as a lasting fault once there are failuresMost of them over failuresFor.
	failuresFor  = 3 * time.Second
	failuresMost = 3
	// othersWithin is how lately other nodes must have recorded a check for a node to stay not ready.
	othersWithin = 30 * time.Second
	// rehearseEvery bounds how often a node that is not ready makes a rehearsal.
	rehearseEvery = time.Second
	// restAfter is the shortest time that a node stays not ready after a failure, even if a
	// rehearsal would succeed: a rehearsal does not try the end of a commit.
	restAfter = 5 * time.Second
)

// recording judges whether checks should be sent to this node. They should not while its own
// commits fail and those of other nodes succeed. If no node records, the node stays ready,
// so that reads go on.
type recording struct {
	failures func() *commit.Failures
	forget   func()
	stuck    func() bool // reports that no commit begins, even if a rehearsal succeeds
	// recorded reports whether any node has recorded a check since that time.
	recorded func(ctx context.Context, since time.Time) (bool, error)
	rehearse func(context.Context) error

	mu      sync.Mutex
	refused bool      // whether the last look refused checks
	tried   time.Time // the last rehearsal
}

// recordingError says that the store can be used, but that this node cannot record in it.
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
		if failures.First.After(since) { // checks that were recorded before the first failure show nothing
			since = failures.First
		}
	}
	others, err := r.recorded(ctx, since)
	switch {
	case err != nil && r.refused:
		return &recordingError{failures.Err}
	case err != nil || !others: // other parts of /readyz report a store that does not answer
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
