package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/hotpath/client"
)

// mappedCall is a call of a tool that moves money.
type mappedCall struct {
	s    *session
	gw   *Gateway
	l    *link
	t    *tool
	name string          // of the tool on its server
	id   string          // of the agent's request
	ctx  context.Context //nolint:containedctx // ends when the agent cancels the call

	agent     string
	params    object
	arguments jsontext.Value
	action    client.Action
	identity  string // of the call
	payment   string // the identity of a payment that is made only once, whichever agent calls; empty without once
	attempt   int
	approval  string   // of an earlier attempt, which was blocked after people approved, and did not use it
	checked   string   // the check of the attempt
	left      []string // redeemed checks of attempts that are over
	passed    []string // likewise, but of any agent's calls for the same payment

	until    time.Time // in a shadow, when asking the service ends; zero in enforcement
	answer   *answered // the server's answer, once it was called
	compared conn      // over which the tool's definition was compared last
}

// callMapped carries out a mapped call in the background.
func (s *session) callMapped(m message, l *link, name string, params object) {
	ctx, cancel := context.WithCancelCause(context.Background())
	if !s.fly(m, func(jsontext.Value) { cancel(errCancelled) }) {
		return
	}
	c := &mappedCall{
		s: s, gw: s.gw, l: l, t: l.u.Tools[name], name: name, id: string(m.ID), ctx: ctx, agent: m.agent, params: params,
		arguments: params.get("arguments"),
	}
	if c.agent == "" && s.gw.file.Listen == "" {
		c.agent = s.gw.file.AgentID.fixed
	}
	s.calls.Go(func() {
		defer cancel(nil)
		started := time.Now()
		c.gw.metrics.inFlight.Inc()
		r := c.decide()
		c.gw.metrics.inFlight.Dec()
		took := time.Since(started)
		c.gw.metrics.ended(l.u.name, name, r, took)
		c.gw.log.LogAttrs(context.Background(), slog.LevelInfo, "call", slog.String("upstream", l.u.name), slog.String("tool", name),
			slog.String("agent_id", c.agent), slog.String("state", r.state), slog.String("shadow", r.shadow), slog.String("decision", r.decision),
			slog.String("check_id", r.checkID), slog.Int("attempt", c.attempt), slog.Int64("duration_ms", took.Milliseconds()))
		s.reply(message{ID: m.ID, Result: r.encode()})
	})
}

var errCancelled = errors.New("the agent cancelled the request")

// failure returns the result of a call that was not carried out for a reason other than a
// decision.
func (c *mappedCall) failure(format string, args ...any) result {
	return result{state: stateError, isError: true, text: "Error, and nothing was carried out by this call: " + fmt.Sprintf(format, args...)}
}

// failureOf is like failure, for a call whose check is known.
func (c *mappedCall) failureOf(check *client.Result, format string, args ...any) result {
	r := c.failure(format, args...)
	r.checkID, r.decision = check.CheckID, check.Decision.String()
	return r
}

// decide asks the service and carries the call out if that is allowed. A shadow carries it out
// in any case.
func (c *mappedCall) decide() result {
	err := c.read()
	if c.gw.file.Shadow {
		c.until = time.Now().Add(shadowTimeout)
		return c.shadow(c.enforce(err))
	}
	return c.enforce(err)
}

// enforce handles a call as in enforcement. err is the error of reading the call, if there was one.
func (c *mappedCall) enforce(err error) result {
	if off, ok := errors.AsType[*offError](err); ok {
		return refusedTool(off)
	}
	if err != nil {
		return c.failure("%v.", err)
	}
	// The number of attempts is not limited: an agent that waits for room in a budget makes one with each call.
	begin := c.gw.attempts.begin(c.identity)
	c.attempt, c.approval, c.left = begin.at, begin.approval, begin.left
	if earlier, err := c.corrected(); earlier != nil || err != nil {
		return c.endedBefore(earlier, err)
	}
	for tried := 1; tried <= maxAttempts; tried++ {
		r, next := c.try()
		if !next {
			return r
		}
		last := c.attempt + 1
		if tried == maxWalked {
			last = max(last, c.lastAttempt())
		}
		c.attempt = last
		c.left = c.gw.attempts.keep(c.identity, gone{at: c.attempt, approval: c.approval, left: c.left})
	}
	return c.failure("%d attempts of it are over, and there are more. Call again with exactly the same arguments.", maxAttempts)
}

