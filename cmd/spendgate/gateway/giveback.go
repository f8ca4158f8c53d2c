package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"spendgate/hotpath/client"
)

// The notes of checks that are given back, for people.
const (
	unusedNote  = "nothing was carried out under this check"
	earlierNote = "an earlier attempt of the same call was carried out"
	laterNote   = "a later attempt of the same call is recorded"
	paidNote    = "the payment was redeemed under another check"

	repeatedNote = "the gateway that redeemed it was waited for, and the call is repeated under the same check now"
)

// giveBack gives back an allow that the gateway asked for and nobody carries out, and says why. The key that
// asked for a check may give it back only if it also redeemed it (S61), so the check is redeemed
// and then reported as voided. If that is not possible, the call ends as r and next say.
func (c *mappedCall) giveBack(check *client.Result, why client.OutcomeReport) (r result, next, returned bool) {
	err := c.toReturn(check)
	if err == nil {
		if !c.void(check, why) {
			return c.unrecorded(check), false, false
		}
		return result{}, false, true
	}
	refused, ok := errors.AsType[*client.Error](err)
	switch {
	case ok && refused.Code == client.CodeCheckAlreadyRedeemed:
		r, next = c.redeemedBefore(check)
	case ok && refused.Code == client.CodeCheckReleased:
		r, next = c.released(check)
	case ok && refused.Code == client.CodeCheckExpired:
		r, next = c.tooLate(check)
	default:
		r = c.failureOf(check, "check %s was not given back: %v. Call again with exactly the same arguments.", check.CheckID, err)
	}
	return r, next, false
}

// toReturn redeems a check in order to give it back, without a lasting key. The idempotency
// key of the redemption serves only this purpose, and nothing is ever carried out under it. If
// the gateway is killed before it voids the check, the next one with the same API key therefore
// knows that it may do so, until the check is in doubt.
func (c *mappedCall) toReturn(check *client.Result) error {
	ctx, cancel := c.asking(context.WithoutCancel(c.ctx))
	defer cancel()
	asked := client.RedeemFor(c.action)
	asked.IdempotencyKey = "gw-return-" + check.CheckID
	_, err := c.gw.api.Redeem(ctx, check.CheckID, asked)
	return err
}

// giveUp gives back, by a report, a check that was redeemed to be carried out, and returns the
// result of the call. Another gateway that repeats the call first records the check as in doubt;
// then nothing is given back, since the payment may have been made. If a call may be repeated, the
// report is made now or never. Without an answer it is unknown whether the report was recorded: the
// call is in doubt, and the redemption is kept for the next call of this gateway.
func (c *mappedCall) giveUp(check *client.Result, of redemption, report client.OutcomeReport, r result) result {
	if c.t.IdempotencyArgument == "" {
		c.report(check.CheckID, report)
		return r
	}
	report.UnlessInDoubt = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), hurry)
	defer cancel()
	switch recorded, again := c.gw.reported(ctx, check.CheckID, report); {
	case again:
		c.gw.redemptions.keep(check.CheckID, of)
		return c.said(check, stateInDoubt, openText("the service did not say whether check %s was given back", check.CheckID))
	case !recorded:
		return c.said(check, stateInDoubt, underWayText(check.CheckID))
	}
	return r
}

// void reports a check as voided, and returns whether that is recorded already. Until it is,
// the check takes from budgets, and another attempt would be its duplicate.
func (c *mappedCall) void(check *client.Result, why client.OutcomeReport) bool {
	why.Status = outcomeVoided
	return c.report(check.CheckID, why)
}

// unrecorded returns the result of a call whose check is to be voided, which is not recorded yet.
func (c *mappedCall) unrecorded(check *client.Result) result {
	return c.failureOf(check, "check %s is to be given back, which the service did not record yet. Call again later with exactly the "+
		"same arguments.", check.CheckID)
}

// outdated gives back the allow of an attempt that is new only because its idempotency key is
// older than a day, as a later recorded attempt shows.
func (c *mappedCall) outdated(check *client.Result) (result, bool) {
	r, next, returned := c.giveBack(check, client.OutcomeReport{Note: laterNote})
	return r, next || returned
}

// carriedOutBefore handles an allow of a call whose earlier attempt was reported as executed
// meanwhile, or cannot be read, as r says. In the second case the allow is not given back.
func (c *mappedCall) carriedOutBefore(check *client.Result, r result) (result, bool) {
	if r.state != stateAlready {
		r.checkID, r.decision = check.CheckID, check.Decision.String()
	} else if err := c.toReturn(check); err != nil { // never repeated, whoever redeemed it
		c.gw.log.Warn("an allow that is not needed was not given back", "check_id", check.CheckID, "error", err)
	} else {
		c.void(check, client.OutcomeReport{Note: earlierNote})
	}
	return r, false
}

