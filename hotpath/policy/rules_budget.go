package policy

import (
	"strings"
	"sync/atomic"

	"spendgate/audit/spend"
)

// budget is a compiled budget rule (S33). It judges by counters, which Evaluate does not see: Charges
// and Exceeded are its evaluation.
type budget struct {
	rule   rule // without a condition
	index  int  // in the Program's budgets
	before int  // how many of the Program's rules come before it in the policy

	limited  bool
	limit    spend.Amount
	counted  bool
	maxCount int64
	currency string // of the actions that count; empty: all
	per      dimensions
	period   period

	since   spend.BudgetSince
	shared  spend.ID             // the counter's when per is empty
	current atomic.Pointer[span] // the calendar window of the last charge
}

var budgetParameters = []Parameter{
	{Name: "limit", Example: "1000", Text: "the most that may be allowed in a window, with its currency"},
	{Name: "currency", Example: `"USD"`, Text: "count only actions in it; required with limit"},
	{
		Name: "max_count", Max: 1_000_000_000, Example: "50",
		Text: "the most actions that may be allowed in a window; limit or max_count is required",
	},
	{Name: "per", Names: dimensionNames[:], Example: `["agent_id"]`, Text: "what to count apart; all together if left out"},
	{Name: "window", Names: unitNames[:], Example: `"day"`, Text: "the calendar window; this or rolling_minutes is required"},
	{Name: "rolling_minutes", Min: 1, Max: 31 * 24 * 60, Text: "the length of a rolling window"},
	{Name: "time_zone", Text: "whose calendar the window follows, for example Europe/Berlin; UTC if left out"},
	{Name: "action_types", Names: everyType.names(), Text: "count and judge only these; all four if left out"},
	{Name: "on_exceed", Names: []string{"block", "escalate"}, Text: "block if left out"},
	approvalParameter,
}

func compileBudget(o *objectReader, r *rule) string {
	b := &budget{}
	b.limit, b.limited = o.amount("limit")
	b.currency = o.currency("currency")
	if b.limited && o.member("currency") == nil {
		o.fault("currency", isRequired)
	}
	b.maxCount, b.counted = o.integer("max_count")
	if !b.limited && !b.counted {
		o.fault("limit", "is required unless max_count is given")
	}
	b.per = compilePer(o)
	b.period = compilePeriod(o)
	if types := compileBudgetTypes(o); types != 0 {
		r.types = types
	}
	if i, _ := o.oneOf("on_exceed"); i == 1 {
		r.effect = spend.Escalate
	}
	r.approval = o.approval(r.effect == spend.Escalate, "is accepted only with on_exceed escalate")
	r.budget = b
	return b.describe(r)
}

const repeated = "must not be in the list twice"

func compilePer(o *objectReader) (per dimensions) {
	raw := o.value("per")
	if raw == nil {
		return 0
	}
	o.each("per", raw, func(entry string) string {
		for i, name := range dimensionNames {
			switch d := dimensions(1) << i; {
			case name != entry:
			case per&d != 0:
				return repeated
			default:
				per |= d
				return ""
			}
		}
		return "must be one of " + strings.Join(dimensionNames[:], ", ")
	})
	return per
}

func compileBudgetTypes(o *objectReader) (types typeSet) {
	o.list("action_types", func(entry string) string {
		t, ok := spend.ParseActionType(entry)
		switch {
		case !ok:
			return mustBeActionType
		case types.has(t):
			return repeated
		}
		types |= 1 << t
		return ""
	})
	return types
}

// describe returns a text like "Blocks more than 1000.00 USD or 50 actions per
// agent_id each day (UTC) for refund".
func (b *budget) describe(r *rule) string {
	text := "Blocks more than "
	if r.effect == spend.Escalate {
		text = "Escalates more than "
	}
	if b.limited {
		text += b.limit.Money(b.currency)
	}
	if b.limited && b.counted {
		text += " or "
	}
	if b.counted {
		text += b.actions(b.maxCount)
	}
	if b.per != 0 {
		text += " per " + strings.Join(b.per.names(), ", ")
	}
	text += " " + b.period.String()
	if r.types != everyType {
		text += " for " + r.types.String()
	}
	return text
}

// actions formats a number of the actions that count: "50 actions in USD", or
// without the currency where the limit shows it.
func (b *budget) actions(n int64) string {
	s := count(n, "action")
	if b.currency != "" && !b.limited {
		s += " in " + b.currency
	}
	return s
}

// dimensions is the set of dimensions that a budget counts separately: each agent, each counterparty
// and so on.
type dimensions uint8

const (
	perAgent dimensions = 1 << iota
	perCounterparty
	perAPIKey
	perActionType
)

// dimensionNames are in the order of the values in a subject, whatever the order
// in the rule: which does not matter to a counter's identity (S37).
var dimensionNames = [...]string{"agent_id", "counterparty", "api_key", "action_type"}

func (d dimensions) names() []string {
	names := []string{}
	for i, name := range dimensionNames {
		if d&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// dependsOnType reports whether the resolved action type decides if and where an
// action counts.
func (b *budget) dependsOnType() bool { return b.rule.types != everyType || b.per&perActionType != 0 }

// judges reports whether an action counts, or would (S34).
func (b *budget) judges(a *spend.Action, t spend.ActionType) bool {
	return b.rule.types.has(t) && (b.currency == "" || b.currency == a.Currency)
}