// read finds out what the call would do, and whether its tool is the accepted one.
func (c *mappedCall) read() error {
	if len(c.arguments) == 0 {
		c.arguments = jsontext.Value("{}")
	}
	if err := checkNames(c.params); err != nil {
		return err
	}
	if _, err := canonical(c.arguments); err != nil {
		return fmt.Errorf("the arguments cannot be understood: %w", err)
	}
	d, err := c.definition(0)
	if err != nil {
		return err
	}
	o, err := parseObject(d.text)
	if err != nil {
		return fmt.Errorf("the tool's definition %w", err)
	}
	schema := o.get("inputSchema")
	if err := cmp.Or(c.t.checkFilled(schema), c.t.checkSpelling(c.arguments, schema)); err != nil {
		return err
	}
	if c.action, err = c.t.action(c.agent, c.arguments, schema); err != nil {
		return err
	}
	if err := cmp.Or(c.t.checkCurrency(c.arguments, c.action.Currency), c.t.checkSame(c.arguments, schema)); err != nil {
		return err
	}
	if c.identity, err = c.t.identity(c.l.u.name, c.name, c.action.AgentID, c.action, c.arguments); err == nil && c.t.Once {
		c.payment, err = c.t.lasting(c.l.u.name, c.name, c.action, c.arguments)
	}
	return err
}

// definition returns the tool's definition as it was at most age ago. It fails with an
// offError if the definition was not accepted.
func (c *mappedCall) definition(age time.Duration) (definition, error) {
	ctx, cancel := context.WithTimeout(c.ctx, checkTimeout)
	defer cancel()
	defer context.AfterFunc(c.gw.stopping, cancel)()
	d, over, err := c.gw.tool(ctx, c.l, c.name, age)
	if err == nil {
		c.compared = over
	}
	return d, err
}

// try makes one attempt. next reports that the attempt is over for good, without a payment,
// and that another one may be made.
func (c *mappedCall) try() (r result, next bool) {
	a := c.action
	a.IdempotencyKey = c.key(c.attempt)
	approval := c.approval
	c.approval = ""
	// Each round uses one approval. The rules may have changed since people approved, so that a check is escalated again.
	const rounds = 5
	for range rounds {
		check, err := c.check(a)
		if conflict, id := otherRequest(err); conflict {
			c.checked = id
			return c.otherArguments(id)
		}
		refused, ok := errors.AsType[*client.Error](err)
		switch {
		case ok && refused.Code == client.CodeApprovalExpired:
			return result{}, true
		case ok && refused.Status/100 == 4 && refused.Status != http.StatusConflict && refused.Status != http.StatusTooManyRequests:
			return c.failure("%v. Calling again changes nothing until somebody has corrected that.", err), false
		case err != nil:
			return c.failure("%v. Call again later with exactly the same arguments.", err), false
		}
		c.checked = check.CheckID
		if check.ReasonCode == "duplicate_action_detected" && a.ApprovalID == "" {
			check.ApprovalID = approval // the earlier attempt's check is what this one repeats
		}
		switch {
		case check.Outcome.Reported():
			return c.over(check)
		case check.Decision == client.Block && check.ApprovalID == "":
			c.approval = cmp.Or(a.ApprovalID, approval)
			return c.blocked(check)
		case check.Decision == client.Allow:
			return c.allowed(check)
		case check.ApprovalID == "":
			return c.said(check, stateRefused, "Refused: "+reason(check)), false
		}
		approved, r, next := c.escalated(check)
		if !approved {
			return r, next
		}
		a.ApprovalID = check.ApprovalID
	}
	return c.failure("it was escalated again and again"), false
}

// asking bounds a request to the service, including its repetitions; in a shadow it bounds all
// requests of one call together.
func (c *mappedCall) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.shadowed() {
		return context.WithDeadline(ctx, c.until)
	}
	return context.WithTimeout(ctx, checkTimeout)
}

// wait returns how long the call waits for people or for another call. A shadow does not wait.
func (c *mappedCall) wait() time.Duration {
	if c.shadowed() {
		return 0
	}
	return time.Duration(*c.t.WaitSeconds) * time.Second
}

// check asks the service for a decision.
func (c *mappedCall) check(a client.Action) (*client.Result, error) {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	return c.gw.api.Check(ctx, a)
}

// key returns the idempotency key of an attempt.
func (c *mappedCall) key(attempt int) string { return fmt.Sprintf("%s-%d", c.identity, attempt) }

// said returns a result with the identifier and the decision of a check.
func (c *mappedCall) said(check *client.Result, state, text string) result {
	return result{state: state, checkID: check.CheckID, decision: check.Decision.String(), isError: state != stateAlready, text: text}
}

// reason returns why a check was not allowed, and what to do.
func reason(check *client.Result) string {
	text := check.Message
	if check.ReasonCode != "" {
		text = check.ReasonCode + ": " + text
	}
	if check.NextStep != "" {
		text += "\nNext step: " + check.NextStep
	}
	return text + "\nCheck: " + check.CheckID
}

// blocked handles a block. It is final, unless it is the replayed answer of an earlier call and
// the same action is judged again: always if a budget had no room (S60), otherwise if the policy
// says so.
func (c *mappedCall) blocked(check *client.Result) (result, bool) {
	if check.Replayed && (exceeded(check) || c.judgesAgain()) {
		return result{}, true
	}
	return c.said(check, stateRefused, "Refused: "+reason(check)), false
}

