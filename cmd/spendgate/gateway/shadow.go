package gateway

import (
	"context"
	"crypto/rand"
	"time"

	"spendgate/hotpath/client"
)

// shadowTimeout is how long a shadow lets a call wait for the service.
const shadowTimeout = 2 * time.Second

// shadow carries a call out whatever the service says, and records what it says. fault
// is why the call could not be understood.
func (c *mappedCall) shadow(fault error) result {
	c.attempt = 1
	var check *client.Result
	redeemed := false
	would := stateError
	if fault == nil {
		check, redeemed, would = c.wouldBe()
	} else {
		c.gw.log.Warn("a shadow passes a call that it does not understand", "upstream", c.l.u.name, "tool", c.name, "error", fault)
	}
	key := rand.Text()
	if redeemed {
		key = check.CheckID
	}
	arguments, err := c.t.sent(c.arguments, key)
	if err != nil {
		arguments = c.arguments
	}
	c.compared = nil // a shadow calls whichever server there is
	a := c.ask(arguments)
	r := result{state: stateExecuted, shadow: would, server: a.result}
	if check != nil {
		r.checkID, r.decision = check.CheckID, check.Decision.String()
	}
	failed := a.lost || a.unsent || a.isError
	switch {
	case !redeemed:
	case !failed:
		c.report(check.CheckID, client.OutcomeReport{Status: outcomeExecuted, Reference: cut(c.t.reference(a.result))})
	case a.unsent || a.isError && c.t.OnError == onErrorFailed:
		c.report(check.CheckID, client.OutcomeReport{Status: outcomeFailed, Note: a.problem})
	default:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), shadowTimeout)
		defer cancel()
		c.gw.doubt(ctx, check.CheckID)
	}
	if failed {
		r.state = stateError
	}
	if a.result == nil {
		r.isError, r.text = true, a.problem
	}
	return r
}

// wouldBe asks the service and returns the state that the call would have without
// shadow, and whether its check is redeemed.
func (c *mappedCall) wouldBe() (check *client.Result, redeemed bool, state string) {
	ctx, cancel := context.WithTimeout(c.ctx, shadowTimeout)
	defer cancel()
	a := c.action
	a.IdempotencyKey = c.key(c.attempt)
	check, err := c.gw.api.Check(ctx, a)
	if err != nil {
		c.gw.log.Warn("a shadow passes a call without a decision", "upstream", c.l.u.name, "tool", c.name, "error", err)
		return nil, false, stateError
	}
	switch {
	case check.Outcome.Status == outcomeExecuted:
		return check, false, stateAlready
	case check.Decision == client.Block, check.Decision == client.Escalate && check.ApprovalID == "":
		return check, false, stateRefused
	case check.Decision == client.Escalate:
		return check, false, statePending
	case check.Outcome.Reported():
		return check, false, stateExecuted // as another attempt
	}
	if _, err := c.gw.api.Redeem(ctx, check.CheckID, client.RedeemFor(c.action)); err != nil {
		c.gw.log.Warn("a shadow passes a call whose check is not redeemed", "check_id", check.CheckID, "error", err)
		return check, false, stateInDoubt
	}
	return check, true, stateExecuted
}
