package hotpath

import (
	"cmp"
	"context"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/spend"
)

// BudgetQuery selects counters of a policy's budgets. Empty fields do not filter.
type BudgetQuery struct {
	PolicyID     string
	RuleID       string
	AgentID      string // a budget that is not per agent has no counter of one
	Counterparty string // likewise
	After        BudgetPosition
	Limit        int
}

// BudgetPosition is a place in the order of counters.
type BudgetPosition struct{ RuleID, Subject string }

// BudgetCounter is one counter in its present window (S38).
type BudgetCounter struct {
	policy.BudgetInfo
	Subject     string
	Values      []string // of Per
	Used        spend.Total
	Count       int64
	WindowStart time.Time
	ResetsAt    time.Time // zero of a lifetime
}

// Budgets returns a page of the counters that the newest version of a policy
// names, by rule_id and subject, as they were at some moment after asOf. Errors:
// ErrPolicyNotFound, also of a policy that the caller may not see; ErrUnavailable.
func (a *Authorizer) Budgets(ctx context.Context, access Access, q BudgetQuery) (page []BudgetCounter, more bool, asOf time.Time, err error) {
	if !access.SeesPolicy(q.PolicyID) {
		return nil, false, asOf, &PolicyNotFoundError{q.PolicyID}
	}
	program, err := a.catalog.program(q.PolicyID)
	if err != nil {
		return nil, false, asOf, err
	}
	asOf = a.now()
	budgets := program.Budgets()
	slices.SortFunc(budgets, func(a, b policy.BudgetInfo) int { return cmp.Compare(a.RuleID, b.RuleID) })
	for _, b := range budgets {
		if b.RuleID < q.After.RuleID || q.RuleID != "" && b.RuleID != q.RuleID {
			continue
		}
		query, possible := counterQuery(access, &q, &b, asOf)
		if !possible {
			continue
		}
		subjects, moreOfIt, err := a.store.ListCounters(ctx, query)
		if err != nil {
			return nil, false, asOf, err
		}
		for _, s := range subjects {
			c, err := newBudgetCounter(b, s, asOf)
			if err != nil {
				return nil, false, asOf, err
			}
			page = append(page, c)
		}
		if moreOfIt || len(page) > q.Limit {
			return page[:q.Limit], true, asOf, nil
		}
	}
	return page, false, asOf, nil
}

// counterQuery asks for one more counter than the page has left. Not possible
// means that no counter of the budget can be meant.
func counterQuery(access Access, q *BudgetQuery, b *policy.BudgetInfo, at time.Time) (query audit.CounterQuery, possible bool) {
	query = audit.CounterQuery{
		PolicyID: q.PolicyID, RuleID: b.RuleID, Since: b.Since.Version, Principal: access.own(),
		Subject: make([][]string, len(b.Per)), Limit: q.Limit + 1,
	}
	counter := b.Counter(q.PolicyID, "", at)
	query.StartMS, query.BucketMS = counter.StartMS, counter.BucketMS
	if b.RuleID == q.After.RuleID {
		query.After = q.After.Subject
	}
	wanted := map[string]string{"agent_id": q.AgentID, "counterparty": q.Counterparty}
	for i, name := range b.Per {
		if name == "agent_id" && access.key != nil && access.key.Grants.AgentIDs != nil {
			query.Subject[i] = access.key.Grants.AgentIDs
		}
		value := wanted[name]
		if value == "" {
			continue
		}
		if query.Subject[i] != nil && !slices.Contains(query.Subject[i], value) {
			return query, false
		}
		query.Subject[i] = []string{value}
		delete(wanted, name)
	}
	return query, wanted["agent_id"] == "" && wanted["counterparty"] == ""
}

func newBudgetCounter(b policy.BudgetInfo, s audit.SubjectUsage, at time.Time) (BudgetCounter, error) {
	values, err := b.Values(s.Subject)
	if err != nil {
		return BudgetCounter{}, err
	}
	c := BudgetCounter{BudgetInfo: b, Subject: s.Subject, Values: values, Used: s.Used, Count: s.Count}
	c.WindowStart, c.ResetsAt = b.Window(at)
	if bucket := c.ResetsAt.Sub(c.WindowStart); b.RollingMinutes > 0 { // until the oldest bucket that counts leaves
		c.WindowStart = c.WindowStart.Add(-spend.RollingBuckets * bucket)
		c.ResetsAt = time.UnixMilli(s.FirstMS).UTC().Add((spend.RollingBuckets + 1) * bucket)
	}
	return c, nil
}

// BudgetLeft is what a budget has left for an action.
type BudgetLeft struct {
	RuleID         string
	Limited        bool
	Remaining      spend.Total
	Counted        bool
	RemainingCount int64
}

// BudgetsLeft returns what the budgets of the newest version that judge the
// check's action have left, never nil.
func (a *Authorizer) BudgetsLeft(ctx context.Context, check *spend.Check) ([]BudgetLeft, error) {
	left := []BudgetLeft{}
	program, err := a.catalog.program(check.Action.PolicyID)
	if err != nil {
		return nil, err
	}
	resolution := spend.Resolution{Type: check.ActionType, Confidence: check.Decision.Confidence}
	charges := program.Charges(nil, &check.Action, resolution, check.PrincipalName(), a.now())
	if charges == nil {
		return left, nil
	}
	usages, err := a.exhausted.usagesOf(ctx, charges)
	if err != nil {
		return nil, err
	}
	for i := range charges {
		c := &charges[i]
		usage := usages[c.Counter]
		l := BudgetLeft{RuleID: c.RuleID, Limited: c.Limited, Counted: c.Counted, RemainingCount: max(c.MaxCount-usage.Count, 0)}
		if remaining, ok := c.Limit.Total().Minus(usage.Used); ok {
			l.Remaining = remaining
		}
		left = append(left, l)
	}
	return left, nil
}
