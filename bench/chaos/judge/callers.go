package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// change is a PATCH of an API key.
type change struct {
	*Op
	Active *bool `json:"active"`
	Limit  *int  `json:"rate_limit_rpm"`
}

// confirmed reports whether the change was confirmed. An unconfirmed change may take effect at any
// time, or never.
func (c change) confirmed() bool { return c.Status == 200 }

// changes returns the changes in the order in which they were sent, by key.
func (e *evidence) changes() map[string][]change {
	all := make(map[string][]change)
	for i := range e.Ops {
		o := &e.Ops[i]
		c := change{Op: o}
		if o.Kind == Patch && json.Unmarshal(o.Request, &c) == nil && (o.failed() || o.Status == 200) {
			c.Op = o
			all[o.Subject] = append(all[o.Subject], c)
		}
	}
	for _, of := range all {
		slices.SortFunc(of, func(a, b change) int { return int(a.Sent - b.Sent) })
	}
	return all
}

// keysAreFresh: a key whose deactivation was confirmed is refused, and an active key is not (G5).
func (e *evidence) keysAreFresh() {
	changes := e.changes()
	for i := range e.Ops {
		o := &e.Ops[i]
		if o.Key == "" || o.failed() || o.Status == 429 && o.code() != "rate_limit_exceeded" {
			continue
		}
		mayBeActive, mayBeInactive := true, false
		var last *Op
		for _, c := range changes[o.Key] {
			switch {
			case c.Active == nil || c.Sent > o.Done:
			case c.confirmed() && c.Done < o.Sent: // in force
				mayBeActive, mayBeInactive, last = *c.Active, !*c.Active, c.Op
			default:
				mayBeActive, mayBeInactive = mayBeActive || *c.Active, mayBeInactive || !*c.Active
			}
		}
		for _, c := range changes[o.Key] {
			if c.Active != nil && !c.confirmed() && c.Sent < o.Done { // an unanswered change may arrive at any time
				mayBeActive, mayBeInactive = mayBeActive || *c.Active, mayBeInactive || !*c.Active
			}
		}
		of := []*Op{o}
		if last != nil {
			of = []*Op{last, o}
		}
		switch {
		case o.Status == 401 && !mayBeInactive:
			e.findOp("G5", fmt.Sprintf("key %s is active and was refused: %s", o.Key, o.Answer), of...)
		case o.Status == 401 && o.code() != "api_key_inactive":
			e.findOp("G5", fmt.Sprintf("key %s is known and was refused as %s", o.Key, o.code()), of...)
		case o.Status != 401 && !mayBeActive:
			e.findOp("G5", fmt.Sprintf("key %s is inactive and was admitted: %d", o.Key, o.Status), of...)
		}
	}
}

// window is the length of a rate window (S26).
const window = time.Minute

// limitsHold: no more requests of a key are admitted in a window than its
// limit (G6). A key's window opens with its first request, and again with the
// first after Redis was lost; requests in flight at that moment are not judged.
// Reads are left out, because each node counts them itself while Redis is down.
func (e *evidence) limitsHold() {
	changes := e.changes()
	byKey := make(map[string][]*Op)
	for i := range e.Ops {
		if o := &e.Ops[i]; o.Key != "" {
			byKey[o.Key] = append(byKey[o.Key], o)
		}
	}
	for _, k := range e.Keys {
		ops := byKey[k.ID]
		slices.SortFunc(ops, func(a, b *Op) int { return int(a.Sent - b.Sent) })
		for _, since := range e.epochs() {
			e.limitHolds(k, ops, changes[k.ID], since)
		}
		e.refusalsAreDue(k, ops, changes[k.ID])
	}
}

// epoch is a time in which Redis lost nothing.
type epoch struct {
	opened time.Duration // when Redis first took writes again
	from   time.Duration
	to     time.Duration
	old    bool // Redis began with an old copy, in which an older window may end
}

func (e *evidence) epochs() []epoch {
	losses := slices.DeleteFunc(slices.Clone(e.Faults), func(f Fault) bool { return !f.Loses })
	slices.SortFunc(losses, func(a, b Fault) int { return int(a.From - b.From) })
	epochs := []epoch{{to: 1 << 62}}
	for _, f := range losses {
		epochs[len(epochs)-1].to = f.From
		epochs = append(epochs, epoch{opened: f.From, from: f.To, to: 1 << 62, old: true})
	}
	return epochs
}

func (e *evidence) limitHolds(k Key, ops []*Op, changes []change, l epoch) {
	limits := limitsBetween(k, changes, l.from, l.to)
	first, admitted := time.Duration(-1), []*Op(nil)
	for _, o := range ops {
		if first < 0 && o.Done >= l.opened {
			first = max(o.Sent, l.opened)
		}
		counts := o.Kind == Check || o.Kind == Simulate || o.Kind == Post
		if counts && !o.failed() && o.Status != 401 && o.Status != 429 && o.Sent >= l.from && o.Done <= l.to {
			admitted = append(admitted, o)
		}
	}
	if len(admitted) == 0 {
		return
	}
	span := admitted[len(admitted)-1].Done - first
	windows := 1 + int((span+windowMargin)/window)
	if l.old {
		windows++
	}
	if most := slices.Max(limits) * windows; len(admitted) > most {
		e.findOp("G6", fmt.Sprintf("key %s was admitted %d times in %d window(s) of at most %d",
			k.ID, len(admitted), windows, slices.Max(limits)), admitted[0], admitted[len(admitted)-1])
	}
}

// limitsBetween returns the limits that may have been in force within [from, to].
func limitsBetween(k Key, changes []change, from, to time.Duration) []int {
	limits := []int{k.Limit}
	for _, c := range changes {
		switch {
		case c.Limit == nil || c.Sent > to:
		case c.confirmed() && c.Done < from:
			limits = []int{*c.Limit}
		default:
			limits = append(limits, *c.Limit)
		}
	}
	for _, c := range changes {
		if c.Limit != nil && !c.confirmed() && c.Sent < to {
			limits = append(limits, *c.Limit)
		}
	}
	return limits
}

// refusalsAreDue: no request is refused before as many requests were sent as the limit allows.
func (e *evidence) refusalsAreDue(k Key, ops []*Op, changes []change) {
	for _, o := range ops {
		if o.Status != 429 {
			continue
		}
		sent := 0
		for _, other := range ops {
			if other != o && other.Sent < o.Done {
				sent++
			}
		}
		if least := slices.Min(limitsBetween(k, changes, o.Sent, o.Done)); sent < least {
			e.findOp("G6", fmt.Sprintf("key %s was refused as over its limit of %d after %d requests", k.ID, least, sent), o)
		}
	}
}
