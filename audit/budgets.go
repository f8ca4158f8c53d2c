package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// Budgets are the counters from which commits take.
type Budgets interface {
	// CounterUsages returns the usages of the counters, in their order.
	CounterUsages(ctx context.Context, counters []spend.Counter) ([]spend.Usage, error)
	// CountersMet returns which of the counters checks of a principal took from.
	CountersMet(ctx context.Context, principal string, counters []spend.ID) ([]spend.ID, error)
	// CounterPrincipals returns the principals whose checks took from a counter, in whatever window.
	CounterPrincipals(ctx context.Context, counter spend.ID) ([]string, error)
	// AskedBy returns a page of the checks of a principal, newest first.
	AskedBy(ctx context.Context, q AskedQuery) (checkIDs []spend.ID, err error)
	// ListCounters returns a page of counters from which something was taken, by
	// subject.
	ListCounters(ctx context.Context, q CounterQuery) (counters []SubjectUsage, more bool, err error)
}

// CounterChange is what a commit takes from one counter, and the condition on the usage before.
type CounterChange struct {
	spend.Counter
	PolicyID   string
	Principals []string // of the checks that take, each once

	Used  spend.Total // to be added; zero, like Count, when there must only be room
	Count int64

	// Take is not set when outcomes alone change the counter: then a row that is not
	// there is left out.
	Take    bool
	Correct spend.Correction // by outcomes, without condition
	Charge  *spend.Charge    // of one of these checks; if Take is set, Charge has the budget's limits

	// The usage before must be at most this, if Limited or Counted. A MostCount below zero cannot be
	// met.
	Limited   bool
	MostUsed  spend.Total
	Counted   bool
	MostCount int64
}

// CounterChanges returns what the checks take from counters and what the outcomes correct, sorted,
// rolling windows first, so that two commits never wait for each other. Each check meets its limits if
// it comes after the checks before it, so one comparison for each counter shows whether all do.
// Amounts given back make no room for checks of the same commit, but for the one that replaces the check that took
// them (spend.Charge.Freed).
func CounterChanges(checks []*spend.Check, outcomes []*spend.Outcome) []CounterChange {
	var parts counterParts
	for _, c := range checks {
		if c.Decision.Effect == spend.Block {
			continue
		}
		for i := range c.Charges {
			parts.add(c, &c.Charges[i], nil)
		}
	}
	for _, o := range outcomes {
		for i := range o.Check.Charges {
			if charge := &o.Check.Charges[i]; o.Correction(charge) != (spend.Correction{}) {
				parts.add(o.Check, charge, o)
			}
		}
	}
	return parts.merged(func(ch *CounterChange, p *counterPart) {
		if p.outcome != nil {
			ch.Correct = ch.Correct.Plus(p.outcome.Correction(p.charge))
			return
		}
		takes := p.check.Decision.Effect == spend.Allow
		ch.add(p.charge, takes)
		if principal := p.check.PrincipalName(); takes && !slices.Contains(ch.Principals, principal) {
			ch.Principals = append(ch.Principals, principal)
		}
	})
}

// counterPart is the part of one check or outcome in the change of a counter.
type counterPart struct {
	check   *spend.Check
	charge  *spend.Charge
	outcome *spend.Outcome // of the check; nil if the check itself takes
	place   int            // among all
}

type counterParts []counterPart

func (p *counterParts) add(c *spend.Check, charge *spend.Charge, o *spend.Outcome) {
	*p = append(*p, counterPart{c, charge, o, len(*p)})
}

// merged returns one change for each counter, sorted, to which merge adds the parts
// in their order.
func (p counterParts) merged(merge func(*CounterChange, *counterPart)) []CounterChange {
	slices.SortFunc(p, compareParts)
	changes := make([]CounterChange, 0, len(p))
	for i := range p {
		charge := p[i].charge
		if n := len(changes); n == 0 || changes[n-1].Counter != charge.Counter {
			changes = append(changes, CounterChange{Counter: charge.Counter, PolicyID: p[i].check.Action.PolicyID, Charge: charge})
		}
		merge(&changes[len(changes)-1], &p[i])
	}
	return changes
}

func compareParts(a, b counterPart) int {
	x, y := &a.charge.Counter, &b.charge.Counter
	rolling := cmp.Compare(min(y.BucketMS, 1), min(x.BucketMS, 1))
	return cmp.Or(rolling, x.ID.Compare(y.ID), cmp.Compare(x.StartMS, y.StartMS), cmp.Compare(a.place, b.place))
}

// Corrects reports whether the change is, or has, one by outcomes.
func (ch CounterChange) Corrects() bool { return ch.Correct != spend.Correction{} }

