package mcp

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"spendgate/hotpath/client"
)

const (
	// maxPending bounds the memory; past it the oldest key is dropped, and its
	// retry is a new check, subject to the duplicate guard.
	maxPending = 10_000
	// pendingLife is how long a call without an answer can be retried: the same
	// call an hour later is another action.
	pendingLife = 10 * time.Minute
)

// pendingKeys remembers the idempotency keys of checks whose outcome is not known, by tool and
// arguments, so that the same call again is the same check.
//
// Calls are the same when their arguments mean the same: over HTTP, callers cannot be distinguished. A
// key is used by one call at a time and dropped with the first answer, so two concurrent equal calls
// are two checks, of which the duplicate guard passes one.
//
// The keys are in memory: with several replicas a retry may reach another one and is then a new check,
// at worst blocked as a duplicate. The error names the key for callers that need to be sure.
type pendingKeys struct {
	now  func() time.Time
	mu   sync.Mutex
	keys map[call]pendingKey
	// order has the calls as they were kept; calls that were dropped since are skipped.
	order []keptCall
}

// call is the hash of a check's arguments without the idempotency key.
type call [sha256.Size]byte

type pendingKey struct {
	key  string
	kept time.Time
}

type keptCall struct {
	call call
	kept time.Time
}

func newPendingKeys(now func() time.Time) *pendingKeys {
	return &pendingKeys{now: now, keys: make(map[call]pendingKey)}
}

// callOf hashes the meaning of an action: 42.5 and 42.50 are one call, and so
// is metadata in another order.
func callOf(a client.Action) (call, error) {
	a.IdempotencyKey = ""
	text, err := encodeCanonical(a)
	if err != nil {
		return call{}, fmt.Errorf("cannot encode the arguments: %w", err)
	}
	return sha256.Sum256(text), nil
}

func encodeCanonical(a client.Action) ([]byte, error) {
	return json.Marshal(a, json.Deterministic(true), json.WithMarshalers(numbersOut()))
}

// take returns the key of an earlier such call without an outcome, which no
// other call gets then, else one that is new.
func (p *pendingKeys) take(c call) (key string, isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	if pending, ok := p.keys[c]; ok {
		delete(p.keys, c)
		return pending.key, false
	}
	return client.NewIdempotencyKey(), true
}

// keep remembers a key whose outcome is unknown.
func (p *pendingKeys) keep(c call, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	now := p.now()
	p.keys[c] = pendingKey{key, now}
	p.order = append(p.order, keptCall{c, now})
}

// drop forgets a key that has an outcome.
func (p *pendingKeys) drop(c call, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[c].key == key {
		delete(p.keys, c)
	}
}

// expire drops keys that are too old or too many. The mutex is held.
func (p *pendingKeys) expire() {
	now := p.now()
	for len(p.order) > 0 {
		oldest := p.order[0]
		if len(p.order) < maxPending && now.Sub(oldest.kept) < pendingLife {
			return
		}
		p.order = p.order[1:]
		if p.keys[oldest.call].kept.Equal(oldest.kept) {
			delete(p.keys, oldest.call)
		}
	}
}
