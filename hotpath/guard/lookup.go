package guard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// lookupTimeout bounds one query of the store on behalf of waiting checks.
const lookupTimeout = 800 * time.Millisecond

// Lookup asks the store for many waiters at once. A waiter is only ever answered
// by a query that began after it asked, so that "absent" means absent now.
type Lookup[K comparable, V any] struct {
	queries *Gathering[query[K, V]]
}

type query[K comparable, V any] struct {
	keys  map[K]struct{}
	found map[K]V
}

// NewLookup returns one that asks by load.
func NewLookup[K comparable, V any](load func(context.Context, []K) (map[K]V, error)) *Lookup[K, V] {
	return &Lookup[K, V]{NewGathering(func(q *query[K, V]) (err error) {
		keys := slices.AppendSeq(make([]K, 0, len(q.keys)), maps.Keys(q.keys))
		ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
		defer cancel()
		if q.found, err = load(ctx, keys); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return nil
	})}
}

// NewChecks returns one that asks for checks by read, which leaves absent ones out.
func NewChecks(read func(context.Context, []spend.ID) ([]*spend.Check, error)) *Lookup[spend.ID, *spend.Check] {
	return NewLookup(func(ctx context.Context, ids []spend.ID) (map[spend.ID]*spend.Check, error) {
		checks, err := read(ctx, ids)
		found := make(map[spend.ID]*spend.Check, len(checks))
		for _, c := range checks {
			found[c.ID] = c
		}
		return found, err
	})
}

// Get returns the value of a key, if the store has one.
func (l *Lookup[K, V]) Get(ctx context.Context, key K) (v V, ok bool, err error) {
	found, err := l.GetAll(ctx, []K{key})
	if err != nil {
		return v, false, err
	}
	v, ok = found[key]
	return v, ok, nil
}

// GetAll returns the values that one query of the store found, by key. The map may have other keys
// too, and must not be changed.
func (l *Lookup[K, V]) GetAll(ctx context.Context, keys []K) (map[K]V, error) {
	q, err := l.queries.Do(ctx, func(q *query[K, V]) {
		if q.keys == nil {
			q.keys = make(map[K]struct{}, len(keys))
		}
		for _, key := range keys {
			q.keys[key] = struct{}{}
		}
	})
	if err != nil {
		return nil, err
	}
	return q.found, nil
}

// records reads the trail for the claim states.
type records struct {
	states *Lookup[spend.ID, audit.PassState]
	expire *Lookup[spend.ID, audit.PassState] // states, after due expiries were recorded
	checks *Lookup[spend.ID, *spend.Check]
	byKey  *Lookup[spend.Hash, spend.ID]
	passes [spend.Block + 1]*Lookup[spend.Hash, audit.LivePass] // of checks that were decided as the effect or better
	behind func(ctx context.Context, fingerprint spend.Hash, before spend.ID, upTo spend.Effect) (audit.LivePass, bool, error)
	// seen has recorded checks that cannot be released, so that an agent in a loop costs the store
	// nothing. It cannot be wrong: a row leaves the store, with its day, only when no window or key needs
	// it any more, and such a check cannot be released.
	seen seen
}

func newRecords(store Store, now func() time.Time) *records {
	r := &records{
		states: NewLookup(store.PassStates),
		expire: NewLookup(func(ctx context.Context, ids []spend.ID) (map[spend.ID]audit.PassState, error) {
			if _, err := store.ExpireApprovals(ctx); err != nil {
				return nil, err
			}
			return store.PassStates(ctx, ids)
		}),
		checks: NewChecks(store.Checks),
		byKey:  NewLookup(store.CheckIDsByKey),
	}
	for effect := range r.passes {
		r.passes[effect] = NewLookup(func(ctx context.Context, fps []spend.Hash) (map[spend.Hash]audit.LivePass, error) {
			return store.LivePasses(ctx, fps, spend.ID{}, now().UnixMilli(), spend.Effect(effect))
		})
	}
	r.behind = func(ctx context.Context, fp spend.Hash, before spend.ID, upTo spend.Effect) (p audit.LivePass, ok bool, err error) {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		found, err := store.LivePasses(ctx, []spend.Hash{fp}, before, now().UnixMilli(), upTo)
		if err != nil {
			return p, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		p, ok = found[fp]
		return p, ok, nil
	}
	return r
}

// pass returns the latest live pass of a fingerprint that was decided as upTo or better, behind a check unless that is zero.
func (r *records) pass(ctx context.Context, fp spend.Hash, behind spend.ID, upTo spend.Effect) (audit.LivePass, bool, error) {
	if behind.IsZero() {
		return r.passes[upTo].Get(ctx, fp)
	}
	return r.behind(ctx, fp, behind, upTo)
}

// absent is the state of a check that is not recorded.
const absent audit.PassState = 0

// passOf returns the state of the check in the store. A check that can be released is looked up each
// time, since another node may have answered its release (F69).
func (r *records) passOf(ctx context.Context, id spend.ID) (audit.PassState, error) {
	if r.seen.has(id) {
		return audit.PassFinal, nil
	}
	state, _, err := r.states.Get(ctx, id)
	if state == audit.PassFinal {
		r.seen.add(id)
	}
	return state, err
}

// settled is passOf that first has a due expiry recorded. Only then the fingerprint is free: a
// decision or a use that began in time may commit after the expiry by a clock (F91). While one holds
// the approval, its check waits.
func (r *records) settled(ctx context.Context, id spend.ID) (audit.PassState, error) {
	state, err := r.passOf(ctx, id)
	if err != nil || state != audit.PassExpiring {
		return state, err
	}
	if state, _, err = r.expire.Get(ctx, id); state == audit.PassExpiring {
		state = audit.PassAsking
	}
	return state, err
}

// underKey returns the check recorded under an idempotency key, or nil.
func (r *records) underKey(ctx context.Context, keyHash spend.Hash) (*spend.Check, error) {
	id, ok, err := r.byKey.Get(ctx, keyHash)
	if err != nil || !ok {
		return nil, err
	}
	check, ok, err := r.checks.Get(ctx, id)
	if err == nil && !ok {
		err = fmt.Errorf("%w: check %s of an idempotency key is not in the trail", ErrUnavailable, id.Text(spend.PrefixCheck))
	}
	return check, err
}

const maxSeen = 8192

// seen remembers the identifiers that were added last.
type seen struct {
	mu   sync.Mutex
	ids  map[spend.ID]struct{}
	ring []spend.ID
	next int
}

func (s *seen) has(id spend.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids[id]
	return ok
}

func (s *seen) add(id spend.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids, s.ring = make(map[spend.ID]struct{}, maxSeen), make([]spend.ID, maxSeen)
	}
	if _, ok := s.ids[id]; ok {
		return
	}
	delete(s.ids, s.ring[s.next])
	s.ids[id], s.ring[s.next] = struct{}{}, id
	s.next = (s.next + 1) % maxSeen
}
