package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

	over   *mcp.ClientSession // over which the tool's definition was compared last
	answer *answered          // the server's, once it was called
	off    error              // why the tool is off by now
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
	e := c.decide(ctx)
	took := time.Since(started)
	g.metrics.ended(s.l.u.name, name, e, took)
	g.log.LogAttrs(ctx, slog.LevelInfo, "call", slog.String("upstream", s.l.u.name), slog.String("tool", name),
		slog.String("agent_id", c.action.AgentID), slog.String("state", e.state), slog.String("shadow", e.shadow),
		slog.String("decision", e.decision), slog.String("check_id", e.checkID), slog.Int64("duration_ms", took.Milliseconds()))
	return e.result(), nil
}

var errStopped = errors.New("the gateway is being stopped")

// decide asks the service and carries the call out if that is allowed. A shadow carries it out in any case.
func (c *mappedCall) decide(ctx context.Context) end {
	unread := c.read(ctx)
	if c.s.gw.file.Shadow {
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
	asks := c.s.canOpen(c.request) && wait > 0
	opened, declined := approvalOpened(c.request)
	if asks && !opened || declined {
		p.Wait = 0
	}
	r := c.s.gw.guard.Run(ctx, p, c.carryOut)
	e := c.ended(r)
	if e.state == statePending && asks && !opened && !declined {
		e.ask = c.s.approvalPage(r.Check)
	}
	return e
}

// read finds out what the call would do, and whether its tool is the accepted one.
func (c *mappedCall) read(ctx context.Context) (err error) {
	c.action.AgentID = c.s.agentOf(c.request.Extra)
	if !c.arguments.IsValid() {
		return errors.New("the arguments have a name twice, or text that is not Unicode")
	}
	d, err := c.definition(ctx, 0)
	if err != nil {
		return err
	}
	if err := cmp.Or(closed(c.arguments, c.t.known(), ""), c.t.checkFilled(d.schema)); err != nil {
		return err
	}
	const anyKey = "exe_00000000000000000000000000000000"
	sent, err := c.t.sent(c.arguments, anyKey)
	if err != nil {
		return err
	}
	if err := validate(d.schema, sent); err != nil {
		return err
	}
	if c.action, err = c.t.action(c.action.AgentID, c.arguments); err != nil {
		return err
	}
	return c.t.payment(c.s.l.u.name, c.name, &c.action, c.arguments)
}

// definition returns the tool's definition as it was at most age ago. It fails with an
// offError if the definition was not accepted.
func (c *mappedCall) definition(ctx context.Context, age time.Duration) (definition, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	d, over, err := c.s.gw.tool(ctx, c.s.l, c.name, age)
	if err == nil {
		c.over = over
	}
	return d, err
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
		_, err := c.definition(ctx, fresh)
		if off, ok := errors.AsType[*offError](err); ok {
			c.off = off
		}
		a := answered{unsent: true, problem: fmt.Sprint(err)}
		if err == nil {
			a = c.ask(ctx, arguments)
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
	if a.result == nil {
		if !everSent {
			return pay.End{Outcome: pay.Unsent, Note: a.problem}
		}
		return pay.End{Note: a.problem}
	}
	text := encode(a.result)
	switch {
	case c.t.declined(text):
		return pay.End{Outcome: pay.Declined, Note: "the server declined it"}
	case a.result.NeedsInput():
		return pay.End{Note: "the server asks a question instead of answering, which a call that moves money cannot pass on"}
	case a.result.IsError:
		return pay.End{Note: "the server said that it failed"}
	}
	reference := c.t.reference(text)
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
func (c *mappedCall) ask(ctx context.Context, arguments jsontext.Value) answered {
	cs := c.over
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
		if c.t.declined(encode(result)) {
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
		check, err := c.s.gw.api.Check(asking, c.action)
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
	arguments, err := c.t.sent(c.arguments, newKey())
	if err != nil {
		arguments = c.arguments
	}
	if c.over == nil {
		if c.over, err = c.s.l.session(ctx); err != nil {
			e.state, e.isError, e.text = stateError, true, err.Error()
			return e
		}
	}
	a := c.ask(ctx, arguments)
	c.answer = &a
	switch c.outcome(!a.unsent).Outcome {
	case pay.Executed:
		e.state = stateExecuted
	case pay.Unknown:
		e.state = stateInDoubt
	case pay.Declined, pay.Unsent:
		e.state = stateError
	}
	if e.server = a.result; a.result == nil {
		e.isError, e.text = true, a.problem
	}
	return e
}
