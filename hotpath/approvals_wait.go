package hotpath

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	// maxWaiters bounds who waits on a node for approvals to change.
	maxWaiters = 2000
	// maxWaitersOfKey bounds those of one API key among them, so that no key takes
	// all places.
	maxWaitersOfKey = maxWaiters / 4
	// waitersAskEvery is how often the store is asked on behalf of all of them. It
	// sees what was decided on any node, also after a failover.
	waitersAskEvery = 250 * time.Millisecond
)

// waiters wait for approvals that are pending to change (S48). One query asks for
// all of them, as long as there are any.
type waiters struct {
	store audit.Approvals

	mu      sync.Mutex
	waiting map[spend.ID]map[chan struct{}]string // by whose key_id
	count   int
	ofKey   map[string]int // of count, by key_id
	running bool
}

// enter makes one that is closed when the approval is not pending any more. Not ok
// means that there are too many, of all keys or of this one.
func (w *waiters) enter(keyID string, id spend.ID) (changed chan struct{}, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count >= maxWaiters || w.ofKey[keyID] >= maxWaitersOfKey {
		return nil, false
	}
	changed = make(chan struct{})
	if w.waiting == nil {
		w.waiting, w.ofKey = make(map[spend.ID]map[chan struct{}]string), make(map[string]int)
	}
	if w.waiting[id] == nil {
		w.waiting[id] = make(map[chan struct{}]string)
	}
	w.waiting[id][changed] = keyID
	w.ofKey[keyID]++
	w.count++
	if !w.running {
		w.running = true
		go w.run()
	}
	return changed, true
}

func (w *waiters) leave(id spend.ID, changed chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keyID, waits := w.waiting[id][changed]
	if !waits {
		return
	}
	delete(w.waiting[id], changed)
	w.goneLocked(keyID)
	if len(w.waiting[id]) == 0 {
		delete(w.waiting, id)
	}
}

// run asks until nobody waits.
func (w *waiters) run() {
	for {
		time.Sleep(waitersAskEvery)
		w.mu.Lock()
		if w.count == 0 {
			w.running = false
			w.mu.Unlock()
			return
		}
		ids := slices.Collect(maps.Keys(w.waiting))
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
		found, err := w.store.Approvals(ctx, ids)
		cancel()
		if err != nil {
			continue // who waits is answered by the state that it asks for itself
		}
		for _, a := range found {
			if a.Status != audit.ApprovalPending {
				w.wake(a.Check.ID)
			}
		}
	}
}

func (w *waiters) wake(id spend.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for changed, keyID := range w.waiting[id] {
		close(changed)
		w.goneLocked(keyID)
	}
	delete(w.waiting, id)
}

// goneLocked counts one of a key less.
func (w *waiters) goneLocked(keyID string) {
	w.count--
	if w.ofKey[keyID]--; w.ofKey[keyID] == 0 {
		delete(w.ofKey, keyID)
	}
}

// AwaitApproval is Approval, after it changed or that time: while it is pending.
// waited is false when too many wait already, of all keys or of this one. It also ends when stop is closed.
func (a *Authorizer) AwaitApproval(
	ctx context.Context, access Access, id spend.ID, wait time.Duration, stop <-chan struct{},
) (found *audit.Approval, waited bool, err error) {
	found, err = a.Approval(ctx, access, id)
	if err != nil || found.Status != audit.ApprovalPending || wait <= 0 {
		return found, true, err
	}
	changed, ok := a.waiters.enter(access.keyID(), id)
	if !ok {
		return found, false, nil
	}
	defer a.waiters.leave(id, changed)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-stop:
	}
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	found, err = a.Approval(reading, access, id)
	return found, true, err
}
