package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/hotpath/client"
	"spendgate/hotpath/client/pay"
)

const (
	checkTimeout  = 20 * time.Second // of reading a server's tools, or of a request to the service with its repetitions
	shadowTimeout = 2 * time.Second  // for which a shadow lets a call wait for the service
	callTimeout   = 14 * time.Minute // of a call of a server: after 15 minutes the service records it as in doubt
	fresh         = time.Second      // how old a tool's definition may be when it is compared again
	hurry         = 3 * time.Second  // for calls in flight when the gateway is stopped
	repeats       = 2                // of a call with an idempotency key whose answer was lost
)

// mappedCall is a call of a tool that moves money.
type mappedCall struct {
	s         *session
	t         *tool
	name      string
	request   *mcp.CallToolRequest
	arguments jsontext.Value
	action    client.Action

	answer *answered // the server's, once it was called
	off    error     // why the tool is off by now
}

// answered is how a server's call ended.
type answered struct {
	result  *mcp.CallToolResult // nil without one
	problem string              // why there is no result
	unsent  bool                // nothing was sent
}

// callMapped handles a mapped call.
func (s *session) callMapped(ctx context.Context, r *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
	c := &mappedCall{s: s, t: s.l.u.Tools[name], name: name, request: r, arguments: jsontext.Value(r.Params.Arguments)}
	if len(c.arguments) == 0 {
		c.arguments = jsontext.Value("{}")
	}
	g, started := s.gw, time.Now()
	g.calls.Add(1)
	defer g.calls.Done()
	g.metrics.inFlight.Inc()
	defer g.metrics.inFlight.Dec()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.stopping, func() { cancel(errStopped) })()
	c.action.AgentID = g.agentOf(r.Extra)
	e := c.decide(context.WithValue(ctx, agentKey{}, c.action.AgentID))
	took := time.Since(started)
	g.metrics.ended(s.l.u.name, name, e, took)
	s.log.InfoContext(ctx, "call", "tool", name, "agent_id", c.action.AgentID, "state", e.state, "shadow", e.shadow,
		"decision", e.decision, "check_id", e.checkID, "duration_ms", took.Milliseconds())
	return e.result(), nil
}

var errStopped = errors.New("the gateway is being stopped")

// decide asks the service and carries the call out if that is allowed. A shadow carries it out in any case.
func (c *mappedCall) decide(ctx context.Context) end {
	unread := c.read(ctx)
	if c.s.gw.File.Shadow {
		return c.shadow(ctx, unread)
	}
	if off, ok := errors.AsType[*offError](unread); ok {
		return refusedTool(off)
	}
	if unread != nil {
		return failure("%v.", unread)
	}
	wait := time.Duration(*c.t.WaitSeconds) * time.Second
	p := pay.Payment{Action: c.action, Wait: wait, Patience: wait, TakeOver: c.t.IdempotencyArgument != ""}
	shows := c.request.ClientCapabilities() // addresses to its user
	asks := c.s.gw.File.Console != "" && shows != nil && shows.Elicitation != nil && shows.Elicitation.URL != nil && wait > 0
	answer, asked := c.request.Params.InputResponses[approvalAsked].(*mcp.ElicitResult)
	if asked && answer.Action != "accept" || asks && !asked {
		p.Wait = 0
	}
	r := c.s.gw.guard.Run(ctx, p, c.carryOut)
	e := c.ended(r)
	if e.state == statePending && asks && !asked {
		e.ask = c.s.approvalPage(r.Check)
	}
	return e
}

// read finds out what the call would do, and whether its tool is the accepted one.
func (c *mappedCall) read(ctx context.Context) (err error) {
	if c.s.gw.tokens != nil { // otherwise agents can call themselves anything
		if err := c.s.gw.Shares.refuse(c.action.AgentID); err != nil {
			return err
		}
	}
	if !c.arguments.IsValid() {
		return errors.New("the arguments have a name twice, or text that is not Unicode")
	}
	d, _, err := c.s.gw.tool(ctx, c.s.l, c.name, 0)
	if err != nil {
		return err
	}
	schema, err := compile(d.schema)
	if err := cmp.Or(closed(c.arguments, c.t.known(), ""), err); err != nil {
		return err
	}
	if err := c.t.checkFilled(schema); err != nil {
		return err
	}
	const anyKey = "exe_00000000000000000000000000000000"
	sent, err := c.t.sent(c.arguments, anyKey)
	if err != nil {
		return err
	}
	if err := validate(schema, sent); err != nil {
		return err
	}
	if c.action, err = c.t.action(c.action.AgentID, c.arguments); err != nil {
		return err
	}
	return c.t.payment(c.s.l.u.name, c.name, &c.action, c.arguments)
}

