package policy

import "spendgate/audit/spend"

// refundAgeLimit blocks refunds of purchases that are too old.
type refundAgeLimit struct{ maxDays int64 }

var refundAgeLimitParameters = []Parameter{
	{Name: "max_days", Required: true, Example: "30", Text: "the most days since the purchase"},
	onMissingParameter, approvalParameter,
}

func compileRefundAgeLimit(o *objectReader, r *rule) string {
	maxDays, _ := o.integer("max_days")
	c := &refundAgeLimit{maxDays}
	r.condition = c
	return "Blocks refunds more than " + count(c.maxDays, "day") + " after the purchase"
}

func (c *refundAgeLimit) judge(a *spend.Action, _ moment) spend.Reason {
	switch {
	case !a.Metadata.HasDaysSincePurchase:
		return spend.ReasonRequiredContextMissed
	case a.Metadata.DaysSincePurchase > c.maxDays:
		return spend.ReasonRefundAge
	}
	return spend.ReasonNone
}

func (c *refundAgeLimit) explain(_ Finding, a *spend.Action, _ *guardSettings) (message, nextStep string) {
	return count(a.Metadata.DaysSincePurchase, "day") + " since the purchase exceeds the limit of " + count(c.maxDays, "day"),
		"Do not proceed. Tell the customer that the purchase is too old for a refund, or ask the policy's owner for an exception."
}
