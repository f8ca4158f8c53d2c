package hotpath

import (
	"context"
	"slices"
	"sync"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
)

// maxExhausted bounds the memory of exhausted counters.
const maxExhausted = 1 << 13

// exhausted remembers counters that had no room for a check, so that the next check first asks the
// store and is not sent into a commit that would refuse it and delay others. No decision rests on it.
type exhausted struct {
	usages *guard.Lookup[spend.Counter, spend.Usage]

	mu       sync.Mutex
	counters map[spend.ID]struct{}
}

func newExhausted(store audit.Budgets) *exhausted {
	return &exhausted{
		counters: make(map[spend.ID]struct{}),
		usages: guard.NewLookup(func(ctx context.Context, counters []spend.Counter) (map[spend.Counter]spend.Usage, error) {
			usages, err := store.CounterUsages(ctx, counters)
			if err != nil {
				return nil, err
			}
			found := make(map[spend.Counter]spend.Usage, len(counters))
			for i, c := range counters {
				found[c] = usages[i]
			}
			return found, nil
		}),
	}
}

func (e *exhausted) add(id spend.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.counters) >= maxExhausted {
		clear(e.counters)
	}
	e.counters[id] = struct{}{}
}

func (e *exhausted) remove(id spend.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.counters, id)
}

func (e *exhausted) has(id spend.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.counters[id]
	return ok
}

// hasAny reports whether one of the counters that are charged is remembered.
func (e *exhausted) hasAny(charges []spend.Charge) bool {
	return slices.ContainsFunc(charges, func(c spend.Charge) bool { return e.has(c.Counter.ID) })
}

// usagesOf returns the present usage in the store of the counters that are charged.
func (e *exhausted) usagesOf(ctx context.Context, charges []spend.Charge) (map[spend.Counter]spend.Usage, error) {
	counters := make([]spend.Counter, len(charges))
	for i := range charges {
		counters[i] = charges[i].Counter
	}
	return e.usages.GetAll(ctx, counters)
}
