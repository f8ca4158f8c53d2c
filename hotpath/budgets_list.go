package hotpath

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// BudgetQuery selects counters of a policy's budgets. Empty fields do not filter.
type BudgetQuery struct {
	PolicyID     string
	RuleID       string
	AgentID      string    // of budgets per agent, beside counters for all agents together
	Counterparty string    // of budgets per counterparty
	At           time.Time // the time whose windows are read; zero: now
	After        BudgetPosition
	Limit        int
}

// BudgetPosition is a place in the order of counters.
type BudgetPosition struct{ RuleID, Subject string }

// BudgetCounter is one counter in one of its windows (S38).
type BudgetCounter struct {
	policy.BudgetInfo
	Subject     string
	Values      []jsontext.Value // of Per
	Used        spend.Total
	Count       int64
	Granted     spend.Usage // what open grants add to the limits (S91)
	WindowStart time.Time
	ResetsAt    time.Time // zero of a lifetime, and of a rolling window without usage
}

// BudgetPage is a page of counters, as they were at some moment after AsOf.
type BudgetPage struct {
	Counters []BudgetCounter
	More     bool
	AsOf     time.Time
}

// Budgets returns a page of the counters that the newest version of a policy
// names, by rule_id and subject. Errors: ErrPolicyNotFound, also of a policy that
// the caller may not see; ErrUnavailable.
func (a *Authorizer) Budgets(ctx context.Context, access Access, q BudgetQuery) (BudgetPage, error) {
	if !access.SeesPolicy(q.PolicyID) {
		return BudgetPage{}, &PolicyNotFoundError{q.PolicyID}
	}
	program, err := a.catalog.program(q.PolicyID)
	if err != nil {
		return BudgetPage{}, err
	}
	page := BudgetPage{AsOf: a.now()}
	if q.AgentID != "" && !access.seesAgent(q.AgentID) {
		return page, nil
	}
	l := budgetListing{BudgetQuery: q, store: a.store, access: access, at: cmp.Or(q.At, page.AsOf), asOf: page.AsOf}
	v := a.catalog.view()
	budgets := program.Budgets()
	slices.SortFunc(budgets, func(a, b policy.BudgetInfo) int { return cmp.Compare(a.RuleID, b.RuleID) })
	for _, b := range budgets {
		if b.RuleID < q.After.RuleID || q.RuleID != "" && b.RuleID != q.RuleID {
			continue
		}
		subjects, more, err := l.subjects(ctx, &b)
		if err != nil {
			return BudgetPage{}, err
		}
		for _, s := range subjects {
			c, err := newBudgetCounter(b, s, l.at)
			if err != nil {
				return BudgetPage{}, err
			}
			c.Granted = v.granted(&b, b.Counter(q.PolicyID, s.Subject, l.at), l.asOf) // as the usage: of that window, now
			page.Counters = append(page.Counters, c)
		}
		if more || len(page.Counters) > q.Limit {
			page.Counters, page.More = page.Counters[:q.Limit], true
			return page, nil
		}
	}
	return page, nil
}

// budgetListing is the reading of one page.
type budgetListing struct {
	BudgetQuery
	store  audit.Budgets
	access Access
	at     time.Time // the time whose windows are read
	asOf   time.Time
}

// subjects returns the counters of a budget that the page may have: one more than its limit,
// if there are as many.
func (l *budgetListing) subjects(ctx context.Context, b *policy.BudgetInfo) (subjects []audit.SubjectUsage, more bool, err error) {
	query, possible := l.counterQuery(b)
	if !possible || !l.At.IsZero() && !b.CountedAt(l.at) {
		return nil, false, nil
	}
	subjects, more, err = l.store.ListCounters(ctx, query)
	if err == nil && len(subjects) == 0 {
		subjects, err = l.untouched(ctx, b, query)
	}
	return subjects, more, err
}

// untouched returns the only counter that can be meant for a named agent if nobody used it. It returns
// none for a window whose counters may have been removed, by the clock of a node or of the store.
func (l *budgetListing) untouched(ctx context.Context, b *policy.BudgetInfo, query audit.CounterQuery) ([]audit.SubjectUsage, error) {
	const clocks = time.Hour
	_, end := b.Window(l.at)
	gone := !end.IsZero() && !end.Add(audit.KeepCounters-clocks).After(l.asOf)
	if l.AgentID == "" || b.RuleID == l.After.RuleID || gone {
		return nil, nil
	}
	named := make([]string, len(b.Per))
	for i, values := range query.Subject {
		if len(values) != 1 {
			return nil, nil
		}
		named[i] = values[0]
	}
	if query.Principal != "" { // used, perhaps, by others
		query.Principal = ""
		if others, _, err := l.store.ListCounters(ctx, query); err != nil || len(others) > 0 {
			return nil, err
		}
	}
	return []audit.SubjectUsage{{Subject: spend.SubjectOf(named...)}}, nil
}

