package policy

import (
	"strconv"
	"strings"

	"spendgate/audit/spend"
)

// blockedPaymentRails blocks the listed payment methods.
type blockedPaymentRails struct{ names }

var blockedPaymentRailsParameters = []Parameter{
	{Name: "rails", Required: true, Example: `["crypto", "wire"]`, Text: "payment methods that may not be used, whatever their case"},
	onMissingParameter, approvalParameter,
}

func compileBlockedPaymentRails(o *objectReader, r *rule) string {
	listed := o.entries("rails")
	r.condition = &blockedPaymentRails{newNames(listed)}
	return "Blocks payment by " + enumerate(listed)
}

func (c *blockedPaymentRails) judge(a *spend.Action, _ moment) spend.Reason {
	switch {
	case a.PaymentMethod == "":
		return spend.ReasonRequiredContextMissed
	case c.has(a.PaymentMethod):
		return spend.ReasonBlockedPaymentRail
	}
	return spend.ReasonNone
}

func (c *blockedPaymentRails) explain(_ Finding, a *spend.Action, g *guardSettings) (message, nextStep string) {
	return "payment method " + strconv.Quote(strings.TrimSpace(a.PaymentMethod)) + " is blocked",
		"Do not proceed. Choose another payment method and check again" + g.afterBlock() + "."
}
