package policy

import (
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// budget is a compiled budget rule (S33). It judges by counters, which Evaluate does not see: Charges
// and Exceeded are its evaluation.
type budget struct {
	rule   rule // without a condition; its onMissing is for what per names
	index  int  // in the Program's budgets
	before int  // how many of the Program's rules come before it in the policy

	limited  bool
	limit    spend.Amount
	counted  bool
	maxCount int64
	currency string // of the actions that count; empty: all
	per      dimensions
	members  []string // of metadata, which it counts apart besides per; sorted
	types    typeSet  // that its parameters name
	period   period
	notifyAt spend.Percentages

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
	{
		Name: "per", Example: `["agent_id"]`,
		Text: "what to count apart, " + perForm + "; all together if left out",
	},
	{Name: "window", Names: unitNames[:], Example: `"day"`, Text: "the calendar window; this or rolling_minutes is required"},
	{Name: "rolling_minutes", Min: 1, Max: 31 * 24 * 60, Text: "the length of a rolling window"},
	{Name: "time_zone", Text: "whose calendar the window follows, for example Europe/Berlin; UTC if left out"},
	{Name: "action_types", Names: everyType.names(), Text: "count and judge only these; all four if left out"},
	{Name: "on_exceed", Names: []string{"block", "escalate"}, Text: "block if left out"},
	{Name: paramNotifyAt, Text: "up to five percentages of the limit, from 1 to 99; usage that reaches one is an event"},
	{
		Name: paramOnMissing, Names: onMissingParameter.Names,
		Text: "what to do when a field of per is absent; required if per has merchant_or_vendor, payment_method or metadata.NAME",
	},
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
	b.compilePer(o, r)
	b.period = compilePeriod(o)
	b.types = everyType
	if types := compileTypes(o); types != 0 {
		b.types = types
	}
	r.types = b.types
	b.notifyAt = compileNotifyAt(o)
	if i, _ := o.oneOf("on_exceed"); i == 1 {
		r.effect = spend.Escalate
	}
	r.approval = o.approval(r.effect == spend.Escalate || r.asksIfMissing(), "is accepted only with on_exceed or on_missing escalate")
	r.budget = b
	return b.describe(r)
}

const paramNotifyAt = "notify_at"

// compileNotifyAt reads a list of percentages; none when it is absent.
func compileNotifyAt(o *objectReader) (all spend.Percentages) {
	raw := o.value(paramNotifyAt)
	if raw == nil {
		return all
	}
	if raw.Kind() != jsontext.KindBeginArray {
		o.fault(paramNotifyAt, "must be an array of integers")
		return all
	}
	var given []int
	for i, raw := range elements(raw, spend.MaxPercentages+1) {
		n, ok := spend.ParseInteger(string(raw))
		switch {
		case !ok || n < 1 || n > 99:
			o.fault(index(paramNotifyAt, i), "must be an integer from 1 to 99")
		case slices.Contains(given, int(n)):
			o.fault(index(paramNotifyAt, i), repeated)
		}
		given = append(given, int(n))
	}
	if len(given) == 0 || len(given) > spend.MaxPercentages {
		o.fault(paramNotifyAt, "must have 1 to 5 entries")
		return all
	}
	slices.Sort(given)
	return spend.PercentagesOf(given)
}

const repeated = "must not be in the list twice"

// perForm says what per may have.
const perForm = "agent_id, counterparty, api_key, action_type, merchant_or_vendor, payment_method or metadata.NAME"

func (b *budget) compilePer(o *objectReader, r *rule) {
	if raw := o.value("per"); raw != nil {
		o.each("per", raw, b.addDimension)
		slices.Sort(b.members)
	}
	missable := b.per&perOptional != 0 || b.members != nil
	switch given := o.member(paramOnMissing) != nil; {
	case missable && !given:
		o.fault(paramOnMissing, "is required with a per that has merchant_or_vendor, payment_method or metadata.NAME")
	case given && !missable:
		o.fault(paramOnMissing, "is accepted only with a per that has merchant_or_vendor, payment_method or metadata.NAME")
	}
	r.onMissing = o.onMissing()
}

// addDimension adds an entry of per, and returns what is wrong with it.
func (b *budget) addDimension(entry string) string {
	if member, ok := strings.CutPrefix(entry, metadataPrefix); ok && !spend.Blank(member) {
		switch {
		case slices.Contains(b.members, member):
			return repeated
		case len(b.members) == maxMetadataTests:
			return "must be one of at most 8 names of metadata"
		}
		b.members = append(b.members, member)
		return ""
	}
	i := slices.Index(dimensionNames[:], entry)
	switch d := dimensions(1) << max(i, 0); {
	case i < 0:
		return "must be " + perForm
	case b.per&d != 0:
		return repeated
	default:
		b.per |= d
	}
	return ""
}

// compileTypes reads a list of action types that names none twice; 0 when absent.
func compileTypes(o *objectReader) (types typeSet) {
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
	if names := b.perNames(); len(names) > 0 {
		text += " per " + strings.Join(names, ", ")
	}
	text += " " + b.period.String()
	if b.types != everyType {
		text += " for " + b.types.String()
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
	perMerchant
	perPaymentMethod

	perOptional = perMerchant | perPaymentMethod // which an action may lack
)

// dimensionNames are in the order of the values in a subject, whatever the order
// in the rule: which does not matter to a counter's identity (S37).
var dimensionNames = [...]string{"agent_id", "counterparty", "api_key", "action_type", "merchant_or_vendor", "payment_method"}

// perNames lists what the budget counts apart, in the order of a subject's values.
func (b *budget) perNames() []string {
	names := []string{}
	for i, name := range dimensionNames {
		if b.per&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	for _, member := range b.members {
		names = append(names, metadataPrefix+member)
	}
	return names
}

// lacking lists the fields that the budget counts apart and the action lacks.
func (b *budget) lacking(a *spend.Action) (fields []string) {
	for d, value := range map[dimensions]string{perMerchant: a.MerchantOrVendor, perPaymentMethod: a.PaymentMethod} {
		if b.per&d != 0 && value == "" {
			fields = append(fields, dimensionNames[bits.TrailingZeros8(uint8(d))])
		}
	}
	slices.Sort(fields)
	for _, member := range b.members {
		if a.Metadata.Dimension(member) == "" {
			fields = append(fields, metadataPrefix+member)
		}
	}
	return fields
}

// lacks reports whether lacking lists any. It does not allocate, except for texts with escapes or in another form than NFC.
func (b *budget) lacks(a *spend.Action) bool {
	return b.per&perMerchant != 0 && a.MerchantOrVendor == "" || b.per&perPaymentMethod != 0 && a.PaymentMethod == "" ||
		slices.ContainsFunc(b.members, func(member string) bool { return !a.Metadata.HasDimension(member) })
}

// budgetContext is the part of a budget that other rules have: it fires for an action that lacks what the budget
// counts apart, or what its conditions read.
type budgetContext struct{ budget *budget }

func (c *budgetContext) inCurrency(a *spend.Action) bool { return c.budget.inCurrency(a) }

func (c *budgetContext) judge(a *spend.Action, _ moment) spend.Reason {
	if c.inCurrency(a) && c.budget.lacks(a) {
		return spend.ReasonRequiredContextMissed
	}
	return spend.ReasonNone
}

func (c *budgetContext) explain(Finding, *spend.Action, *guardSettings) (message, nextStep string) {
	panic("BUG: a budget's context was not missing")
}

// dependsOnType reports whether the resolved action type decides if and where an
// action counts.
func (b *budget) dependsOnType() bool { return b.rule.types != everyType || b.per&perActionType != 0 }

// judges reports whether an action counts, or would (S34).
func (b *budget) judges(a *spend.Action, t spend.ActionType) bool {
	return b.rule.types.has(t) && b.inCurrency(a) && b.counts(a)
}

func (b *budget) inCurrency(a *spend.Action) bool {
	return b.currency == "" || b.currency == a.Currency
}

// counts reports whether the policy has the budget for an action, whatever its type and currency (S88).
func (b *budget) counts(a *spend.Action) bool { return b.rule.when.judge(a) == matches && !b.lacks(a) }
