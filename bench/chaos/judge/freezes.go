package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// frozenCode refuses what a freeze stops, and is the reason for which a check is blocked by one.
const frozenCode = "frozen"

// FreezeStep is a recorded change that begins or ends a freeze.
type FreezeStep struct {
	ID          string          `json:"id"`
	Kind        string          `json:"kind"` // freeze.created, freeze.released or freeze.ended
	Scope       json.RawMessage `json:"scope"`
	UntilMS     int64           `json:"until_ms,omitempty"`
	CommittedUS int64           `json:"committed_us"`
}

// scope is what a freeze covers: the one member of its object.
type scope struct{ kind, value string }

func (s *scope) UnmarshalJSON(b []byte) error {
	var members map[string]any
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	for kind, value := range members {
		s.kind = kind
		s.value, _ = value.(string)
	}
	return nil
}

// subject is what a freeze may cover: an action, and the people who ask for it, redeem it or take it over.
type subject struct {
	PolicyID     string `json:"policy_id"`
	AgentID      string `json:"agent_id"`
	Counterparty string `json:"counterparty"`
	people       []string
}

func (s scope) covers(of subject) bool {
	switch s.kind {
	case "all":
		return true
	case "policy_id":
		return s.value == of.PolicyID
	case "agent_id":
		return s.value == of.AgentID
	case "counterparty":
		return s.value == of.Counterparty
	default:
		return slices.Contains(of.people, s.value)
	}
}

// who returns the names of who is behind a key.
func (e *evidence) who(key string) []string {
	names := []string{key}
	for _, k := range e.Keys {
		if k.ID == key && k.Principal != "" {
			names = append(names, k.Principal)
		}
	}
	return names
}

func (e *evidence) ofRow(r *Row, keys ...string) subject {
	of := subject{r.PolicyID, r.AgentID, r.Counterparty, e.who(r.KeyID)}
	for _, key := range keys {
		of.people = append(of.people, e.who(key)...)
	}
	return of
}

// ofRequest returns what a check, a payment or a redemption is about.
func (e *evidence) ofRequest(o *Op) (of subject, known bool) {
	if o.Kind == Redeem {
		r := e.rows[o.Subject]
		if r == nil {
			return of, false
		}
		return e.ofRow(r, o.Key), true
	}
	of.people = e.who(o.Key)
	return of, json.Unmarshal(o.Request, &of) == nil
}

// freeze is a freeze as its requests show it.
type freeze struct {
	Scope scope     `json:"scope"`
	Until time.Time `json:"until"`
	Key   string    `json:"idempotency_key"`
	of    *Op       // its first request
	told  *Op       // the first that was answered while it was active; nil if none was
	over  time.Duration
	ended time.Duration
}

const never = time.Duration(1 << 62)

// frozen returns all freezes: over since their first moment of doubt, and ended since no doubt is left.
func (e *evidence) frozen() []*freeze {
	var all []*freeze
	byKey, byID := make(map[string]*freeze), make(map[string]*freeze)
	for i := range e.Ops {
		o := &e.Ops[i]
		f := &freeze{of: o, over: never, ended: never}
		if o.Kind != Freeze || json.Unmarshal(o.Request, f) != nil || !o.failed() && o.Status >= 300 {
			continue
		}
		if known := byKey[f.Key]; known != nil {
			f = known
		} else {
			byKey[f.Key] = f
			all = append(all, f)
		}
		if !f.Until.IsZero() {
			f.over, f.ended = f.Until.Sub(e.Run.Began)-clockMargin, f.Until.Sub(e.Run.Began)+clockMargin
		}
		if o.Sent < f.of.Sent {
			f.of = o
		}
		var said shownFreeze
		if o.failed() || json.Unmarshal([]byte(o.Answer), &said) != nil {
			continue
		}
		byID[said.ID] = f
		if said.Status == "active" && (f.told == nil || o.Done < f.told.Done) {
			f.told = o
		}
	}
	for i := range e.Ops {
		o := &e.Ops[i]
		f := byID[o.Subject]
		if o.Kind != Thaw || f == nil {
			continue
		}
		f.over = min(f.over, o.Sent)
		var said shownFreeze
		if !o.failed() && o.Status < 300 && json.Unmarshal([]byte(o.Answer), &said) == nil && said.Status != "active" {
			f.ended = min(f.ended, o.Done)
		}
	}
	return all
}

type shownFreeze struct {
	ID     string `json:"freeze_id"`
	Status string `json:"status"`
}

// permits reports whether an answer lets its caller carry an action out.
func permits(o *Op) bool {
	var said struct {
		Decision string
		Payment  struct{ Proceed bool }
	}
	if o.Status != 200 || json.Unmarshal([]byte(o.Answer), &said) != nil {
		return false
	}
	return o.Kind == Redeem || o.Kind == Check && said.Decision == "allow" || o.Kind == Pay && said.Payment.Proceed
}

