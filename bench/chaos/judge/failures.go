package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// failuresAreExcused: requests fail only during a fault and until service must have resumed, and in
// the specified form (G7). Behind the load balancer no request fails because nodes are restarted in
// turn (G11).
func (e *evidence) failuresAreExcused() {
	for i := range e.Ops {
		o := &e.Ops[i]
		if !o.failed() {
			continue
		}
		said := o.Error
		if o.Status != 0 {
			said = fmt.Sprintf("%d %s", o.Status, o.Answer)
		}
		switch {
		case !e.excused(o):
			rule := "G7"
			if o.Via == Balancer && slices.ContainsFunc(e.Faults, func(f Fault) bool { return f.Rolls && o.overlaps(f.From, f.To) }) {
				rule = "G11"
			}
			e.findOp(rule, fmt.Sprintf("a %s through %s failed without a fault: %s", o.Kind, o.Via, said), o)
		case o.Status >= 500 && o.Via != Balancer && (o.Status != 500 || o.code() != "internal_error" || !o.Retry):
			e.findOp("G7", fmt.Sprintf("a %s through %s failed in another form than specified: %s", o.Kind, o.Via, said), o)
		}
	}
}

// excused reports whether a fault explains a failure: a fault at the request's own place, or at
// that of a request that held a claim that this one waited for, and that failed at the same time or
// hung with its node: a request that waits for a late claim is refused.
func (e *evidence) excused(o *Op) bool {
	if e.struck(o) {
		return true
	}
	if o.Kind == Pay && o.Status != 0 {
		return slices.ContainsFunc(e.Ops, func(c Op) bool {
			other := c.Kind == Pay && c.ID != o.ID && c.Subject == o.Subject && c.overlaps(o.Sent, o.Done)
			return other && (c.failed() && e.struck(&c) || e.hung(&c))
		})
	}
	var asked request
	if o.Kind != Check || o.Status == 0 || json.Unmarshal(o.Request, &asked) != nil {
		return false
	}
	return slices.ContainsFunc(asked.contended(), func(wanted string) bool {
		return slices.ContainsFunc(e.contenders[wanted], func(c *check) bool {
			return c.Op != o && c.overlaps(o.Sent, o.Done) && (c.failed() && e.struck(c.Op) || e.hung(c.Op))
		})
	})
}

// contended returns keys that requests have in common if they can wait for each other's claims: the
// idempotency key, or roughly the fingerprint.
func (r request) contended() []string {
	wanted := []string{"fingerprint " + r.AgentID + " " + r.Counterparty}
	if r.IdempotencyKey != "" {
		wanted = append(wanted, "key "+r.IdempotencyKey)
	}
	return wanted
}

func (e *evidence) struck(o *Op) bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool {
		return (f.Excuses == nil || slices.Contains(f.Excuses, o.Via)) && o.overlaps(f.From, f.To+resumeIn+slack)
	})
}

// hung reports whether the node of a request was stopped during it.
func (e *evidence) hung(o *Op) bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool { return slices.Contains(f.Hangs, o.Via) && o.overlaps(f.From, f.To) })
}

// answersAreInTime: 2 s, whatever the node can reach, plus the timeout of a claim
// if a node may have left one behind (G7).
func (e *evidence) answersAreInTime() {
	for i := range e.Ops {
		o := &e.Ops[i]
		if o.Status == 0 {
			continue
		}
		within := answerIn
		for _, f := range e.Faults {
			if f.Hangs == nil || !o.overlaps(f.From, f.To+takeOverIn) {
				continue
			}
			within = max(within, takeOverIn)
			if slices.Contains(f.Hangs, o.Via) {
				within = max(within, f.To-f.From+takeOverIn)
			}
		}
		if took := o.Done - o.Sent; took > within+slack {
			e.findOp("G7", fmt.Sprintf("a %s through %s was answered after %s", o.Kind, o.Via, took.Round(time.Millisecond)), o)
		}
	}
}
