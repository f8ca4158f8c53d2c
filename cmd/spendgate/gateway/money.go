package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"spendgate/hotpath/client"
)

const (
	outcomeExecuted = "executed"
	outcomeFailed   = "failed"
	outcomeVoided   = "voided"

	checkTimeout  = 20 * time.Second // of a request to the service, including its repetitions
	selfTimeout   = 5 * time.Second  // of asking the service whose key it is
	callTimeout   = 14 * time.Minute // of a call of a server: after 15 minutes the service records it as in doubt
	fresh         = time.Second      // how old a tool's definition may be when it is compared again
	toAnswer      = 2 * time.Second  // the client ends a wait for an approval this long before its deadline
	cancelGrace   = 3 * time.Second  // for the result of a call that is cancelled
	hurry         = 3 * time.Second  // for calls in flight when the gateway is stopped, and for a report before the agent gets its answer
	reportTimeout = 15 * time.Minute // of repeating a report
	pollLeast     = 200 * time.Millisecond
	pollMost      = 2 * time.Second
)

// allowed redeems an allow and carries the call out.
func (c *mappedCall) allowed(check *client.Result) (result, bool) {
	// This is needed for a replayed allow, too: the gateway that got it first may have been killed before it looked.
	if later, err := c.laterAttempt(check); err != nil {
		return c.failureOf(check, "earlier attempts cannot be looked for: %v. Call again later with exactly the same arguments.", err), false
	} else if later {
		return c.outdated(check)
	}
	if r, ok := c.stillOn(check); !ok {
		return r, false
	}
	if earlier, err := c.corrected(); earlier != nil || err != nil { // again, since people may have taken long to approve
		return c.carriedOutBefore(check, c.endedBefore(earlier, err))
	}
	of, err := c.redeem(check.CheckID)
	refused, definite := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		return c.redeemed(check, of), false
	case !definite || refused.Status/100 != 4:
		unsaid := openText("the service did not say whether check %s was redeemed, and nothing was sent: %v", check.CheckID, err)
		return c.said(check, stateInDoubt, unsaid), false
	}
	switch refused.Code {
	case client.CodeCheckAlreadyRedeemed:
		return c.redeemedBefore(check)
	case client.CodeOnceUsed:
		return c.redeemedOnce(check, refused.CheckID)
	case client.CodeCheckReleased:
		return c.released(check)
	case client.CodeCheckExpired:
		return c.tooLate(check)
	default:
		return c.failureOf(check, "the check was not redeemed: %s", refused.Message), false
	}
}

// redeemed carries out a check that this call redeemed, unless an earlier attempt turns out to
// have been carried out: any correction that was made before the redemption is visible now.
func (c *mappedCall) redeemed(check *client.Result, of redemption) result {
	if c.ctx.Err() != nil {
		voided := client.OutcomeReport{Status: outcomeVoided, Note: "cancelled before the call was made"}
		return c.giveUp(check, of, voided, c.said(check, stateError, "Cancelled before anything was carried out."))
	}
	switch earlier, err := c.corrected(); {
	case err != nil: // the next call uses this redemption, and reads again
		c.gw.redemptions.keep(check.CheckID, of)
		return c.said(check, stateInDoubt, openText("check %s is redeemed, and nothing was sent: %v", check.CheckID, err))
	case earlier != nil: // a gateway that would repeat the call sees this, too
		r := c.endedBefore(earlier, nil)
		c.giveUp(check, of, client.OutcomeReport{Status: outcomeVoided, Note: earlierNote}, r)
		return r
	}
	of.again = c.t.IdempotencyArgument != "" && of.again
	return c.carryOut(check, of)
}

// stillOn reports whether the tool's definition is still an accepted one: people may have taken
// long to approve, or the server may be another by now.
func (c *mappedCall) stillOn(check *client.Result) (r result, ok bool) {
	_, err := c.definition(fresh)
	if off, isOff := errors.AsType[*offError](err); isOff {
		r = refusedTool(off)
	} else if err != nil {
		r = c.failure("%v.", err)
	}
	r.checkID, r.decision = check.CheckID, check.Decision.String()
	return r, err == nil
}

// released handles a check that was given back meanwhile.
func (c *mappedCall) released(check *client.Result) (result, bool) {
	now, err := c.now(check.CheckID)
	if err != nil || !now.Outcome.Reported() {
		return c.failureOf(check, "check %s cannot be used any more. Call again later with exactly the same arguments.", check.CheckID), false
	}
	return c.over(now)
}

