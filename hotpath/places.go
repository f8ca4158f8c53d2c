package hotpath

import (
	"context"
	"sync"
	"time"
)

const (
	// maxWaiters bounds the requests of a node that wait for approvals to change, and of those
	// that wait for events.
	maxWaiters = 2000
	// maxWaitersOfKey bounds the waiters of one API key among them, so that no key takes
	// all places.
	maxWaitersOfKey = maxWaiters / 4
	// waitersAskEvery is how often the store is asked on behalf of all waiting requests. It sees
	// decisions made on any node, also after a failover.
	waitersAskEvery = 250 * time.Millisecond
)

// places bound the requests of a node that wait for the same kind of change. While any place is taken,
// the store is asked on behalf of all.
type places struct {
	mu      sync.Mutex
	count   int
	ofKey   map[string]int // of count, by key_id
	running bool
}

// takeLocked takes a place of an API key, and has ask called as long as any is taken. It
// reports false when too many are, of all keys or of this one.
func (p *places) takeLocked(keyID string, ask func(context.Context)) bool {
	if p.count >= maxWaiters || p.ofKey[keyID] >= maxWaitersOfKey {
		return false
	}
	if p.ofKey == nil {
		p.ofKey = make(map[string]int)
	}
	p.count++
	p.ofKey[keyID]++
	if !p.running {
		p.running = true
		go p.run(ask)
	}
	return true
}

// leaveLocked gives a place of an API key back.
func (p *places) leaveLocked(keyID string) {
	p.count--
	if p.ofKey[keyID]--; p.ofKey[keyID] == 0 {
		delete(p.ofKey, keyID)
	}
}

// run calls ask until no place is taken.
func (p *places) run(ask func(context.Context)) {
	for {
		time.Sleep(waitersAskEvery)
		p.mu.Lock()
		if p.count == 0 {
			p.running = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
		ask(ctx)
		cancel()
	}
}
