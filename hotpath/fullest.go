package hotpath

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// Bounds of the sample: how many budgets, how many counters of each are remembered as the fullest, and
// how many more are noted between two looks.
const (
	maxSampledBudgets  = 256
	maxFullestCounters = 32
	maxNotedCounters   = 64
)

// BudgetFill is how full the fullest counter of a budget is that this node knows: 1 is the limit.
type BudgetFill struct {
	PolicyID, RuleID string
	Share            float64
}

// fullest remembers for whom this node's checks met budgets, so that a metric can say how full
// these are. The store is asked when the metric is made: no check waits for it.
type fullest struct {
	mu      sync.Mutex
	budgets map[budgetName]*metCounters
}

type budgetName struct{ policyID, ruleID string }

// metCounters are the subjects of a budget's counters.
type metCounters struct {
	full  []string            // when last looked at, the fullest first
	noted map[string]struct{} // since
}

func newFullest() *fullest { return &fullest{budgets: make(map[budgetName]*metCounters)} }

// note remembers the counters that a recorded check used. Counters that had no room for the check are
// noted where others found no place.
func (f *fullest) note(c *spend.Check) {
	if len(c.Charges) == 0 && len(c.Refused) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range c.Charges {
		f.add(c.Action.PolicyID, &c.Charges[i], maxNotedCounters/2)
	}
	for i := range c.Refused {
		f.add(c.Action.PolicyID, &c.Refused[i], maxNotedCounters)
	}
}

func (f *fullest) add(policyID string, charge *spend.Charge, most int) {
	name := budgetName{policyID, charge.RuleID}
	met := f.budgets[name]
	if met == nil {
		if len(f.budgets) >= maxSampledBudgets {
			return
		}
		met = &metCounters{noted: make(map[string]struct{})}
		// Copies: what is kept must not hold a request or an old version of a policy.
		f.budgets[budgetName{strings.Clone(policyID), strings.Clone(charge.RuleID)}] = met
	}
	if len(met.noted) < most {
		met.noted[charge.Subject] = struct{}{}
	}
}

// take returns the subjects of all counters, and starts the collection again.
func (f *fullest) take() map[budgetName][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := make(map[budgetName][]string, len(f.budgets))
	for name, met := range f.budgets {
		for _, subject := range met.full {
			delete(met.noted, subject)
		}
		taken[name] = slices.AppendSeq(slices.Clone(met.full), maps.Keys(met.noted))
		clear(met.noted)
	}
	return taken
}

// keep remembers the subjects of a budget's fullest counters. If there is no room, a budget without
// such counters, or with unused ones, is replaced.
func (f *fullest) keep(name budgetName, subjects []string, used bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	met := f.budgets[name]
	met.full = subjects
	if len(met.noted) == 0 && (len(subjects) == 0 || !used && len(f.budgets) >= maxSampledBudgets) {
		delete(f.budgets, name)
	}
}

// FullestBudgets returns how full the budgets are whose counters this node's checks used, by the
// newest versions of their policies and in the current windows. Of a budget with many counters it
// reads the fullest of the last look and some that checks used since: there is a counter that is as
// full as it says, and there may be a fuller one.
func (a *Authorizer) FullestBudgets(ctx context.Context) ([]BudgetFill, error) {
	taken := a.fullest.take()
	fills := make([]BudgetFill, 0, len(taken))
	for name, subjects := range taken {
		share, full, err := a.fullestOf(ctx, name, subjects)
		if err != nil {
			return nil, err
		}
		a.fullest.keep(name, full, share > 0)
		if len(full) > 0 {
			fills = append(fills, BudgetFill{name.policyID, name.ruleID, share})
		}
	}
	return fills, nil
}

// fullestOf returns the subjects of a budget's fullest counters, and how full the first is; none if
// the newest version does not have the budget.
func (a *Authorizer) fullestOf(ctx context.Context, name budgetName, subjects []string) (share float64, full []string, err error) {
	program, err := a.catalog.program(name.policyID)
	if errors.Is(err, ErrUnavailable) {
		return 0, nil, err
	}
	if program == nil { // the policy is gone or does not compile, which must not hold up the others
		return 0, nil, nil
	}
	budgets := program.Budgets()
	i := slices.IndexFunc(budgets, func(b policy.BudgetInfo) bool { return b.RuleID == name.ruleID })
	if i < 0 {
		return 0, nil, nil
	}
	b, now := &budgets[i], a.now()
	subjects = slices.DeleteFunc(subjects, func(subject string) bool {
		_, err := b.Values(subject)
		return err != nil // of an earlier version, which counted per something else
	})
	counters := make([]spend.Counter, len(subjects))
	for i, subject := range subjects {
		counters[i] = b.Counter(name.policyID, subject, now)
	}
	usages, err := a.store.CounterUsages(ctx, counters)
	if err != nil {
		return 0, nil, err
	}
	v := a.catalog.view()
	shares := make(map[string]float64, len(subjects))
	for i, subject := range subjects {
		shares[subject] = b.Share(usages[i], v.granted(b, counters[i], now))
	}
	slices.SortFunc(subjects, func(a, b string) int { return cmp.Compare(shares[b], shares[a]) })
	if len(subjects) == 0 {
		return 0, nil, nil
	}
	return shares[subjects[0]], subjects[:min(len(subjects), maxFullestCounters)], nil
}
