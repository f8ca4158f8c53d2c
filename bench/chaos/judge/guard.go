package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// onePasses: of identical actions within a window one passes the guard (G3).
func (e *evidence) onePasses() {
	passes := make(map[string][]*Row)
	for i := range e.Rows {
		if r := &e.Rows[i]; r.passed() {
			passes[r.fingerprint()] = append(passes[r.fingerprint()], r)
		}
	}
	for _, of := range passes {
		slices.SortFunc(of, func(a, b *Row) int { return cmp.Compare(*a.ClaimedMS, *b.ClaimedMS) })
		for i, later := range of[1:] {
			earlier := of[i]
			gap := time.Duration(*later.ClaimedMS-*earlier.ClaimedMS) * time.Millisecond
			if e.succeeds(later, earlier) {
				continue
			}
			if window := e.window(later); gap < window-windowMargin {
				e.findRow("G3", fmt.Sprintf("%s and, %s later, %s passed as the same action; the window is %s",
					earlier.CheckID, gap, later.CheckID, window), earlier, later)
			}
		}
	}
}

// succeeds reports whether a check may pass although another one holds its action: people approved
// it and the other was not allowed, or the other was released meanwhile. Two claims of one moment
// may be stamped in the wrong order.
func (e *evidence) succeeds(later, earlier *Row) bool {
	if later.ApprovalID != nil && earlier.Decision != "allow" || deref(earlier.ApprovalID) == later.approval() {
		return true
	}
	return e.wasFree(earlier, e.at(later.AtMS)-longest, e.recordedBy(later))
}

// longest is how long a check whose answer was lost may take until it is recorded.
const longest = 10 * time.Second

// recordedBy returns the latest time at which a row was recorded.
func (e *evidence) recordedBy(r *Row) time.Duration {
	if made := e.producers(r); len(made) == 1 && made[0].result != nil {
		return made[0].Done
	}
	return e.at(r.AtMS) + longest
}

// window returns the duplicate window of the row's policy.
func (e *evidence) window(r *Row) time.Duration {
	if p := e.policies[policyVersion{r.PolicyID, r.PolicyVersion}]; p != nil {
		return p.window
	}
	return defaultWindow
}

// duplicatesAreOf: a duplicate names a recorded pass of the same action,
// within the window (G3).
func (e *evidence) duplicatesAreOf() {
	for i := range e.Rows {
		r := &e.Rows[i]
		id, duplicate := r.duplicateOf()
		if (duplicate || r.exceeded() || r.frozen()) == r.passed() {
			e.findRow("G3", fmt.Sprintf("%s is recorded as passed (%t), as a duplicate (%t), as exceeded (%t) and as frozen (%t)", r.CheckID,
				r.passed(), duplicate, r.exceeded(), r.frozen()), r)
			continue
		}
		if !duplicate {
			continue
		}
		switch of := e.rows[id]; {
		case of == nil:
			e.findRow("G3", fmt.Sprintf("%s is a duplicate of %q, which is not recorded", r.CheckID, id), r)
		case !of.passed() || of.fingerprint() != r.fingerprint():
			e.findRow("G3", fmt.Sprintf("%s is a duplicate of %s, which did not pass as the same action", r.CheckID, id), r, of)
		default:
			age := time.Duration(r.AtMS-*of.ClaimedMS) * time.Millisecond
			if window := e.window(r); age > window+windowMargin || age < -windowMargin {
				e.findRow("G3", fmt.Sprintf("%s is a duplicate of %s, %s after it; the window is %s", r.CheckID, id, age, window), r, of)
			}
		}
	}
}

// orphansAnswerOnce: a check without idempotency key answers one request. If that
// got a 500 although the check was recorded, it answers the next identical
// request and does not block it (G7).
func (e *evidence) orphansAnswerOnce() {
	for id, answered := range e.answers {
		if len(answered) > 1 && answered[0].request.IdempotencyKey == "" {
			e.find("G7", id+" answered more than one request without key", answered...)
		}
	}
	blocked := make(map[string][]*check) // by the check of which they are duplicates
	for _, c := range e.checks {
		if c.result == nil || c.request.IdempotencyKey != "" {
			continue
		}
		if r := e.rows[c.result.CheckID]; r != nil {
			if id, duplicate := r.duplicateOf(); duplicate {
				blocked[id] = append(blocked[id], c)
			}
		}
	}
	for id, by := range blocked {
		orphan := e.rows[id]
		if orphan == nil || orphan.IdempotencyKey != nil || len(e.answers[id]) > 0 {
			continue // another rule finds a missing row; the others answered a request
		}
		for _, c := range by {
			if !slices.Contains(orphan.requests(), c.same) {
				continue
			}
			if causes := e.refusedBefore(c); causes != nil {
				e.find("G7", fmt.Sprintf("%s was recorded but answered 500, and blocks its retry", id), append(causes, c)...)
			}
		}
	}
}

// refusedBefore returns the requests that may have made an orphan, if each of them was answered 500
// before the retry was sent. It returns nil if the orphan may have answered a request, if the retry
// is not a retry of it, or if the mark of the orphan, a lease in Redis, may be lost.
func (e *evidence) refusedBefore(retry *check) []*check {
	var refused []*check
	for _, c := range e.alike[retry.same] {
		switch {
		case c == retry || c.Sent > retry.Done:
		case c.Status == 0:
			return nil // the lost answer may have been the orphan
		case (c.Status >= 500 || c.code() == frozenCode) && c.Done < retry.Sent:
			refused = append(refused, c)
		case c.failed():
			return nil // the failed request may have got the orphan
		}
	}
	if len(refused) == 0 {
		return nil
	}
	from := refused[0].Sent
	for _, f := range e.Faults {
		if (f.Redis || f.Loses || f.Excuses != nil) && f.From <= retry.Done && f.To+resumeIn+slack >= from {
			return nil
		}
	}
	return refused
}

// simulationsLeaveNothing: simulations leave neither rows nor violations (G10).
func (e *evidence) simulationsLeaveNothing() {
	for i := range e.Ops {
		o := &e.Ops[i]
		if o.Kind != Simulate || o.Status != 200 {
			continue
		}
		for _, r := range simulated(o.Answer) {
			if row := e.rows[r.CheckID]; row != nil {
				e.findOp("G10", r.CheckID+" was simulated and is recorded", o)
			}
		}
	}
}
