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

// flight is one attempt's claims in the air. Its outcome is final: it ends
// after its commit is known to stand or known to be impossible.
type flight struct {
	ids    []spend.ID
	landed chan struct{} // made by the first who waits
	ended  bool
	check  *spend.Check // what was recorded; nil if nothing was
}

func newFlights() *flights { return &flights{byID: make(map[spend.ID]*flight)} }

func (fs *flights) join(f *flight, id spend.ID) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.ids = append(f.ids, id)
	fs.byID[id] = f
}

func (fs *flights) find(id spend.ID) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.byID[id]
}

// end makes the outcome known. Ending twice keeps the first outcome.
func (fs *flights) end(f *flight, check *spend.Check) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.ended {
		return
	}
	f.ended, f.check = true, check
	for _, id := range f.ids {
		delete(fs.byID, id)
	}
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
