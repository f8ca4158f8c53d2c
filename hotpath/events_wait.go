package hotpath

import (
	"context"
	"sync"
	"time"

	"spendgate/audit"
)

// feedWaiters wait for the feed of events to go on (S51). One query asks for all of
// them, as long as there are any.
type feedWaiters struct {
	store audit.Events

	mu      sync.Mutex
	count   int
	ofKey   map[string]int // of count, by key_id
	head    int64          // the greatest sequence at the last look
	moved   chan struct{}  // closed when head changes
	running bool
}

// enter takes a place. Not ok means that too many wait, of all keys or of this one.
func (w *feedWaiters) enter(keyID string) (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count >= maxWaiters || w.ofKey[keyID] >= maxWaitersOfKey {
		return false
	}
	if w.ofKey == nil {
		w.ofKey, w.moved = make(map[string]int), make(chan struct{})
	}
	w.count++
	w.ofKey[keyID]++
	if !w.running {
		w.running = true
		go w.run()
	}
	return true
}

func (w *feedWaiters) leave(keyID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
	if w.ofKey[keyID]--; w.ofKey[keyID] == 0 {
		delete(w.ofKey, keyID)
	}
}

// beyond returns what is closed when the feed goes beyond that sequence, or may have.
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

// run asks until nobody waits.
func (w *feedWaiters) run() {
	for {
		time.Sleep(waitersAskEvery)
		w.mu.Lock()
		if w.count == 0 {
			w.running = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
		head, err := w.store.EventsHead(ctx)
		cancel()
		if err != nil {
			continue // who waits is answered by the page that it asks for itself
		}
		w.mu.Lock()
		if head != w.head {
			w.head = head
			close(w.moved)
			w.moved = make(chan struct{})
		}
		w.mu.Unlock()
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