// counterQuery selects the counters of a budget. It returns possible false if no counter can match.
func (l *budgetListing) counterQuery(b *policy.BudgetInfo) (query audit.CounterQuery, possible bool) {
	query = audit.CounterQuery{
		PolicyID: l.PolicyID, RuleID: b.RuleID, Since: b.Since.Version, Principal: l.access.own(),
		Subject: make([][]string, len(b.Per)), Limit: l.Limit + 1, Past: !l.At.IsZero(),
	}
	counter := b.Counter(l.PolicyID, "", l.at)
	query.StartMS, query.BucketMS = counter.StartMS, counter.BucketMS
	if b.RuleID == l.After.RuleID {
		query.After = l.After.Subject
	}
	if len(b.Per) == 0 && l.AgentID != "" {
		return query, true
	}
	wanted := map[string]string{"agent_id": spend.NFC(l.AgentID), "counterparty": spend.NFC(l.Counterparty)}
	for i, name := range b.Per {
		if key := l.access.key; name == "agent_id" && key != nil && key.Grants.AgentIDs != nil {
			for _, agent := range key.Grants.AgentIDs {
				query.Subject[i] = append(query.Subject[i], spend.NFC(agent))
			}
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
		if s.Usage == (spend.Usage{}) {
			c.ResetsAt = time.Time{}
			return c, nil
		}
		c.ResetsAt = time.UnixMilli(s.FirstMS).UTC().Add((spend.RollingBuckets + 1) * bucket)
	}
	return c, nil
}

// BudgetLeft is the amount that a budget has left for an action.
type BudgetLeft struct {
	RuleID         string
	Limited        bool
	Remaining      spend.Total
	Counted        bool
	RemainingCount int64
	// The amount left once all approved and unused approvals were used.
	AfterApproved      spend.Total
	AfterApprovedCount int64
}

// BudgetsLeft returns what is left in the budgets of the newest version that judge the action of an
// approval, never nil.
func (a *Authorizer) BudgetsLeft(ctx context.Context, approval *audit.Approval) ([]BudgetLeft, error) {
	left := []BudgetLeft{}
	program, err := a.catalog.program(approval.Check.Action.PolicyID)
	if err != nil {
		return nil, err
	}
	now := a.now()
	charges := chargesOf(program, approval.Check, now)
	if charges == nil {
		return left, nil
	}
	a.catalog.view().raise(charges, now)
	usages, err := a.exhausted.usagesOf(ctx, charges)
	if err != nil {
		return nil, err
	}
	promised, err := a.promised(ctx, program, approval, now)
	if err != nil {
		return nil, err
	}
	for i := range charges {
		c := &charges[i]
		l := BudgetLeft{RuleID: c.RuleID, Limited: c.Limited, Counted: c.Counted}
		usage := usages[c.Counter]
		l.Remaining, l.RemainingCount = remainingOf(c, usage)
		usage.Used, usage.Count = usage.Used.Plus(promised[c.Counter].Used), usage.Count+promised[c.Counter].Count
		l.AfterApproved, l.AfterApprovedCount = remainingOf(c, usage)
		left = append(left, l)
	}
	return left, nil
}

// chargesOf returns the charges that an allow of the check's action would make now.
func chargesOf(p *policy.Program, check *spend.Check, now time.Time) []spend.Charge {
	resolution := spend.Resolution{Type: check.ActionType, Confidence: check.Decision.Confidence}
	return p.Charges(nil, &check.Action, resolution, check.PrincipalName(), now)
}

func remainingOf(c *spend.Charge, usage spend.Usage) (remaining spend.Total, count int64) {
	remaining, _ = c.Limit.Minus(usage.Used) // zero when there is less than nothing
	return remaining, max(c.MaxCount-usage.Count, 0)
}

// promised returns the charges that the other approved and unused approvals of the policy would make,
// of the newest openAtMost.
func (a *Authorizer) promised(
	ctx context.Context, p *policy.Program, than *audit.Approval, now time.Time,
) (map[spend.Counter]spend.Usage, error) {
	taken := make(map[spend.Counter]spend.Usage)
	q := audit.ApprovalQuery{Status: audit.ApprovalApproved, PolicyID: than.Check.Action.PolicyID, Limit: openAtMost}
	approved, _, err := a.store.ListApprovals(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, other := range approved {
		if other.Check.ID == than.Check.ID {
			continue
		}
		for _, c := range chargesOf(p, other.Check, now) {
			usage := taken[c.Counter]
			usage.Used, usage.Count = usage.Used.Plus(c.Amount.Total()), usage.Count+1
			taken[c.Counter] = usage
		}
	}
	return taken, nil
}