// exceeded reports whether a check was blocked because a budget had no room (S36).
func exceeded(check *client.Result) bool {
	return check.Decision == client.Block && (check.ReasonCode == "budget_exceeded" || check.ReasonCode == "count_limit_exceeded")
}

// judgesAgain reports whether the policy says that a blocked action is judged again.
func (c *mappedCall) judgesAgain() bool {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	policy, err := c.gw.api.Policy(ctx, c.action.PolicyID, 0)
	if err != nil {
		return false
	}
	again := false
	for _, rule := range policy.Rules {
		if rule.RuleType == "duplicate_guard" {
			if memberText(jsontext.Value(rule.Parameters), "after_block") != "judge_again" {
				return false // if there are several guards, duplicate wins
			}
			again = true
		}
	}
	return again
}

// escalated waits for people to decide, for at most the time of wait.
func (c *mappedCall) escalated(check *client.Result) (approved bool, r result, next bool) {
	wait := c.wait()
	asking, cancel := c.asking(c.ctx)
	first, err := c.gw.api.Approval(asking, check.ApprovalID, 0)
	cancel()
	if err == nil && first.Status == client.ApprovalExpired {
		return false, result{}, true
	}
	if err == nil && first.Status == client.ApprovalPending && wait > 0 {
		ctx, cancel := context.WithTimeout(c.ctx, wait+toAnswer)
		defer cancel()
		defer context.AfterFunc(c.gw.stopping, cancel)()
		if a, _ := c.gw.api.WaitForApproval(ctx, check.ApprovalID); a != nil { // otherwise the first reading counts
			first = a
		}
	}
	if err != nil {
		return false, c.failureOf(check, "%v. Call again later with exactly the same arguments.", err), false
	}
	switch first.Status {
	case client.ApprovalApproved, client.ApprovalUsed:
		return true, result{}, false
	case client.ApprovalDenied:
		var text strings.Builder
		text.WriteString("Denied by people.")
		for _, d := range first.Decisions {
			if d.Decision == "deny" && d.Note != "" {
				text.WriteString(" Their note: " + d.Note)
			}
		}
		return false, c.said(check, stateDenied, text.String()+"\nDo not try it another way. Check: "+check.CheckID), false
	case client.ApprovalExpired:
		return false, c.said(check, stateExpired, "Nobody decided in time, and nothing was carried out. "+
			"Call again with exactly the same arguments to ask again. Check: "+check.CheckID), false
	default:
		return false, c.said(check, statePending, "Waiting for people to approve ("+check.ApprovalID+"). Nothing was carried out yet. "+
			"Call this tool again with exactly the same arguments: it goes on once they approved. "+reason(check)), false
	}
}

// over handles a check with a reported outcome.
func (c *mappedCall) over(check *client.Result) (result, bool) {
	if c.t.Once && check.Outcome.Status == outcomeVoided {
		other, err := c.paidUnder(check.CheckID)
		if err != nil {
			return c.failureOf(check, "%v. Call again later with exactly the same arguments.", err), false
		}
		if other != "" {
			return c.otherPayment(check, other)
		}
	}
	return c.settled(check)
}

// settled is like over, but does not look for another check that the payment was redeemed under.
func (c *mappedCall) settled(check *client.Result) (result, bool) {
	switch {
	case check.Outcome.Status == outcomeExecuted:
		return c.said(check, stateAlready, c.alreadyText(check.CheckID)), false
	case check.Outcome.Status == client.UnknownOutcome:
		return c.failureOf(check, "something was reported about check %s that this gateway does not understand.", check.CheckID), false
	case check.Outcome.ReleasePending:
		return c.failureOf(check, "check %s was reported as %s by somebody who may not give back. Somebody with outcomes:release "+
			"who did not ask for it must report that, too: then the same call goes on.", check.CheckID, check.Outcome.Status), false
	default:
		if check.Redemption.Redeemed() && !slices.Contains(c.left, check.CheckID) {
			c.left = append(c.left, check.CheckID)
		}
		if len(c.left) > maxLeft { // all are read before each payment, and none may be forgotten
			c.left = c.gw.attempts.keep(c.identity, gone{at: c.attempt, left: c.left})
			return c.failureOf(check, "%d attempts of it were redeemed and given back, too many to go on. Somebody must find out why, and "+
				"start the gateway again.", len(c.left)), false
		}
		return result{}, true
	}
}

func (c *mappedCall) alreadyText(checkID string) string {
	text := "Already executed, under check " + checkID + ". It was not executed again."
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	if o, err := c.gw.api.GetOutcome(ctx, checkID); err == nil && o.Reference != "" {
		text += " Reference: " + o.Reference
	}
	return text
}