// Corrected returns the counter's row after the correction, given the row before. It is never below zero.
func (ch *CounterChange) Corrected(own spend.Usage) spend.Usage {
	left, ok := own.Used.Plus(ch.Correct.Over).Minus(ch.Correct.Back)
	if !ok {
		left = spend.Total{}
	}
	return spend.Usage{Used: left, Count: max(own.Count-ch.Correct.Count, 0)}
}

// add lets a charge meet its limits after those before it.
func (ch *CounterChange) add(charge *spend.Charge, take bool) {
	ch.Take, ch.Charge = true, charge
	var freed spend.Usage
	if charge.Freed != nil {
		freed = *charge.Freed
	}
	if charge.Limited && !charge.Lifted {
		most, ok := charge.Limit.Plus(freed.Used).Minus(ch.Used.Plus(charge.Amount.Total()))
		switch {
		case !ok:
			ch.Counted, ch.MostCount = true, -1
		case !ch.Limited || most.Cmp(ch.MostUsed) < 0:
			ch.Limited, ch.MostUsed = true, most
		}
	}
	if charge.Counted && !charge.Lifted {
		if most := charge.MaxCount + freed.Count - ch.Count - 1; !ch.Counted || most < ch.MostCount {
			ch.Counted, ch.MostCount = true, most
		}
	}
	if take {
		ch.Used = ch.Used.Plus(charge.Amount.Total())
		ch.Count++
	}
}

// Refusals returns changes that take nothing from the counters that had no room for
// the checks when these were judged: each once, sorted.
func Refusals(checks []*spend.Check) []CounterChange {
	var parts counterParts
	for _, c := range checks {
		for i := range c.Refused {
			parts.add(c, &c.Refused[i], nil)
		}
	}
	return parts.merged(func(*CounterChange, *counterPart) {})
}

// Exhausts reports whether the budget has no room left at that usage.
func (ch *CounterChange) Exhausts(u spend.Usage) bool {
	c := ch.Charge
	return c.Limited && u.Used.Cmp(c.Limit) >= 0 || c.Counted && u.Count >= c.MaxCount
}

// KeepCounters is how long counters stay from which no check can take any more.
const KeepCounters = 48 * time.Hour

// CounterUsage is the usage of a counter.
type CounterUsage struct {
	spend.Counter
	spend.Usage
}

// Meets reports whether the usage before the commit leaves room for all of it.
func (ch *CounterChange) Meets(u spend.Usage) bool {
	return (!ch.Limited || u.Used.Cmp(ch.MostUsed) <= 0) && (!ch.Counted || u.Count <= ch.MostCount)
}

// ExceededError lists counters that have no room for what a batch takes from them, with their usage
// before. Nothing was written: refuse the checks that do not fit and commit the rest.
type ExceededError struct{ Usages []CounterUsage }

func (e *ExceededError) Error() string {
	return fmt.Sprintf("%d budgets have no room", len(e.Usages))
}

// CounterQuery selects the counters of one budget and window.
type CounterQuery struct {
	PolicyID string
	RuleID   string
	Since    int
	StartMS  int64
	BucketMS int64
	Past     bool   // of a rolling window: no buckets after StartMS
	After    string // only greater subjects: the position of the cursor
	Limit    int

	// Values of which subjects must have one, for each of the budget's `per`; nil does
	// not filter.
	Subject [][]string
	// Principal restricts to counters that its checks have met (S30).
	Principal string
}

// CounterIDs returns the counters that can be meant, nil if the subject may have any
// value somewhere.
func (q *CounterQuery) CounterIDs() []spend.ID {
	subjects := [][]string{nil}
	for _, values := range q.Subject {
		if values == nil {
			return nil
		}
		var longer [][]string
		for _, subject := range subjects {
			for _, value := range values {
				longer = append(longer, append(slices.Clip(subject), value))
			}
		}
		subjects = longer
	}
	ids := make([]spend.ID, len(subjects))
	for i, values := range subjects {
		ids[i] = spend.CounterID(q.PolicyID, q.RuleID, q.Since, spend.SubjectOf(values...))
	}
	return ids
}

// AskedQuery selects the checks of a principal (spend.Check.PrincipalName) under a policy.
type AskedQuery struct {
	PolicyID     string
	Refused      bool // only blocked and escalated ones
	Principal    string
	From, Before spend.ID // inclusive, exclusive
	Limit        int
}

// SubjectUsage is the usage of a subject.
type SubjectUsage struct {
	Subject string
	spend.Usage
	// FirstMS is when the oldest bucket of a rolling window begins that counts, in
	// Unix milliseconds.
	FirstMS int64
}
