package policy

import "spendgate/hotpath/spend"

// discountCap blocks discounts over a percentage.
type discountCap struct{ maxPercent spend.Amount }

func compileDiscountCap(o *object, r *rule) string {
	c := &discountCap{o.amount("max_percent")}
	if c.maxPercent.Cmp(hundred()) > 0 {
		o.fault("max_percent", "must be at most 100")
	}
	r.condition = c
	return "Blocks discounts over " + c.maxPercent.String() + "%"
}

func hundred() spend.Amount {
	a, err := spend.AmountFromParts(100, 0)
	if err != nil {
		panic("BUG: 100 is no amount")
	}
	return a
}

func (c *discountCap) judge(a *spend.Action, _ weekMinute) spend.Reason {
	switch {
	case !a.Metadata.HasDiscountPercent:
		return spend.ReasonRequiredContextMissed
	case a.Metadata.DiscountPercent.Cmp(c.maxPercent) > 0:
		return spend.ReasonDiscountCap
	}
	return spend.ReasonNone
}

func (c *discountCap) explain(_ Finding, a *spend.Action, _ *guard) (message, nextStep string) {
	limit := c.maxPercent.String() + "%"
	return "a discount of " + a.Metadata.DiscountPercent.String() + "% exceeds the limit of " + limit,
		"Do not proceed. Offer at most " + limit + ", or ask the policy's owner to raise the limit."
}
