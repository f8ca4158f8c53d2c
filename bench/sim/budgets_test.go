package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// counter is a row of what was taken.
type counter struct {
	change audit.CounterChange // that made the row
	spend.Usage
}

// take takes from the counters of budgets what the checks take, or nothing, and
// corrects them.
func (m *memory) take(checks []*spend.Check, outcomes []*spend.Outcome) error {
	exceeded := new(audit.ExceededError)
	changes := audit.CounterChanges(checks, outcomes)
	refused := make([]bool, len(changes))
	for i := range changes {
		// What the commit itself takes from an earlier bucket counts as well.
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
	m.usedUp = nil
	for _, ch := range changes {
		u := m.usage(ch.Counter)
		if ch.Take && ch.Exhausts(spend.Usage{Used: u.Used.Plus(ch.Used), Count: u.Count + ch.Count}) {
			m.usedUp = append(m.usedUp, ch)
		}
		c := m.counters[ch.Counter]
		if c == nil && !ch.Take {
			continue
		}
		if c == nil {
			c = &counter{change: ch}
			m.counters[ch.Counter] = c
		}
		c.Usage = ch.After(c.Usage)
		m.met[ch.ID] = append(m.met[ch.ID], ch.Principals...)
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

func (m *memory) ListCounters(ctx context.Context, q audit.CounterQuery) (page []audit.SubjectUsage, more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[string]audit.SubjectUsage)
	for key, c := range m.counters {
		ch := &c.change
		inWindow := key.StartMS == q.StartMS || q.BucketMS > 0 && key.StartMS >= q.StartMS-spend.RollingBuckets*q.BucketMS
		if ch.PolicyID != q.PolicyID || ch.RuleID != q.RuleID || ch.Since != q.Since || !inWindow || c.Usage == (spend.Usage{}) ||
			ch.Subject <= q.After || !hasValues(ch.Subject, q.Subject) || q.Principal != "" && !slices.Contains(m.met[key.ID], q.Principal) {
			continue
		}
		u, ok := found[ch.Subject]
		if !ok || key.StartMS < u.FirstMS {
			u.Subject, u.FirstMS = ch.Subject, key.StartMS
		}
		u.Used, u.Count = u.Used.Plus(c.Used), u.Count+c.Count
		found[ch.Subject] = u
	}
	for _, u := range found {
		page = append(page, u)
	}
	slices.SortFunc(page, func(a, b audit.SubjectUsage) int { return cmp.Compare(a.Subject, b.Subject) })
	if more = len(page) > q.Limit; more {
		page = page[:q.Limit]
	}
	return page, more, ended(ctx)
}

func hasValues(subject string, want [][]string) bool {
	var values []string
	if json.Unmarshal([]byte(subject), &values) != nil {
		return false
	}
	for i, one := range want {
		if one != nil && (i >= len(values) || !slices.Contains(one, values[i])) {
			return false
		}
	}
	return true
}
