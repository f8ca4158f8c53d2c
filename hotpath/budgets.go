package hotpath

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/policy"
)

// maxExhausted bounds the memory of exhausted counters.
const maxExhausted = 1 << 13

// exhausted remembers counters that had no room for a check, so that the next one
// is not sent into a commit that would refuse it and delay others: the store is
// asked first. No decision rests on it.
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

// usagesOf returns what was taken from the counters that are charged, as the store
// has it now.
func (e *exhausted) usagesOf(ctx context.Context, charges []spend.Charge) (map[spend.Counter]spend.Usage, error) {
	counters := make([]spend.Counter, len(charges))
	for i := range charges {
		counters[i] = charges[i].Counter
	}
	return e.usages.GetAll(ctx, counters)
}

// budgeting is what budgets make of one check.
type budgeting struct {
	found   policy.Finding // by the other rules
	charges []spend.Charge
	// exceeded has what was taken from counters that have no room, by the index of
	// the charge.
	exceeded map[int]spend.Usage
}

// judgeBudgets decides by the budgets of a policy what the other rules let pass
// (S35). That there is room is for the commit to see, except that all counters are
// looked at first when one is known to be exhausted: the first in the policy's order
// that has no room is reported (S14), which need not be that one.
func (a *Authorizer) judgeBudgets(ctx context.Context, c *checking, p *policy.Program, check *spend.Check, found policy.Finding) (policy.Finding, error) {
	c.budgets, check.Charges, check.Refused = nil, nil, nil
	if uncovered, ok := p.Uncovered(found, &check.Action, c.resolution); ok {
		return uncovered, nil
	}
	principal := check.PrincipalName()
	b := &budgeting{found: found, charges: p.Charges(nil, &check.Action, c.resolution, principal, check.ID.Time())}
	if len(b.charges) == 0 {
		return found, nil
	}
	p.Lift(b.charges, c.lift)
	c.budgets = b
	if !a.exhausted.hasAny(b.charges) {
		return b.decide(p, c.resolution, check), nil
	}
	usages, err := a.exhausted.usagesOf(ctx, b.charges)
	if err != nil {
		return found, err
	}
	for i := range b.charges {
		charge := &b.charges[i]
		if usage := usages[charge.Counter]; !charge.Fits(usage) {
			b.exceed(i, usage)
		} else {
			a.exhausted.remove(charge.Counter.ID)
		}
	}
	return b.decide(p, c.resolution, check), nil
}

func (b *budgeting) exceed(i int, usage spend.Usage) {
	if b.exceeded == nil {
		b.exceeded = make(map[int]spend.Usage)
	}
	b.exceeded[i] = usage
}

// decide sets the charges that the check's commit has to meet, and returns the
// finding. An escalated check must have room in the budgets that did not escalate
// it (S35).
func (b *budgeting) decide(p *policy.Program, r spend.Resolution, check *spend.Check) policy.Finding {
	found := p.Exceeded(b.found, r, b.charges, b.exceeded)
	check.Charges, check.Refused = nil, nil
	if len(b.exceeded) == 0 && found.Effect != spend.Block {
		check.Charges = b.charges
		return found
	}
	for i := range b.charges {
		if _, exceeded := b.exceeded[i]; exceeded {
			check.Refused = append(check.Refused, b.charges[i])
		} else if found.Effect != spend.Block {
			check.Charges = append(check.Charges, b.charges[i])
		}
	}
	return found
}

// exceed judges a check again whose commit found no room for some of its charges.
// It has the same identity and claims.
func (a *Authorizer) exceed(ctx context.Context, c *checking, p *policy.Program, refused *spend.Check, usages []audit.CounterUsage) (*spend.Check, error) {
	b := c.budgets
	known := len(b.exceeded)
	for _, u := range usages {
		a.exhausted.add(u.ID)
		for i := range b.charges {
			if b.charges[i].Counter == u.Counter {
				b.exceed(i, u.Usage)
			}
		}
	}
	if len(b.exceeded) == known {
		return nil, fmt.Errorf("%w: a commit refused charges that are not the check's", ErrUnavailable)
	}
	check := *refused
	if found := b.decide(p, c.resolution, &check); found.Effect == spend.Escalate && c.lift != nil {
		c.lift = nil
		if err := a.judgeByRules(ctx, c, p, &check); err != nil {
			return nil, err
		}
	} else {
		a.conclude(c, p, &check, found)
	}
	check.LatencyMS = a.now().Sub(c.request.Started).Milliseconds()
	return &check, nil
}

// countersOf reads the counters of the actions' charges as they stand. Those that the
// caller may not read (S38) are as if nothing was used.
func (a *Authorizer) countersOf(ctx context.Context, p *policy.Program, actions []*spend.Action, types []spend.Resolution, access Access, at time.Time) (map[spend.Counter]spend.Usage, error) {
	var charges []spend.Charge
	for i, action := range actions {
		charges = p.Charges(charges, action, types[i], access.principal(), at)
	}
	usages := make(map[spend.Counter]spend.Usage, len(charges))
	var counters []spend.Counter
	for i := range charges {
		if _, twice := usages[charges[i].Counter]; !twice {
			usages[charges[i].Counter] = spend.Usage{}
			counters = append(counters, charges[i].Counter)
		}
	}
	if counters == nil {
		return nil, nil
	}
	found, err := a.store.CounterUsages(ctx, counters)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the counters of budgets: %w", ErrUnavailable, err)
	}
	readable, err := a.readableOf(ctx, access, counters)
	if err != nil {
		return nil, err
	}
	for i, counter := range counters {
		if readable == nil || slices.Contains(readable, counter.ID) {
			usages[counter] = found[i]
		}
	}
	return usages, nil
}

// readableOf returns the counters of which the caller may read what was used; nil is all.
func (a *Authorizer) readableOf(ctx context.Context, access Access, counters []spend.Counter) ([]spend.ID, error) {
	own := access.own()
	if own == "" {
		return nil, nil
	}
	ids := make([]spend.ID, len(counters))
	for i, c := range counters {
		ids[i] = c.ID
	}
	met, err := a.store.CountersMet(ctx, own, ids)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the counters of budgets: %w", ErrUnavailable, err)
	}
	return append([]spend.ID{}, met...), nil
}