// awaited waits for wait_seconds for the outcome of a check that another call redeemed: that
// call may be carrying the check out, or its gateway may have been killed, which only waiting
// shows. It returns the check as it is then, nil if it cannot be read.
func (c *mappedCall) awaited(checkID string) *client.Result {
	repeated := c.t.IdempotencyArgument != "" && !c.t.Once // another gateway may have recorded it as in doubt in order to repeat the call
	end := time.Now().Add(c.wait())
	for pause := pollLeast; ; pause = min(2*pause, pollMost) {
		now, err := c.now(checkID)
		if err == nil && (now.Outcome.Reported() || now.Redemption.InDoubt && !repeated) {
			return now
		}
		if time.Now().After(end) || c.ctx.Err() != nil || c.gw.stopping.Err() != nil {
			if err != nil {
				return nil
			}
			return now
		}
		select {
		case <-time.After(min(pause, max(time.Until(end), time.Millisecond))):
		case <-c.ctx.Done():
		case <-c.gw.stopping.Done():
		}
	}
}

// redeemedBefore handles a check that was redeemed before, by another gateway that is carrying it
// out, or by one that was killed.
func (c *mappedCall) redeemedBefore(check *client.Result) (result, bool) {
	now := c.awaited(check.CheckID)
	if now != nil && now.Outcome.Reported() {
		return c.over(now)
	}
	if c.shadowed() || c.ctx.Err() != nil || c.gw.stopping.Err() != nil {
		return c.said(check, stateInDoubt, underWayText(check.CheckID)), false
	}
	unreturned := c.toReturn(check)
	if unreturned == nil { // a gateway was killed while giving it back
		if !c.void(check, client.OutcomeReport{Note: unusedNote}) {
			return c.unrecorded(check), false
		}
		return result{}, true
	}
	if refused, ok := errors.AsType[*client.Error](unreturned); ok && refused.Code == client.CodeCheckAlreadyRedeemed {
		// A check with an outcome that was reported since the wait is refused in the same way.
		now, err := c.now(check.CheckID)
		if err != nil {
			return c.said(check, stateInDoubt, underWayText(check.CheckID)), false
		}
		if now.Outcome.Reported() {
			return c.over(now)
		}
	}
	if c.t.IdempotencyArgument != "" && c.mayRepeat(check, unreturned) {
		earlier, err := c.corrected()
		// Once the check is in doubt, the gateway that redeemed it gives nothing back any more.
		if _, ok := c.stillOn(check); ok && earlier == nil && err == nil && c.doubted(check.CheckID) {
			return c.carryOut(check, redemption{again: true}), false
		}
	}
	return c.inDoubt(check, answered{}), false
}

// now returns a check as it is now.
func (c *mappedCall) now(checkID string) (*client.Result, error) {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	return c.gw.api.GetCheck(ctx, checkID)
}

// redeemedOnce handles a payment that is made only once, for which another check was redeemed,
// perhaps long ago. The present check is given back.
func (c *mappedCall) redeemedOnce(check *client.Result, other string) (result, bool) {
	if other == "" {
		return c.failureOf(check, "this payment was redeemed under another check, which the service does not name"), false
	}
	r, next, returned := c.giveBack(check, client.OutcomeReport{Reference: other, Note: paidNote})
	if stuck := r.state == stateError || r.state == stateInDoubt; !returned && (next || !stuck) {
		return r, next
	}
	end, next := c.otherPayment(check, other)
	if next && !returned { // the present check is not over
		return r, false
	}
	return end, next
}

// otherPayment returns how a call ends whose payment is made only once, under another check.
func (c *mappedCall) otherPayment(check *client.Result, other string) (result, bool) {
	earlier := c.awaited(other)
	switch {
	case earlier == nil:
		r := c.said(check, stateInDoubt, underWayText(other))
		r.checkID = other
		return r, false
	case earlier.Outcome.Reported():
		return c.settled(earlier)
	case earlier.Redemption.InDoubt:
		return c.said(earlier, stateInDoubt, inDoubtText(other)), false
	default:
		return c.said(earlier, stateInDoubt, underWayText(other)), false
	}
}

// inDoubtText returns the text about a check that is recorded as in doubt.
func inDoubtText(checkID string) string {
	return "In doubt, and people are told: the action may have been carried out, under check " + checkID + ". It is not carried out again " +
		"until they have looked. Do not try it another way."
}

// underWayText returns the text about a redeemed check that is not recorded as in doubt.
func underWayText(checkID string) string {
	return "In doubt: another call redeemed check " + checkID + " and may be carrying the action out now, or was broken off. It is not " +
		"carried out again. Call again later with exactly the same arguments to see how it ended. Do not try it another way."
}

// openText returns the text about a redemption that the next call will use, in this gateway or in
// another one that may repeat the call.
func openText(format string, args ...any) string {
	return "In doubt: " + fmt.Sprintf(format, args...) + ". Another call may be carrying the action out now. Call again later with exactly " +
		"the same arguments: that finds how it ended, or goes on. Do not try it another way."
}

