package hotpath

import (
	"context"
	"time"

	"spendgate/audit"
)

// feedWaiters are the requests that wait for new events of the feed (S51). While there are any, one
// query asks for all of them.
type feedWaiters struct {
	places
	store audit.Events
	head  int64         // the greatest sequence at the last look
	moved chan struct{} // closed when head changes; nil before anybody waits
}

// enter takes a place. Not ok means that too many wait, of all keys or of this one.
func (w *feedWaiters) enter(keyID string) (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.takeLocked(keyID, w.ask) {
		return false
	}
	if w.moved == nil {
		w.moved = make(chan struct{})
	}
	return true
}

func (w *feedWaiters) leave(keyID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveLocked(keyID)
}

// beyond returns a channel that is closed when the feed goes beyond that sequence, or may have.
func (w *feedWaiters) beyond(after int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.head > after {
		done := make(chan struct{})
		close(done)
		return done
	}
	return w.moved
}

// ask notes how far the feed goes. After an error the waiting requests are woken, and each reads its
// page itself.
func (w *feedWaiters) ask(ctx context.Context) {
	head, err := w.store.EventsHead(ctx)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if head != w.head {
		w.head = head
		close(w.moved)
		w.moved = make(chan struct{})
	}
}

// AwaitEvents is Events, after there are some or that time. waited is false when too
// many wait already, of all keys or of this one. It also ends when stop is closed.
func (a *Authorizer) AwaitEvents(
	ctx context.Context, access Access, q audit.EventQuery, wait time.Duration, stop <-chan struct{},
) (page audit.EventPage, waited bool, err error) {
	page, err = a.Events(ctx, access, q)
	if err != nil || len(page.Events) > 0 || page.More || wait <= 0 {
		return page, true, err
	}
	if !a.feedWaiters.enter(access.keyID()) {
		return page, false, nil
	}
	defer a.feedWaiters.leave(access.keyID())
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-a.feedWaiters.beyond(page.Next):
		case <-timer.C:
			return page, true, nil
		case <-stop:
			return page, true, nil
		}
		q.After = page.Next
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		next, err := a.Events(reading, access, q)
		cancel()
		if err != nil || len(next.Events) > 0 || next.More {
			return next, true, err
		}
		if next.Next <= page.Next { // the head was lowered by a failover: do not ask in a circle
			time.Sleep(waitersAskEvery)
		}
		page = next
	}
}
