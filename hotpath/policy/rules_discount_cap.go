package policy

import "spendgate/audit/spend"

// discountCap blocks discounts over a percentage.
type discountCap struct{ maxPercent spend.Amount }

var discountCapParameters = []Parameter{
	{Name: "max_percent", Required: true, Max: 100, Example: "20", Text: "the highest percentage of a discount"},
	onMissingParameter, approvalParameter,
}

func compileDiscountCap(o *objectReader, r *rule) string {
	maxPercent, _ := o.amount("max_percent")
	c := &discountCap{maxPercent}
	r.condition = c
	return "Blocks discounts over " + c.maxPercent.String() + "%"
}

func (c *discountCap) judge(a *spend.Action, _ moment) spend.Reason {
	switch {
	case !a.Metadata.HasDiscountPercent:
		return spend.ReasonRequiredContextMissed
	case a.Metadata.DiscountPercent.Cmp(c.maxPercent) > 0:
		return spend.ReasonDiscountCap
	}
	return spend.ReasonNone
}

func (c *discountCap) explain(_ Finding, a *spend.Action, _ *guardSettings) (message, nextStep string) {
	limit := c.maxPercent.String() + "%"
	return "a discount of " + a.Metadata.DiscountPercent.String() + "% exceeds the limit of " + limit,
		"Do not proceed. Offer at most " + limit + ", or ask the policy's owner to raise the limit."
}
