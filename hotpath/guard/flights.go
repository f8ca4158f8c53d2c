package guard

import (
	"context"
	"sync"

	"spendgate/hotpath/spend"
)

// flights are this node's claims whose outcome is not known yet, by the check
// IDs in their values. Whoever on this node wants what another flight holds
// waits for it here instead of asking Postgres.
type flights struct {
	mu   sync.Mutex
	byID map[spend.ID]*flight
}

// flight is one claim in the air. Its outcome is final: it ends after its
// commit is known to stand or known to be impossible, or when it is let go.
type flight struct {
	id     spend.ID
	of     *Attempt
	landed chan struct{} // made by the first who waits
	ended  bool
	check  *spend.Check // what was recorded; nil if nothing was
}

func newFlights() *flights { return &flights{byID: make(map[spend.ID]*flight)} }

func (fs *flights) join(at *Attempt, id spend.ID) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := &flight{id: id, of: at}
	if at.inAir == nil {
		at.inAir = at.few[:0]
	}
	at.inAir = append(at.inAir, f)
	fs.byID[id] = f
}

func (fs *flights) find(id spend.ID) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.byID[id]
}

// end makes the outcome of an attempt's claims known. Ending twice keeps the
// first outcome.
func (fs *flights) end(at *Attempt, check *spend.Check) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range at.inAir {
		fs.land(f, check)
	}
	at.inAir = nil
}

// leave ends one claim that was let go, while its attempt goes on: who waits
// for it must not wait for what the attempt now waits for.
func (fs *flights) leave(id spend.ID) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.byID[id]; f != nil {
		fs.land(f, nil)
	}
}

func (fs *flights) land(f *flight, check *spend.Check) {
	if f.ended {
		return
	}
	f.ended, f.check = true, check
	delete(fs.byID, f.id)
	if f.landed != nil {
		close(f.landed)
	}
}

// wait gives the recorded check, or nil if the flight ended without one.
func (fs *flights) wait(ctx context.Context, f *flight) (*spend.Check, error) {
	fs.mu.Lock()
	if f.ended {
		fs.mu.Unlock()
		return f.check, nil
	}
	if f.landed == nil {
		f.landed = make(chan struct{})
	}
	landed := f.landed
	fs.mu.Unlock()
	select {
	case <-landed:
		return f.check, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
