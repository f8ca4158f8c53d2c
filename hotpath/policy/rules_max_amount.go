package policy

import (
	"slices"

	"spendgate/audit/spend"
)

// maxAmount blocks amounts over a limit, in one currency or in all (S10).
type maxAmount struct {
	limit    spend.Amount
	currency string // empty: all

	// covered is set only in the policy's first max_amount, and only if none
	// of them is for all currencies or has conditions: a cap in dollars authorises no euros.
	covered []string // sorted
}

var maxAmountParameters = []Parameter{
	{Name: "limit", Required: true, Example: "500", Text: "the highest amount of an action"},
	{Name: "currency", Example: `"USD"`, Text: "the currency of the limit; all if left out"},
}

func compileMaxAmount(o *objectReader, r *rule) string {
	limit, _ := o.amount("limit")
	c := &maxAmount{limit: limit, currency: o.currency("currency")}
	r.condition = c
	if c.currency == "" {
		return "Blocks amounts over " + c.limit.Money("") + " in any currency"
	}
	return "Blocks amounts over " + c.limit.Money(c.currency)
}

func (r *rule) isCap() bool {
	_, ok := r.condition.(*maxAmount)
	return ok
}

// coverCurrencies lets the first max_amount block the currencies for which the
// policy has no limit (S10). If one of them has conditions, Evaluate does so.
func (p *Program) coverCurrencies() {
	var caps []int
	conditional := false
	for i := range p.rules {
		if p.rules[i].isCap() {
			caps = append(caps, i)
			conditional = conditional || p.rules[i].when != nil
		}
	}
	switch {
	case conditional:
		p.caps = caps
	case caps != nil:
		p.rules[caps[0]].condition.(*maxAmount).covered = p.covered(caps, func(*rule) bool { return true })
	}
}

// covered lists the currencies of those max_amount rules that apply; nil if one is for all currencies.
func (p *Program) covered(caps []int, applies func(*rule) bool) (currencies []string) {
	for _, i := range caps {
		c := p.rules[i].condition.(*maxAmount)
		switch {
		case !applies(&p.rules[i]):
		case c.currency == "":
			return nil
		default:
			currencies = append(currencies, c.currency)
		}
	}
	slices.Sort(currencies)
	return slices.Compact(currencies)
}

// coveredFor lists the currencies of those that apply to the action.
func (p *Program) coveredFor(a *spend.Action, t spend.ActionType) []string {
	return p.covered(p.caps, func(r *rule) bool { return r.applies(a, t) })
}

// covers reports whether a max_amount that applies to the action is for its currency.
func (p *Program) covers(a *spend.Action, t spend.ActionType) bool {
	return slices.ContainsFunc(p.caps, func(i int) bool {
		return p.rules[i].condition.(*maxAmount).inCurrency(a) && p.rules[i].applies(a, t)
	})
}

func (c *maxAmount) inCurrency(a *spend.Action) bool {
	return c.currency == "" || c.currency == a.Currency
}

func (c *maxAmount) judge(a *spend.Action, _ moment) spend.Reason {
	if c.inCurrency(a) {
		if a.Amount.Cmp(c.limit) > 0 {
			return spend.ReasonMaxAmount
		}
		return spend.ReasonNone
	}
	if c.covered != nil {
		if _, ok := slices.BinarySearch(c.covered, a.Currency); !ok {
			return spend.ReasonCurrencyNotCovered
		}
	}
	return spend.ReasonNone
}

func (c *maxAmount) explain(f Finding, a *spend.Action, _ *guardSettings) (message, nextStep string) {
	if f.Reason == spend.ReasonCurrencyNotCovered {
		covered := enumerate(c.covered)
		return a.Amount.Money(a.Currency) + " is in a currency for which the policy has no limit: it has limits in " + covered,
			"Do not proceed. Use a currency that the policy covers (" + covered + "), or ask the policy's owner for a limit in " + a.Currency + "."
	}
	limit := c.limit.Money(a.Currency)
	return a.Amount.Money(a.Currency) + " exceeds the limit of " + limit,
		"Do not proceed, and do not split the action to get under the limit. Ask for at most " + limit +
			", or ask the policy's owner to raise the limit."
}
