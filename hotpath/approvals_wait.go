package hotpath

import (
	"context"
	"maps"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// waiters are the requests that wait for pending approvals to change (S48). While there are any,
// one query asks for all of their approvals.
type waiters struct {
	places
	store   audit.Approvals
	waiting map[spend.ID]map[chan struct{}]string // by the key_id of the waiting request; nil before the first
}

// enter makes one that is closed when the approval is not pending any more. Not ok
// means that there are too many, of all keys or of this one.
func (w *waiters) enter(keyID string, id spend.ID) (changed chan struct{}, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.takeLocked(keyID, w.ask) {
		return nil, false
	}
	changed = make(chan struct{})
	if w.waiting == nil {
		w.waiting = make(map[spend.ID]map[chan struct{}]string)
	}
	if w.waiting[id] == nil {
		w.waiting[id] = make(map[chan struct{}]string)
	}
	w.waiting[id][changed] = keyID
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
	w.leaveLocked(keyID)
	if len(w.waiting[id]) == 0 {
		delete(w.waiting, id)
	}
}

// ask wakes the requests that wait for an approval that is no longer pending. After an error they are
// woken too, and each reads the state itself.
func (w *waiters) ask(ctx context.Context) {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(w.waiting))
	w.mu.Unlock()
	found, err := w.store.Approvals(ctx, ids)
	if err != nil {
		return
	}
	for _, a := range found {
		if a.Status != audit.ApprovalPending {
			w.wake(a.Check.ID)
		}
	}
}

func (w *waiters) wake(id spend.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for changed, keyID := range w.waiting[id] {
		close(changed)
		w.leaveLocked(keyID)
	}
	delete(w.waiting, id)
}

// AwaitApproval returns what Approval does, but waits up to that time while the approval is pending.
// waited is false when too many requests wait already, of all keys or of this one. The wait also ends
// when stop is closed.
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
