package sim

import (
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// counter is a row of a budget's counters.
type counter struct {
	change audit.CounterChange // that made the row
	spend.Usage
}

// take takes from the counters of budgets what the checks take, or nothing, and applies
// corrections.
func (m *memory) take(checks []*spend.Check, outcomes []*spend.Outcome) error {
	exceeded := new(audit.ExceededError)
	changes := audit.CounterChanges(checks, outcomes)
	refused := make([]bool, len(changes))
	for i := range changes {
		// Amounts that the commit itself takes from an earlier bucket count, too.
		u := m.usage(changes[i].Counter)
		for n, before := range changes[:i] {
			if before.ID == changes[i].ID && before.BucketMS > 0 && !refused[n] {
				u = spend.Usage{Used: u.Used.Plus(before.Used), Count: u.Count + before.Count}
			}
		}
		if refused[i] = !changes[i].Meets(u); refused[i] {
			exceeded.Usages = append(exceeded.Usages, audit.CounterUsage{Counter: changes[i].Counter, Usage: u})
		}
	}
	if exceeded.Usages != nil {
		return exceeded
	}
	for _, ch := range changes {
		c := m.counters[ch.Counter]
		if c == nil && !ch.Take {
			continue
		}
		if c == nil {
			c = &counter{change: ch}
			m.counters[ch.Counter] = c
		}
		c.Usage = ch.After(c.Usage)
	}
	return nil
}

// usage returns what counts, with mu held.
func (m *memory) usage(of spend.Counter) (u spend.Usage) {
	for key, c := range m.counters {
		if key.ID == of.ID && (key == of || of.BucketMS > 0 && key.StartMS >= of.StartMS-spend.RollingBuckets*of.BucketMS) {
			u = spend.Usage{Used: u.Used.Plus(c.Used), Count: u.Count + c.Count}
		}
	}
	return u
}

func (m *memory) CounterUsages(ctx context.Context, counters []spend.Counter) ([]spend.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	usages := make([]spend.Usage, len(counters))
	for i, c := range counters {
		usages[i] = m.usage(c)
	}
	return usages, ended(ctx)
}

// inUse reports whether an open counter of a budget is used.
func (m *memory) inUse(policyID, ruleID string, since int, now time.Time) bool {
	for _, c := range m.counters {
		if charge := c.change.Charge; c.change.PolicyID == policyID && charge.RuleID == ruleID && charge.Since == since &&
			c.Usage != (spend.Usage{}) && (charge.EndMS == 0 || charge.EndMS > now.UnixMilli()) {
			return true
		}
	}
	return false
}
