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
	// of them is for all currencies: a cap in dollars authorises no euros.
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

// coverCurrencies lets the first max_amount block the currencies for which the
// policy has no limit (S10).
func coverCurrencies(rules []rule) {
	var first *maxAmount
	var covered []string
	for i := range rules {
		c, ok := rules[i].condition.(*maxAmount)
		if !ok {
			continue
		}
		if c.currency == "" {
			return
		}
		if first == nil {
			first = c
		}
		covered = append(covered, c.currency)
	}
	if first != nil {
		slices.Sort(covered)
		first.covered = slices.Compact(covered)
	}
}

func (c *maxAmount) judge(a *spend.Action, _ weekMinute) spend.Reason {
	if c.currency == "" || c.currency == a.Currency {
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
