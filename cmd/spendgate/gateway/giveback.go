package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"spendgate/hotpath/client"
)

// The notes of checks that are given back. A later call reads paidNote.
const (
	unusedNote  = "nothing was carried out under this check"
	earlierNote = "an earlier attempt of the same call was carried out"
	laterNote   = "a later attempt of the same call is recorded"
	paidNote    = "the payment was redeemed under check "

	repeatedNote = "the gateway that redeemed it was waited for, and the call is repeated under the same check now"
)

// giveBack gives back an allow of the gateway's own that nobody carries out. Who asked for
// a check must not give back, unless it redeemed it (S61): so the check is redeemed, and
// reported as voided. Where that is not to be had the call ends as r and next say.
func (c *mappedCall) giveBack(check *client.Result, note string) (r result, next, returned bool) {
	err := c.toReturn(check)
	if err == nil {
		if !c.void(check, note) {
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

// toReturn redeems a check in order to give it back, without a lasting key. Its
// idempotency key belongs to that purpose: under it nothing is ever carried out, so that
// whoever comes after a gateway that was killed in between, with the same API key, knows
// that it may void the check. That ends when the check is in doubt.
func (c *mappedCall) toReturn(check *client.Result) error {
	ctx, cancel := c.asking(context.WithoutCancel(c.ctx))
	defer cancel()
	asked := client.RedeemFor(c.action)
	asked.IdempotencyKey = "gw-return-" + check.CheckID
	_, err := c.gw.api.Redeem(ctx, check.CheckID, asked)
	return err
}

// giveUp reports what gives back a check that was redeemed to be carried out, and returns how
// the call ends. Another gateway that repeats the call has it recorded as in doubt before: then
// nothing is given back, since it may be paid. Where a repetition is allowed the report is made
// now or not at all. Without an answer it may be recorded or not: the call is in doubt, and the next
// one of this gateway has the redemption.
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

// void reports whether it is recorded already that a check was voided. Until it is, the
// check takes from budgets, and another attempt would be its duplicate.
func (c *mappedCall) void(check *client.Result, note string) bool {
	return c.report(check.CheckID, client.OutcomeReport{Status: outcomeVoided, Note: note})
}

// unrecorded is of a check whose void is still on its way.
func (c *mappedCall) unrecorded(check *client.Result) result {
	return c.failureOf(check, "check %s is to be given back, which the service did not record yet. Call again later with exactly the "+
		"same arguments.", check.CheckID)
}

// outdated is an attempt that is new only because its idempotency key is older than a day:
// the next one is recorded.
func (c *mappedCall) outdated(check *client.Result) (result, bool) {
	r, next, returned := c.giveBack(check, laterNote)
	if returned {
		return result{}, true
	}
	return r, next
}

// carriedOutBefore is an allow of a call of which an earlier attempt was reported as executed
// meanwhile, or cannot be read, as r says: the allow is kept then.
func (c *mappedCall) carriedOutBefore(check *client.Result, r result) (result, bool) {
	if r.state != stateAlready {
		r.checkID, r.decision = check.CheckID, check.Decision.String()
	} else if err := c.toReturn(check); err != nil { // never repeated, whoever redeemed it
		c.gw.log.Warn("an allow that is not needed was not given back", "check_id", check.CheckID, "error", err)
	} else {
		c.void(check, earlierNote)
	}
	return r, false
}

// tooLate is an allow that cannot be redeemed any more. One that was redeemed in time is
// another call's, and may be carried out now. The others are left to people: whoever asked
// must not give them back, and a redemption may be on its way still, whose check a void by
// the same key would give back.
func (c *mappedCall) tooLate(check *client.Result) (result, bool) {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	now, err := c.gw.api.GetCheck(ctx, check.CheckID)
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
// namespace. The one at hand is new only because its idempotency key is older than a
// day then. The listing has attempts of others, too, which say nothing.
func (c *mappedCall) laterAttempt(check *client.Result) (bool, error) {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	later, err := c.attempted(ctx, check)
	if err != nil {
		return false, fmt.Errorf("earlier attempts cannot be looked for: %w", err)
	}
	return later, nil
}

func (c *mappedCall) attempted(ctx context.Context, check *client.Result) (bool, error) {
	page, err := c.gw.api.Checks(ctx, client.CheckQuery{IdempotencyKey: c.key(c.attempt + 1), Limit: 100})
	if err != nil || len(page.Data) == 0 {
		return false, err
	}
	self, err := c.gw.api.Self(ctx)
	if err != nil {
		return false, err
	}
	if sharesNamespace(self) {
		return true, nil // such keys share a namespace, and who else has one is not known
	}
	// The namespace is the check's: a principal may be changed at any time (S59).
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

// mayRepeat reports whether a redeemed check without an outcome was redeemed to carry it
// out, so that the server's key makes a repetition safe. unreturned is why it was not
// given back. Of a payment for good, checks are redeemed to be given back, too, while the
// payment was made under another one: what another API key redeemed, or what is in doubt,
// is left to people. Of other calls that is so where a later attempt is recorded.
func (c *mappedCall) mayRepeat(check *client.Result, unreturned error) bool {
	refused, ok := errors.AsType[*client.Error](unreturned)
	if !ok || refused.Code != client.CodeCheckAlreadyRedeemed {
		return false
	}
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	if !c.t.Once {
		if later, err := c.attempted(ctx, check); err != nil || later {
			return false
		}
	}
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

// paidUnder returns the check that the payment was redeemed under, if that is why a check
// was given back; else it is empty.
func (c *mappedCall) paidUnder(checkID string) (string, error) {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	o, err := c.gw.api.GetOutcome(ctx, checkID)
	if err != nil {
		return "", fmt.Errorf("the outcome of check %s cannot be read: %w", checkID, err)
	}
	other, ok := strings.CutPrefix(o.Note, paidNote)
	if !ok {
		return "", nil
	}
	return checkIn(other), nil
}

// noPrincipal is of a key whose namespace ends with it.
const noPrincipal = "the key has no principal of its own: a call carried out under another key is not recognised, and would be carried " +
	"out again. Make a key with a principal, and keep that when keys are renewed"

// keyAdvice returns what the owner of the gateway's key should know; empty if that is
// nothing. It fails if the service does not say whose key it is.
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

// AdviseOnKey logs what the owner of the gateway's key should know. It waits for the
// service, for a while.
func (g *Gateway) AdviseOnKey(ctx context.Context) {
	advice, err := keyAdvice(ctx, g.api)
	switch {
	case err != nil:
		g.log.Warn("the gateway's key was not looked at", "error", err)
	case advice != "":
		g.log.Warn(advice)
	}
}
