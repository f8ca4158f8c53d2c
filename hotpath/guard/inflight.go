package guard

import (
	"context"
	"sync"

	"spendgate/audit/spend"
)

// inFlight has this node's claims whose outcome is not known yet, by the check IDs in their values. A
// request of this node that meets such a claim waits here instead of asking the store.
type inFlight struct {
	mu   sync.Mutex
	byID map[spend.ID]*inFlightClaim
}

// inFlightClaim is resolved after its commit is known to stand or known to be
// impossible, or when it is released.
type inFlightClaim struct {
	id      spend.ID
	attempt *Attempt
	done    chan struct{} // made by the first request that waits
	// resolved is final, and so is check: the recorded check, nil if none was recorded.
	resolved bool
	check    *spend.Check
}

func newInFlight() *inFlight { return &inFlight{byID: make(map[spend.ID]*inFlightClaim)} }

// add registers a claim of the attempt.
func (f *inFlight) add(at *Attempt, id spend.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &inFlightClaim{id: id, attempt: at}
	if at.inFlight == nil {
		at.inFlight = at.inFlightBuffer[:0]
	}
	at.inFlight = append(at.inFlight, c)
	f.byID[id] = c
}

func (f *inFlight) find(id spend.ID) *inFlightClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byID[id]
}

// resolveAll resolves an attempt's claims. A claim that is resolved already
// keeps its outcome.
func (f *inFlight) resolveAll(at *Attempt, check *spend.Check) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range at.inFlight {
		f.resolveLocked(c, check)
	}
	at.inFlight = nil
}

// abandon resolves one claim that was released while its attempt continues: requests that wait for it
// must not wait for what the attempt now waits for.
func (f *inFlight) abandon(id spend.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.byID[id]; c != nil {
		f.resolveLocked(c, nil)
	}
}

// resolveLocked gives waiting requests the recorded check; nil if none was recorded.
func (f *inFlight) resolveLocked(c *inFlightClaim, check *spend.Check) {
	if c.resolved {
		return
	}
	c.resolved, c.check = true, check
	delete(f.byID, c.id)
	if c.done != nil {
		close(c.done)
	}
}

// wait returns the recorded check, or nil if the claim was resolved without one.
func (f *inFlight) wait(ctx context.Context, c *inFlightClaim) (*spend.Check, error) {
	f.mu.Lock()
	if c.resolved {
		f.mu.Unlock()
		return c.check, nil
	}
	if c.done == nil {
		c.done = make(chan struct{})
	}
	done := c.done
	f.mu.Unlock()
	select {
	case <-done:
		return c.check, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
