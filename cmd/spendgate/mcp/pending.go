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
	// maxPending bounds the memory; past it the oldest is forgotten, and its
	// retry is a check of its own, which the duplicate guard judges.
	maxPending = 10_000
	// pendingLife is how long a call without an answer can be asked again: who
	// does the same an hour later means another action.
	pendingLife = 10 * time.Minute
)

// pendingKeys remembers the idempotency keys of checks whose outcome is not
// known, by what was called, so that the same call again is the same check.
//
// Calls are the same when their arguments mean the same, whoever makes them:
// over HTTP there is nothing else to tell callers by. A key is given to one
// call at a time and is gone with the first answer. So two equal calls at once
// are two checks, of which the duplicate guard passes one; an allow whose
// answer was lost is given to one caller, not to two.
//
// The memory is this process'. Behind several replicas a retry may meet
// another one and is then judged as a new check, which at worst is blocked as
// a duplicate; the error names the key for callers that want to be sure.
type pendingKeys struct {
	now  func() time.Time
	mu   sync.Mutex
	keys map[call]pendingKey
	// order has the calls as they were kept; those that were dropped since are
	// passed over.
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

// take gives the key of an earlier such call without an outcome, which no
// other call gets then, else a new one.
func (p *pendingKeys) take(c call) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	if pending, ok := p.keys[c]; ok {
		delete(p.keys, c)
		return pending.key
	}
	return client.NewIdempotencyKey()
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

// expire forgets what is too old or too much. The mutex is held.
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
