package judge

import (
	"slices"
	"time"
)

// stoppedCode refuses what was allowed to a key before it was deactivated.
const stoppedCode = "check_stopped"

// deactivations returns the changes that deactivate a key.
func (e *evidence) deactivations(key string) []change {
	if e.deactivated == nil {
		e.deactivated = e.changes()
		for key, all := range e.deactivated {
			e.deactivated[key] = slices.DeleteFunc(all, func(c change) bool { return c.Active == nil || *c.Active })
		}
	}
	return e.deactivated[key]
}

// stoppedBy returns a deactivation that surely stopped a check before a moment: it was sent after the check was answered, and
// confirmed before the moment. Nil if there is none.
func (e *evidence) stoppedBy(r *Row, before time.Duration) *Op {
	for _, c := range e.deactivations(r.KeyID) {
		for _, told := range e.answers[r.CheckID] {
			if told.Done < c.Sent && c.confirmed() && c.Done < before {
				return c.Op
			}
		}
	}
	return nil
}

// mayBeStopped reports whether some deactivation may have stopped a check before a moment.
func (e *evidence) mayBeStopped(r *Row, before time.Duration) bool {
	for _, c := range e.deactivations(r.KeyID) {
		if c.Sent < before && (!c.confirmed() || c.Done > e.at(r.AtMS)-clockMargin) {
			return true
		}
	}
	return false
}

// stoppedStays: what a key was allowed, and nobody redeemed, is neither redeemed nor given again once the key was deactivated
// (S87).
func (e *evidence) stoppedStays() {
	for i := range e.Ops {
		o := &e.Ops[i]
		r := e.rows[o.Subject]
		if o.Kind != Redeem || o.Status != 200 || o.Replayed || r == nil {
			continue
		}
		if by := e.stoppedBy(r, o.Sent); by != nil {
			e.findOp("G17", o.Subject+" is redeemed though its key was deactivated since", by, o)
		}
	}
	for _, c := range e.checks {
		if c.result == nil || !c.Replayed {
			continue
		}
		r := e.rows[c.result.CheckID]
		if r == nil || r.Decision != "allow" || e.redeemedBefore(r.CheckID, c.Done) {
			continue
		}
		if by := e.stoppedBy(r, c.Sent); by != nil {
			e.findOp("G17", r.CheckID+" is given again though its key was deactivated since", by, c.Op)
		}
	}
}