// nothingPassesFreezes: no answer permits what a freeze covers that was answered before the request was sent, nor in the end a
// request that was in flight then (G17).
func (e *evidence) nothingPassesFreezes() {
	frozen := e.frozen()
	for i := range e.Ops {
		o := &e.Ops[i]
		of, known := e.ofRequest(o)
		if !permits(o) || !known {
			continue
		}
		for _, f := range frozen {
			late := o.Done > f.since()+slack && !e.hung(o) // a node may stop, and continue, while it answers
			if f.Scope.covers(of) && o.Done < f.over && (o.Sent > f.since() || late) {
				e.findOp("G17", fmt.Sprintf("a %s was answered though %s %s was frozen: %s", o.Kind, f.Scope.kind, f.Scope.value, o.Answer), f.told, o)
			}
		}
	}
}

// since returns from when on a freeze surely covers.
func (f *freeze) since() time.Duration {
	if f.told == nil {
		return never - slack
	}
	return f.told.Done
}

// nothingIsRecordedFrozen: nothing that permits something which a freeze covers is committed behind the freeze, and before its
// end (G17).
func (e *evidence) nothingIsRecordedFrozen() {
	for i, s := range e.Freezes {
		if s.Kind != "freeze.created" {
			continue
		}
		from, to := s.CommittedUS, int64(never)
		for _, later := range e.Freezes[i+1:] {
			if later.ID == s.ID {
				to = min(to, later.CommittedUS)
			}
		}
		if s.UntilMS > 0 {
			to = min(to, s.UntilMS*1000-clockMargin.Microseconds())
		}
		var covered scope
		if json.Unmarshal(s.Scope, &covered) != nil {
			e.find("G17", "a freeze without a scope: "+string(s.Scope))
			continue
		}
		e.recordedWithin(s.ID, covered, from, to)
	}
}

func (e *evidence) recordedWithin(id string, covered scope, from, to int64) {
	within := func(us int64, of subject) bool { return us > from && us < to && covered.covers(of) }
	for i := range e.Rows {
		if r := &e.Rows[i]; r.Decision == "allow" && within(r.CommittedUS, e.ofRow(r)) {
			e.findRow("G17", fmt.Sprintf("%s is recorded as allowed behind %s of %s %s", r.CheckID, id, covered.kind, covered.value), r)
		}
	}
	for _, step := range e.Redemptions {
		r := e.rows[step.CheckID]
		if r != nil && !step.InDoubt && within(step.CommittedUS, e.ofRow(r, step.KeyID)) {
			e.findRow("G17", fmt.Sprintf("%s is recorded as redeemed behind %s of %s %s", r.CheckID, id, covered.kind, covered.value), r)
		}
	}
	for _, step := range e.Payments {
		if step.Permits && within(step.CommittedUS, e.ofPayment(step.Payment)) {
			e.findings = append(e.findings, Finding{Rule: "G17", Text: fmt.Sprintf("%s of %s is recorded as %q behind %s of %s %s", step.CheckID,
				step.Payment, step.Status, id, covered.kind, covered.value), From: e.at(step.AtMS), To: e.at(step.AtMS)})
		}
	}
}

// ofPayment returns what a payment is about: all of its requests are about the same, and by the same principal.
func (e *evidence) ofPayment(key string) subject {
	for i := range e.Ops {
		if o := &e.Ops[i]; o.Kind == Pay && o.Subject == key {
			of, _ := e.ofRequest(o)
			of.people = of.people[1:] // not the key, which may be another
			return of
		}
	}
	return subject{}
}

// onlyFrozenIsStopped: what is refused as frozen is covered by a freeze that may have been active (G17).
func (e *evidence) onlyFrozenIsStopped() {
	frozen := e.frozen()
	may := func(of subject, from, to time.Duration) bool {
		return slices.ContainsFunc(frozen, func(f *freeze) bool { return f.Scope.covers(of) && f.of.Sent < to && f.ended > from })
	}
	for i := range e.Ops {
		o := &e.Ops[i]
		if o.Status != 409 || o.code() != frozenCode {
			continue
		}
		if of, known := e.ofRequest(o); known && !may(of, o.Sent, o.Done) {
			e.findOp("G17", "nothing froze what is refused as frozen: "+o.Answer, o)
		}
	}
	for i := range e.Rows {
		r := &e.Rows[i]
		if made := e.producers(r); r.frozen() && len(made) > 0 && !may(e.ofRow(r), made[0].Sent, e.recordedBy(r)) {
			e.findRow("G17", r.CheckID+" is blocked as frozen, and nothing froze it", r)
		}
	}
}
