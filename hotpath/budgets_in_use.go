package hotpath

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// Bounds of what a refusal says about the budgets in use.
const (
	maxRulesShown      = 10
	maxCountersShown   = 10 // of all rules together
	maxCountersCounted = 1000
)

// BudgetsInUseError refuses a version of a policy that would empty budgets which are in
// use (S63).
type BudgetsInUseError struct {
	Rules     []BudgetInUse // the first of them
	MoreRules int
}

// BudgetInUse is a budget that ends, with those of its counters that the caller may see.
type BudgetInUse struct {
	policy.BudgetInfo
	Counters  []BudgetCounter // the first of them
	Others    int
	Uncounted bool // there are more than Others
}

func (e *BudgetsInUseError) Error() string {
	var b strings.Builder
	b.WriteString("this version would empty budgets that are in use; list them in drop_budgets if that is meant: ")
	for i := range e.Rules {
		if i > 0 {
			b.WriteString("; ")
		}
		e.Rules[i].write(&b)
	}
	if e.MoreRules > 0 {
		fmt.Fprintf(&b, "; and %d more rules", e.MoreRules)
	}
	return b.String()
}

// write adds a text like `rule "day": 40 USD and count 2 of agent_id "a", and 1 more`.
func (u *BudgetInUse) write(b *strings.Builder) {
	fmt.Fprintf(b, "rule %q", u.RuleID)
	separator := ": "
	for _, c := range u.Counters {
		b.WriteString(separator)
		separator = ", "
		if c.Currency != "" {
			b.WriteString(c.Used.Money(c.Currency) + " and ")
		}
		fmt.Fprintf(b, "count %d", c.Count)
		for i, name := range c.Per {
			fmt.Fprintf(b, " of %s %s", name, c.Values[i])
		}
	}
	than := ""
	if u.Uncounted {
		than = "more than "
	}
	switch {
	case u.Others == 0:
	case u.Counters != nil:
		fmt.Fprintf(b, ", and %s%d more", than, u.Others)
	default:
		fmt.Fprintf(b, ": counters in use: %s%d", than, u.Others)
	}
}

// budgetsInUse returns the refusal of a version that ends these budgets: the usage as far as the
// caller may read it, and the number of counters. The usage may have changed since the refusal.
func (a *Authorizer) budgetsInUse(ctx context.Context, access Access, policyID string, ruleIDs []string) error {
	program, err := a.catalog.compile(policyID, 0)
	if err != nil {
		return err
	}
	refused := &BudgetsInUseError{MoreRules: max(len(ruleIDs)-maxRulesShown, 0)}
	left, at := maxCountersShown, a.now()
	for _, id := range ruleIDs[:len(ruleIDs)-refused.MoreRules] {
		budgets := program.Budgets()
		i := slices.IndexFunc(budgets, func(b policy.BudgetInfo) bool { return b.RuleID == id })
		if i < 0 { // of a version that came since
			refused.Rules = append(refused.Rules, BudgetInUse{BudgetInfo: policy.BudgetInfo{RuleID: id}})
			continue
		}
		u := BudgetInUse{BudgetInfo: budgets[i]}
		counter := u.Counter(policyID, "", at)
		counters, more, err := a.store.ListCounters(ctx, audit.CounterQuery{
			PolicyID: policyID, RuleID: id, Since: u.Since.Version, StartMS: counter.StartMS, BucketMS: counter.BucketMS,
			Subject: make([][]string, len(u.Per)), Limit: maxCountersCounted,
		})
		if err != nil {
			return fmt.Errorf("%w: cannot read the budgets of policy %s: %w", ErrUnavailable, policyID, err)
		}
		u.Others, u.Uncounted = len(counters), more
		for _, s := range counters {
			c, err := newBudgetCounter(u.BudgetInfo, s, at)
			if err != nil {
				return err
			}
			if left > 0 && access.seesCounter(&c) {
				u.Counters = append(u.Counters, c)
				u.Others--
				left--
			}
		}
		refused.Rules = append(refused.Rules, u)
	}
	return refused
}

// seesCounter reports whether the caller may read the counter's usage (S38). The counter does not show
// whose checks it counts.
func (a Access) seesCounter(c *BudgetCounter) bool {
	if a.permit(spend.BudgetsRead) != nil || a.own() != "" {
		return false
	}
	i := slices.Index(c.Per, "agent_id")
	return i < 0 || a.seesAgent(policy.TextOf(c.Values[i]))
}