// carryOut calls the server under a permission.
func (c *mappedCall) carryOut(ctx context.Context, permit pay.Permit) pay.End {
	arguments, err := c.t.sent(c.arguments, permit.ExecutionID)
	if err = cmp.Or(err, c.s.gw.stillKnown(ctx, c.request.Extra)); err != nil {
		return pay.End{Outcome: pay.Unsent, Note: err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout) // what is carried out is not cancelled
	defer cancel()
	defer context.AfterFunc(c.s.gw.stopping, func() { time.AfterFunc(hurry, cancel) })()
	everSent := false
	for i := 0; ; i++ {
		// People may have taken long to approve, or the server may be another by now.
		_, over, err := c.s.gw.tool(ctx, c.s.l, c.name, fresh)
		if off, ok := errors.AsType[*offError](err); ok {
			c.off = off
		}
		a := answered{unsent: true, problem: fmt.Sprint(err)}
		if err == nil {
			a = c.ask(ctx, over, arguments)
		}
		everSent = everSent || !a.unsent
		if c.answer = &a; a.result != nil || i == repeats || c.off != nil || ctx.Err() != nil ||
			!a.unsent && c.t.IdempotencyArgument == "" || c.s.gw.stopping.Err() != nil {
			break
		}
		time.Sleep(firstBackoff)
	}
	return c.outcome(everSent)
}

// outcome returns what the server's answer says about the payment. Whatever is not known to be good or declined is in doubt.
func (c *mappedCall) outcome(everSent bool) pay.End {
	a := c.answer
	switch {
	case a.result == nil && !everSent:
		return pay.End{Outcome: pay.Unsent, Note: a.problem}
	case a.result == nil:
		return pay.End{Note: a.problem}
	case c.t.declined(a.result):
		return pay.End{Outcome: pay.Declined, Note: "the server declined it"}
	case a.result.NeedsInput():
		return pay.End{Note: "the server asks a question instead of answering, which a call that moves money cannot pass on"}
	case a.result.IsError:
		return pay.End{Note: "the server said that it failed"}
	}
	reference := c.t.reference(a.result)
	if reference == "" && a.result.StructuredContent == nil && pay.LooksFailed(firstText(a.result)) {
		return pay.End{Note: "the server's answer looks like an error"}
	}
	return pay.End{Outcome: pay.Executed, Reference: reference}
}

// judgedMeta returns what a mapped call passes of its _meta: nothing that a server could take for a part of the payment.
func judgedMeta(meta map[string]any) map[string]any {
	kept := maps.Clone(meta)
	maps.DeleteFunc(kept, func(name string, _ any) bool {
		return name != "progressToken" && name != "traceparent" && name != "tracestate" && !strings.HasPrefix(name, "io.modelcontextprotocol/")
	})
	return kept
}

// ask calls the tool on its server, over the connection over which its definition was compared.
func (c *mappedCall) ask(ctx context.Context, cs *mcp.ClientSession, arguments jsontext.Value) answered {
	p := &mcp.CallToolParams{Name: c.name, Arguments: arguments}
	watching, sent := watch(ctx)
	done := c.s.carry(watching, cs, c.request.Session, &mcp.CallToolParams{Meta: judgedMeta(c.request.Params.GetMeta())}, p)
	defer done()
	result, err := cs.CallTool(watching, p)
	if err == nil {
		return answered{result: result}
	}
	if own, ok := errors.AsType[*jsonrpc.Error](err); ok && own.Data != nil {
		result := &mcp.CallToolResult{IsError: true, StructuredContent: jsontext.Value(own.Data)}
		if c.t.declined(result) {
			return answered{result: result}
		}
	}
	return answered{problem: err.Error(), unsent: sent.takeBack()}
}

// shadow asks what enforcement would do, and carries the call out whatever that is. Nothing is redeemed.
func (c *mappedCall) shadow(ctx context.Context, unread error) end {
	e := end{state: stateError}
	if unread == nil {
		asking, cancel := context.WithTimeout(ctx, shadowTimeout)
		check, err := c.s.gw.Client.Check(asking, c.action)
		cancel()
		if unread = err; err == nil {
			e = would(check)
		}
	}
	if off, ok := errors.AsType[*offError](unread); ok {
		e = refusedTool(off)
	}
	if unread != nil {
		reason := unread.Error() // which quotes no argument
		if refused, ok := errors.AsType[*client.Error](unread); ok {
			reason = refused.Code
		}
		c.s.log.Warn("a shadow passes a call that enforcement would not carry out", "tool", c.name, "reason", reason)
	}
	if ctx.Err() != nil {
		return failure("the call was cancelled.")
	}
	e.shadow, e.text, e.isError = e.state, "", false
	arguments, err := c.t.sent(c.arguments, "gw-"+rand.Text())
	if err != nil {
		arguments = c.arguments
	}
	over, err := c.s.l.session(ctx)
	if err != nil {
		e.state, e.isError, e.text = stateError, true, err.Error()
		return e
	}
	a := c.ask(ctx, over, arguments)
	c.answer = &a
	became := map[pay.Outcome]string{pay.Executed: stateExecuted, pay.Unknown: stateInDoubt, pay.Declined: stateError, pay.Unsent: stateError}
	e.state = became[c.outcome(!a.unsent).Outcome]
	if e.server = a.result; a.result == nil {
		e.isError, e.text = true, a.problem
	}
	return e
}

// approvalAsked is the question to the agent's user that leads to an approval in the console.
const approvalAsked = "approval"

// approvalPage asks the agent's user to open the approval of a check in the console.
func (s *session) approvalPage(check *client.Result) mcp.InputRequestMap {
	if check.ApprovalID == "" {
		return nil
	}
	return mcp.InputRequestMap{approvalAsked: &mcp.ElicitParams{
		Mode: "url", URL: strings.TrimRight(s.gw.File.Console, "/") + "/#/approvals/" + check.ApprovalID, ElicitationID: check.ApprovalID,
		Message: "This payment waits for people to approve it: " + check.Message,
	}}
}
