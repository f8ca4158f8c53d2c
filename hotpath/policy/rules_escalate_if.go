package policy

import "spendgate/audit/spend"

const mustBeActionType = "must be refund, credit, discount or spend"

// escalateIf sends amounts over a threshold to a human. The action types that
// it names are the rule's (S13).
type escalateIf struct{ above, upTo *spend.Amount } // exclusive and inclusive; nil: any

var escalateIfParameters = []Parameter{
	{Name: "amount_above", Example: "200", Text: "the highest amount that is not escalated; required unless the rule has conditions"},
	{Name: "amount_up_to", Text: "the highest amount that is escalated; any if left out"},
	{Name: "action_types", Names: everyType.names(), Example: `["refund", "credit"]`, Text: "only these; all four if left out"},
	approvalParameter,
}

func compileEscalateIf(o *objectReader, r *rule) string {
	c := &escalateIf{}
	c.above, c.upTo = o.amountRange()
	if o.member("amount_above") == nil && r.when == nil {
		o.fault("amount_above", isRequired)
	}
	var types typeSet
	given := o.list("action_types", func(entry string) string {
		t, ok := spend.ParseActionType(entry)
		if !ok {
			return mustBeActionType
		}
		types |= 1 << t
		return ""
	})
	r.condition, r.approval = c, o.approval(true, "")
	description := "Escalates " + c.amounts("")
	if given {
		r.types = types
		description += " for " + types.String()
	}
	return description
}

// amounts returns a text like "amounts over 200.00 USD, up to 500.00 USD".
func (c *escalateIf) amounts(currency string) string {
	switch {
	case c.above == nil && c.upTo == nil:
		return "any amount"
	case c.above == nil:
		return "amounts up to " + c.upTo.Money(currency)
	case c.upTo == nil:
		return "amounts over " + c.above.Money(currency)
	}
	return "amounts over " + c.above.Money(currency) + ", up to " + c.upTo.Money(currency)
}

// identity returns a text that is equal for thresholds that are the same.
func (c *escalateIf) identity() (text string) {
	if c.above != nil {
		text = c.above.String()
	}
	if c.upTo != nil {
		text += " up to " + c.upTo.String()
	}
	return text
}

func (c *escalateIf) judge(a *spend.Action, _ moment) spend.Reason {
	if c.above != nil && a.Amount.Cmp(*c.above) <= 0 || c.upTo != nil && a.Amount.Cmp(*c.upTo) > 0 {
		return spend.ReasonNone
	}
	return spend.ReasonEscalationThreshold
}

func (c *escalateIf) explain(_ Finding, a *spend.Action, _ *guardSettings) (message, nextStep string) {
	nextStep = routeToHuman + "."
	if c.above == nil {
		return "the policy escalates this action of " + a.Amount.Money(a.Currency), nextStep
	}
	return a.Amount.Money(a.Currency) + " exceeds the escalation threshold of " + c.above.Money(a.Currency), nextStep
}
