package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// CounterPrincipal says that checks of a principal took from a counter.
type CounterPrincipal struct {
	Counter   spend.ID
	Principal string
}

// ID stands for both in the order in which they are compared.
func (p *CounterPrincipal) ID() spend.ID {
	sum := sha256.Sum256(append(p.Counter[:], p.Principal...))
	return spend.ID(sum[:16])
}

// meet notes whose check took from a counter.
func (v *verifier) meet(policyID string, c *spend.Charge, principal string) error {
	if !v.whole() || principal == "" {
		return nil
	}
	p := CounterPrincipal{c.Counter.ID, principal}
	return v.met.add(&counted{
		counterKey: counterKey{ID: p.ID()}, PolicyID: policyID, RuleID: c.RuleID, Since: c.Since,
		Subject: c.Subject + " and principal " + principal, EndMS: endless(c.EndMS),
	})
}

// endless has the end of a lifetime after all others.
func endless(endMS int64) int64 {
	if endMS == 0 {
		return 1<<63 - 1
	}
	return endMS
}

// principals compares which principals' checks took from which counters with the
// checks. They are kept as long as the counter has a row.
func (v *verifier) principals(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	recorded := newCursor(v.met.all())
	defer recorded.stop()
	removed := func(c *counted) {
		if !v.ended(c.EndMS) {
			v.tally.find(Removed, principalName(c), "its checks took from it")
		}
	}
	err := v.o.Evidence.Principals(ctx, func(p CounterPrincipal) error {
		id := p.ID()
		recorded.pass(func(c *counted) bool { return less(c.ID, id) }, removed)
		switch {
		case recorded.at != nil && recorded.at.ID == id:
			recorded.advance()
		case len(v.tally.unread) == 0:
			v.tally.find(Inserted, fmt.Sprintf("principal %s of counter %s", p.Principal, p.Counter.Text("")), "none of its checks took from it")
		}
		return recorded.err
	})
	if err != nil {
		return err
	}
	return recorded.rest(removed)
}

func principalName(c *counted) string {
	return fmt.Sprintf("principal of budget %q of policy %q since version %d for %s", c.RuleID, c.PolicyID, c.Since, c.Subject)
}

// Exhaustion says that a counter had no room left, or refused a check.
type Exhaustion struct {
	spend.Counter
	ID                        spend.ID
	At                        time.Time
	PolicyID, RuleID, Subject string
	Since                     int
	Limit, MaxCount           string // empty without one
}

func exhaustionName(id spend.ID) string { return "exhaustion " + id.Text("") }

// budgetSince names a budget for as long as it counts on.
type budgetSince struct {
	policyID, ruleID string
	since            int
}

// limit is the most that any version of a budget allows; empty of one without.
type limit struct {
	used  *spend.Total
	count *int64
}

// limit notes the limits that a version of a policy has.
func (w *changeWalk) limit(policyID, rules string, budgets map[string]audit.BudgetSince) {
	var all []struct {
		ID         string `json:"rule_id"`
		Parameters struct {
			Limit    json.Number `json:"limit"`
			MaxCount *int64      `json:"max_count"`
		} `json:"parameters"`
	}
	_ = json.Unmarshal([]byte(rules), &all) // what is no JSON was not recorded so: its hash tells
	for _, rule := range all {
		b, is := budgets[rule.ID]
		if !is {
			continue
		}
		one := limit{count: rule.Parameters.MaxCount}
		if used, err := spend.ParseTotal(rule.Parameters.Limit.String()); err == nil {
			one.used = &used
		}
		key := budgetSince{policyID, rule.ID, b.Version}
		if known, is := w.limits[key]; is {
			one.used = larger(one.used, known.used, spend.Total.Cmp)
			one.count = larger(one.count, known.count, cmp.Compare)
		}
		w.limits[key] = one
	}
}

// larger is the larger of two limits, none if one of them is none.
func larger[T any](a, b *T, compare func(a, b T) int) *T {
	switch {
	case a == nil || b == nil:
		return nil
	case compare(*a, *b) < 0:
		return b
	}
	return a
}

// exhaustions compares them with the counters that they name, and names those of a
// calendar window or a lifetime that are used up without.
func (v *verifier) exhaustions(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	recorded := newCursor(v.counts.all())
	defer recorded.stop()
	missing := func(c *counted) {
		if v.usedUp(c) {
			v.tally.find(Removed, "exhaustion of "+counterName(c), "the recorded checks took %s, %d of them", c.used, c.Count)
		}
	}
	err := v.o.Evidence.Exhaustions(ctx, func(e Exhaustion) error {
		key := counterKey{e.Counter.ID, e.StartMS}
		recorded.pass(func(c *counted) bool { return c.compare(key) < 0 }, missing)
		v.limitOf(&e)
		if recorded.at != nil && recorded.at.counterKey == key {
			if recorded.at.BucketMS != e.BucketMS {
				v.tally.find(Altered, exhaustionName(e.ID), "it has buckets of %d ms; those of its counter have %d", e.BucketMS, recorded.at.BucketMS)
			}
			recorded.advance()
		}
		if spend.CounterID(e.PolicyID, e.RuleID, e.Since, e.Subject) != e.Counter.ID || e.At.UnixMilli() < e.StartMS-lateCommit.Milliseconds() {
			v.tally.find(Altered, exhaustionName(e.ID),
				"it is noted as of budget %q of policy %q since version %d for %s, at %s, which is another counter, or before its window",
				e.RuleID, e.PolicyID, e.Since, e.Subject, stamp(e.At))
		}
		return recorded.err
	})
	if err != nil {
		return err
	}
	return recorded.rest(missing)
}

// limitOf names an exhaustion of more than any version of its budget allows.
func (v *verifier) limitOf(e *Exhaustion) {
	most := v.limits[budgetSince{e.PolicyID, e.RuleID, e.Since}]
	used, err := spend.ParseTotal(e.Limit)
	count, odd := strconv.ParseInt(e.MaxCount, 10, 64)
	if most.used != nil && (err != nil || used.Cmp(*most.used) > 0) || most.count != nil && (odd != nil || count > *most.count) {
		v.tally.find(Altered, exhaustionName(e.ID), "it is noted of a limit of %q, or a count of %q, which no version of its budget allows",
			e.Limit, e.MaxCount)
	}
}

// usedUp reports whether a counter was used up by checks, whatever version of its
// policy judged them. What outcomes add is told with the next check.
func (v *verifier) usedUp(c *counted) bool {
	most := v.limits[budgetSince{c.PolicyID, c.RuleID, c.Since}]
	return c.BucketMS == 0 && !c.Added && (most.used != nil && c.used.Cmp(*most.used) >= 0 || most.count != nil && c.Count >= *most.count)
}