// tooLate handles an allow that is too old to be redeemed. If it was redeemed in time, another
// call did so, and may be carrying it out now. Otherwise it is left to people: the key that asked
// must not give it back, since a redemption may still be on its way, and a void by the same key
// would give back the check of that redemption.
func (c *mappedCall) tooLate(check *client.Result) (result, bool) {
	now, err := c.now(check.CheckID)
	switch {
	case err != nil || check.Redemption.Redeemed() || now.Redemption.Redeemed():
		return c.redeemedBefore(check)
	case now.Outcome.Reported():
		return c.over(now)
	}
	return c.failureOf(check, "check %s was not redeemed in time. What it took from budgets is given back once somebody with "+
		"outcomes:release who did not ask for it reports it as voided: then the same call goes on.", check.CheckID), false
}

// laterAttempt reports whether the next attempt of the call is recorded in this key's
// namespace. If so, the present attempt is new only because its idempotency key is older
// than a day. The listing also has attempts of other principals, which show nothing.
func (c *mappedCall) laterAttempt(check *client.Result) (bool, error) {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	page, err := c.gw.api.Checks(ctx, client.CheckQuery{IdempotencyKey: c.key(c.attempt + 1), Limit: 100})
	if err != nil || len(page.Data) == 0 {
		return false, err
	}
	self, err := c.gw.api.Self(ctx)
	if err != nil {
		return false, err
	}
	if sharesNamespace(self) {
		return true, nil // such keys share one namespace, and it is not known which other keys there are
	}
	// The namespace of the check counts: a key's principal may be changed at any time (S59).
	own, err := c.recorded(ctx, check.CheckID)
	if err != nil {
		return false, err
	}
	return anyOf(own.Principal, page.Data), nil
}

// sharesNamespace reports whether a key has no namespace of its own (S59).
func sharesNamespace(key *client.Key) bool {
	return key.Role == "" && key.Scopes == nil && key.PolicyIDs == nil && key.AgentIDs == nil && key.Principal == "" && key.Owner == ""
}

// mayRepeat reports whether a redeemed check without an outcome was redeemed to be carried
// out, so that the idempotency key that the server gets makes a repetition safe. unreturned is
// why the check was not given back. A check of a payment that is made only once may also have been
// redeemed to be given back, while the payment was made under another check; so a check that
// another API key redeemed, or that is in doubt, is left to people. Checks of other calls are left
// to people if a later attempt is recorded.
func (c *mappedCall) mayRepeat(check *client.Result, unreturned error) bool {
	refused, ok := errors.AsType[*client.Error](unreturned)
	if !ok || refused.Code != client.CodeCheckAlreadyRedeemed {
		return false
	}
	if !c.t.Once {
		if later, err := c.laterAttempt(check); err != nil || later {
			return false
		}
	}
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	record, err := c.recorded(ctx, check.CheckID)
	switch {
	case err != nil || record.Outcome != nil:
		return false
	case !c.t.Once:
		return true
	case record.Redemption == nil || record.Redemption.InDoubtAt != nil:
		return false
	}
	self, err := c.gw.api.Self(ctx)
	return err == nil && self.KeyID == record.Redemption.KeyID && c.passedBefore(check.CheckID)
}

// paidUnder returns the check that the payment was redeemed under, if that is why the given
// check was given back: the reference of its outcome is that check. It is empty otherwise.
func (c *mappedCall) paidUnder(checkID string) (string, error) {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	o, err := c.gw.api.GetOutcome(ctx, checkID)
	if err != nil {
		return "", fmt.Errorf("the outcome of check %s cannot be read: %w", checkID, err)
	}
	if !strings.HasPrefix(o.Reference, "chk_") { // people who void a check may give references of their own
		return "", nil
	}
	return o.Reference, nil
}

// noPrincipal is the advice about a key without a principal, whose namespace ends with the key.
const noPrincipal = "the key has no principal of its own: a call carried out under another key is not recognised, and would be carried " +
	"out again. Make a key with a principal, and keep that when keys are renewed"

// keyAdvice returns what the owner of the gateway's key should know, empty if there is
// nothing to say. It fails if the service does not say whose key it is.
func keyAdvice(ctx context.Context, api *client.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, selfTimeout)
	defer cancel()
	self, err := api.Self(ctx)
	if err != nil {
		return "", fmt.Errorf("the service does not say whose key it is: %w", err)
	}
	if self.Principal == "" {
		return noPrincipal, nil
	}
	return "", nil
}

// AdviseOnKey logs what the owner of the gateway's key should know. It waits a short time
// for the service.
func (g *Gateway) AdviseOnKey(ctx context.Context) {
	advice, err := keyAdvice(ctx, g.api)
	switch {
	case err != nil:
		g.log.Warn("the gateway's key was not looked at", "error", err)
	case advice != "":
		g.log.Warn(advice)
	}
}