// inDoubt records that a check is in doubt, and returns the result of its call.
func (c *mappedCall) inDoubt(check *client.Result, a answered) result {
	timeout := checkTimeout
	if c.shadowed() {
		timeout = shadowTimeout
	}
	if c.gw.stopping.Err() != nil {
		timeout = time.Second // the agent is to be answered before stopTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), timeout)
	defer cancel()
	text := underWayText(check.CheckID)
	if c.gw.doubt(ctx, check.CheckID, "") {
		text = inDoubtText(check.CheckID)
	}
	if a.problem != "" {
		text += " What happened: " + a.problem
	}
	r := c.said(check, stateInDoubt, text)
	r.server = flagged(a.result)
	return r
}

// flagged returns a server's result, marked as an error.
func flagged(server jsontext.Value) jsontext.Value {
	if server == nil {
		return nil
	}
	o, err := parseObject(server)
	if err != nil {
		return nil
	}
	return o.without("structuredContent").with("isError", jsontext.Value("true")).text()
}

// answered is how a server's call ended.
type answered struct {
	result  jsontext.Value
	isError bool   // the result says so, or there was an error of JSON-RPC, or the call was cancelled
	problem string // why there is no result
	lost    bool   // it is unknown how the call ended
	unsent  bool   // nothing was sent
	moved   bool   // nothing was sent: the server may be another than the one whose tools were compared
}

// ask calls the tool on its server.
func (c *mappedCall) ask(arguments jsontext.Value) answered {
	params := c.params.without("arguments").with("arguments", arguments).with("name", quote(c.name))
	ctx, cancel := context.WithTimeout(c.ctx, callTimeout)
	defer cancel()
	defer context.AfterFunc(c.gw.stopping, func() { time.AfterFunc(hurry, cancel) })()
	over := c.compared
	if c.shadowed() { // any connection will do
		over = nil
	}
	m, err := c.l.call(ctx, over, message{Method: methodCallTool, Params: params.text(), about: c.id}, cancelGrace)
	var head struct {
		IsError bool `json:"isError"`
	}
	switch {
	case errors.Is(err, errMoved):
		return answered{unsent: true, moved: true, problem: "the connection to the server is another by now"}
	case errors.Is(err, errNotSent):
		return answered{unsent: true, problem: "the server could not be reached"}
	case errors.Is(err, errLost):
		return answered{lost: true, problem: "the connection to the server was lost"}
	case err != nil && c.ctx.Err() == nil:
		return answered{lost: true, problem: err.Error()}
	case err != nil:
		return answered{isError: true, problem: "the call was cancelled"}
	case m.Error != nil:
		return answered{isError: true, problem: "the server's error: " + m.errorOf().Error()}
	}
	if m.Result.Kind() != '{' || json.Unmarshal(m.Result, &head, lax()) != nil {
		return answered{lost: true, problem: "the server's answer cannot be understood"}
	}
	return answered{result: m.Result, isError: head.IsError}
}

// carryOut calls the server whose tool was compared, and reports the outcome. The check was
// redeemed by this call or, if of.again is set, perhaps by an earlier call whose end is in doubt.
func (c *mappedCall) carryOut(check *client.Result, of redemption) result {
	again := of.again
	arguments, err := c.t.sent(c.arguments, check.CheckID)
	if err != nil {
		return c.inDoubt(check, answered{}) // does not happen: read has refused such arguments
	}
	a := c.ask(arguments)
	const repeats = 2
	for i := 0; i < repeats && (a.moved || (a.lost || a.unsent && again) && c.t.IdempotencyArgument != ""); i++ {
		// Either nothing was sent, or the server gets the same key again and carries the call out once.
		if c.gw.stopping.Err() != nil || c.ctx.Err() != nil || c.l.wait(c.ctx) != nil {
			break
		}
		r, on := c.stillOn(check)
		if !on && !again && a.unsent {
			return c.giveUp(check, of, client.OutcomeReport{Status: outcomeFailed, Note: a.problem}, r)
		}
		if !on {
			break
		}
		again = again || !a.moved
		a = c.ask(arguments)
	}
	c.answer = &a
	switch {
	case a.unsent && !again:
		failed := client.OutcomeReport{Status: outcomeFailed, Note: a.problem}
		return c.giveUp(check, of, failed, c.failureOf(check, "%s. Call again later.", a.problem))
	case a.lost || a.unsent || a.isError && (again || c.t.OnError == onErrorInDoubt):
		// An error of a repeated call says nothing about the first call.
		return c.inDoubt(check, a)
	case a.isError:
		r := c.said(check, stateError, "Error, which counts as not carried out: "+cmp.Or(a.problem, "the server says so")+"\nCheck: "+
			check.CheckID)
		r.server = flagged(a.result)
		failed := client.OutcomeReport{Status: outcomeFailed, Note: cmp.Or(a.problem, "the server said that it failed")}
		return c.giveUp(check, of, failed, r)
	}
	c.report(check.CheckID, client.OutcomeReport{Status: outcomeExecuted, Reference: cut(c.t.reference(a.result))})
	return result{state: stateExecuted, checkID: check.CheckID, decision: check.Decision.String(), server: a.result}
}
