package backtest

import (
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// allowance is a check of a payment that the candidate allows and history did not: nobody asks for the payment again.
type allowance struct {
	check   spend.ID
	round   int
	charges []spend.Charge
}

// pay remembers what the candidate allows of a payment.
func (e *Engine) pay(c *spend.Check, j *judgement, takes []spend.Charge) {
	switch {
	case j == nil || e.o.Recorded || c.Payment == nil:
	case j.Effect == spend.Allow && c.Decision.Effect != spend.Allow:
		e.paid[c.PaymentHash()] = allowance{c.ID, c.Payment.Round, takes}
	default:
		delete(e.paid, c.PaymentHash())
	}
}

// followMade is follow for a check that the candidate's agent would not have made: its outcome becomes the outcome of the check
// that the candidate allowed before.
func (e *Engine) followMade(r *Record, own *policy.Program, before spend.ID, charges []spend.Charge) {
	c := r.Check
	if c.Pass.Passed() {
		e.leave(c, [sides]held{{until: c.Pass.UntilMS, effect: c.Decision.Effect}, {}})
	}
	if c.Decision.Effect != spend.Allow {
		return
	}
	var took []spend.Charge
	if own != nil && own.HasBudgets() {
		took = e.take(recorded, e.charges(own, c))
	}
	e.expect(c, before, r.Reports, took, charges)
}
