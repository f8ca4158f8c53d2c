package policy

import "spendgate/audit/spend"

const mustBeActionType = "must be refund, credit, discount or spend"

// escalateIf sends amounts over a threshold to a human. The action types that
// it names are the rule's (S13).
type escalateIf struct{ above spend.Amount }

var escalateIfParameters = []Parameter{
	{Name: "amount_above", Required: true, Example: "200", Text: "the highest amount that is not escalated"},
	{Name: "action_types", Names: everyType.names(), Example: `["refund", "credit"]`, Text: "only these; all four if left out"},
	approvalParameter,
}

func compileEscalateIf(o *objectReader, r *rule) string {
	above, _ := o.amount("amount_above")
	c := &escalateIf{above}
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
	description := "Escalates amounts over " + c.above.Money("")
	if given {
		r.types = types
		description += " for " + types.String()
	}
	return description
}

func (c *escalateIf) judge(a *spend.Action, _ weekMinute) spend.Reason {
	if a.Amount.Cmp(c.above) > 0 {
		return spend.ReasonEscalationThreshold
	}
	return spend.ReasonNone
}

func (c *escalateIf) explain(_ Finding, a *spend.Action, _ *guardSettings) (message, nextStep string) {
	return a.Amount.Money(a.Currency) + " exceeds the escalation threshold of " + c.above.Money(a.Currency),
		routeToHuman + "."
}
