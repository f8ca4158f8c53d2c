package gateway

import (
	"crypto/rand"
	"time"
)

// shadowTimeout is how long a shadow lets a call wait for the service.
const shadowTimeout = 2 * time.Second

// shadowed reports whether the call is carried out whatever the service says.
func (c *mappedCall) shadowed() bool { return !c.until.IsZero() }

// shadow handles a call that enforcement would have ended with r. It carries the call out, unless
// that was done under its check or the agent cancelled the call. The server's answer is passed on
// unchanged.
func (c *mappedCall) shadow(r result) result {
	r.shadow = r.state
	if c.answer == nil {
		if r.state == stateError || r.state == stateInDoubt {
			c.gw.log.Warn("a shadow passes a call that enforcement would not carry out", "upstream", c.l.u.name, "tool", c.name, "reason", r.text)
		}
		a := answered{unsent: true, problem: "the call was cancelled"}
		if c.ctx.Err() == nil {
			arguments, err := c.t.sent(c.arguments, rand.Text())
			if err != nil {
				arguments = c.arguments
			}
			a = c.ask(arguments)
		}
		c.answer, r.state = &a, c.ended(a)
	}
	r.server, r.text, r.isError = c.answer.result, "", false
	if r.server == nil {
		r.isError, r.text = true, c.answer.problem
	}
	return r
}

// ended returns the state of a call, judged only by the server's answer.
func (c *mappedCall) ended(a answered) string {
	switch {
	case a.unsent, a.isError && c.t.OnError == onErrorFailed:
		return stateError
	case a.lost || a.isError:
		return stateInDoubt
	default:
		return stateExecuted
	}
}
