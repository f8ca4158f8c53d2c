package sim

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// petition is the record about an approval.
type petition struct {
	check    *spend.Check // that asked
	approves []approves
	until    time.Time // until when people may decide
	approved time.Time // zero while not enough have
	spans    []span    // in which it was approved
	denied   time.Time
	expired  time.Time // as it is recorded, or withdrawn
	used     *spend.Check
}

// approves is somebody's approval.
type approves struct {
	keyID, who string
	groups     []string
	void       bool
}

// span is a time in which an approval was approved.
type span struct{ from, to time.Time }

// judgeApprovals checks G13 and S92 against the records, in the order of their commits, and then compares
// what clients saw with the records.
func (f *simulation) judgeApprovals(fail func(string, ...any)) {
	all := make(map[spend.ID]*petition)
	byName := make(map[string]*petition)
	keys := standings(f.record.all)
	ofPayment := make(map[string][]*petition)
	for place, e := range f.record.all {
		if e.check != nil && e.check.Payment != nil {
			for _, p := range ofPayment[e.check.Payment.Key] {
				p.judgeAlone(fail, e.check, e.at)
			}
		}
		switch {
		case e.check != nil && e.check.UsesApproval():
			p := all[e.check.Action.ApprovalID]
			p.use(fail, e.check, e.at)
			p.judgeStanding(fail, e.check, keys, place)
		case e.check != nil && e.check.Approval != nil:
			p := &petition{check: e.check, until: e.at.Add(e.check.Approval.Expires)}
			all[e.check.ID], byName[e.check.ID.Text(spend.PrefixApproval)] = p, p
			if e.check.Payment != nil {
				ofPayment[e.check.Payment.Key] = append(ofPayment[e.check.Payment.Key], p)
			}
		case e.change != nil && byName[e.change.Subject] != nil:
			byName[e.change.Subject].decide(fail, e.change, e.at)
		}
	}
	for _, d := range f.decided {
		f.judgeDecided(fail, d, all[d.approval])
	}
	for _, s := range f.sent {
		if refused, ok := errors.AsType[*audit.ApprovalError](s.err); ok && !s.lost {
			f.judgeRefused(fail, s, all[s.action.ApprovalID], refused)
		}
	}
}

// judgeDecided compares what somebody was told with the record.
func (f *simulation) judgeDecided(fail func(string, ...any), d *decided, p *petition) {
	_, forbidden := errors.AsType[*hotpath.ForbiddenError](d.err)
	if d.lost || forbidden || errors.Is(d.err, hotpath.ErrUnavailable) || errors.Is(d.err, hotpath.ErrKeyInactive) ||
		errors.Is(d.err, hotpath.ErrApprovalNotFound) && p == nil {
		return
	}
	_, late := errors.AsType[*hotpath.NotPendingError](d.err)
	own := errors.Is(d.err, hotpath.NotRecordedError{Why: audit.DecisionOwn})
	noGroup := errors.Is(d.err, hotpath.NotRecordedError{Why: audit.DecisionNoGroup})
	switch {
	case p == nil:
		fail("G13: %s decided about %s, which is not recorded", d.who, d.approval.Text("apr_"))
	case own && f.named(d.who) == nil: // who asks, or owns their key
	case (d.who == asker || d.who == owner) && !noGroup: // in no group
		fail("S44: %s decided about %s: %v", d.who, d.approval.Text("apr_"), d.err)
	case noGroup && p.check.Approval.From == nil, d.err != nil && !late && !own && !noGroup:
		fail("a decision about %s: %v", d.approval.Text("apr_"), d.err)
	case d.err == nil && d.approves && !slices.ContainsFunc(p.approves, func(a approves) bool { return f.named(d.who).is(a.keyID) }),
		d.err == nil && !d.approves && p.denied.IsZero():
		fail("G13: the decision of %s about %s was answered and is not recorded", d.who, d.approval.Text("apr_"))
	}
}

func (m *member) is(keyID string) bool { return m != nil && m.id.Text(spend.PrefixKey) == keyID }

// enough reports whether as many different people approved as must, by their keys' present names.
func (p *petition) enough(counts func(approves) bool) bool {
	var by []approves
	for _, a := range p.approves {
		if !a.void && counts(a) && !slices.ContainsFunc(by, func(o approves) bool { return o.who == a.who }) {
			by = append(by, a)
		}
	}
	var places [][]string // the groups of each of whom one must have approved
	for _, from := range p.check.Approval.From {
		for range from.Required {
			places = append(places, from.Groups())
		}
	}
	return len(by) >= p.check.Approval.Required && matches(places, by)
}

// matches reports whether each place can have somebody of its groups, and nobody has two.
func matches(places [][]string, by []approves) bool {
	if len(places) == 0 {
		return true
	}
	for i, a := range by {
		in := slices.ContainsFunc(a.groups, func(group string) bool { return slices.Contains(places[0], group) })
		if in && matches(places[1:], slices.Delete(slices.Clone(by), i, i+1)) {
			return true
		}
	}
	return false
}

// decide adds a decision, a reopening, or the expiry.
func (p *petition) decide(fail func(string, ...any), ch *audit.Change, at time.Time) {
	switch ch.Kind {
	case audit.ApprovalExpiry:
		p.expire(fail, ch, at)
		return
	case audit.ApprovalWithdrawal:
		if p.check.Payment == nil || p.used != nil || !p.denied.IsZero() || !p.expired.IsZero() {
			fail("S84: %s is recorded as withdrawn", ch.Subject)
		}
		p.expired = at
		p.end(at)
		return
	case audit.ApprovalReopening:
		p.reopen(fail, ch, at)
		return
	default:
	}
	var said struct {
		Groups []string `json:"groups"`
	}
	_ = json.Unmarshal([]byte(ch.Details), &said) // without groups
	by := approves{keyID: ch.By.KeyID, who: ch.By.Principal, groups: said.Groups}
	again := slices.ContainsFunc(p.approves, func(a approves) bool { return !a.void && a.keyID == by.keyID })
	given := ch.Kind == audit.ApprovalGiven
	late := !p.denied.IsZero() || !p.expired.IsZero() || p.used != nil || given && !p.approved.IsZero() ||
		p.approved.IsZero() && !at.Before(p.until)
	if by.who == asker || by.who == owner || again && given || late {
		fail("G13: %s of %s by %s is recorded", ch.Kind, ch.Subject, by.who)
	}
	if !given {
		p.denied = at
		p.end(at)
		return
	}
	p.approves = append(p.approves, by)
	if p.enough(func(approves) bool { return true }) {
		p.approved = at
	}
}

// judgeAlone checks that a round of a payment asks people one question at a time, and begins nothing beside one.
func (p *petition) judgeAlone(fail func(string, ...any), c *spend.Check, at time.Time) {
	until := p.until
	if !p.approved.IsZero() {
		until = p.approved.Add(p.check.Approval.UseWithin)
	}
	over := p.check.Payment.Round != c.Payment.Round || p.used != nil || !p.denied.IsZero() || !p.expired.IsZero() || !at.Before(until)
	if !over && c.Action.ApprovalID != p.check.ID && c.Decision.Effect != spend.Block {
		fail("S84: %s comes while people are asked by %s", c.ID.Text("chk_"), p.check.ID.Text("chk_"))
	}
}

func (p *petition) expire(fail func(string, ...any), ch *audit.Change, at time.Time) {
	due := p.until
	if !p.approved.IsZero() {
		due = p.approved.Add(p.check.Approval.UseWithin)
	}
	if at.Before(due.Add(-time.Millisecond)) || p.used != nil || !p.denied.IsZero() || !p.expired.IsZero() {
		fail("G13: %s is recorded as expired at %s", ch.Subject, at)
	}
	p.expired = at
	p.end(at)
}

// reopen voids what some keys approved; people have their time anew.
func (p *petition) reopen(fail func(string, ...any), ch *audit.Change, at time.Time) {
	if p.used != nil || !p.denied.IsZero() || !p.expired.IsZero() {
		fail("S92: %s is reopened at %s", ch.Subject, at)
	}
	for i := range p.approves {
		p.approves[i].void = p.approves[i].void || slices.Contains(audit.ReopeningKeys(ch.Details), p.approves[i].keyID)
	}
	p.until = at.Add(p.check.Approval.Expires)
	p.end(at)
}

// end ends the time in which it was approved.
func (p *petition) end(at time.Time) {
	if !p.approved.IsZero() {
		p.spans = append(p.spans, span{p.approved, at})
	}
	p.approved = time.Time{}
}

// use checks a use and marks it.
func (p *petition) use(fail func(string, ...any), c *spend.Check, at time.Time) {
	const tick = time.Millisecond // to which the store rounds its times
	switch {
	case p == nil:
		fail("G13: %s uses an approval that nobody had asked for", c.ID.Text("chk_"))
		return
	case again(c) != again(p.check) || c.PrincipalName() != p.check.PrincipalName() || c.ActionType != p.check.ActionType:
		fail("G13: %s is %+v, approved was %+v", c.ID.Text("chk_"), c.Action, p.check.Action)
	case p.used != nil:
		fail("G13: %s and %s use one approval", c.ID.Text("chk_"), p.used.ID.Text("chk_"))
	case p.approved.IsZero() || !p.denied.IsZero() || !p.expired.IsZero():
		fail("G13: %s uses what %d of %d approved, denied at %s, expired at %s", c.ID.Text("chk_"), len(p.approves), p.check.Approval.Required,
			p.denied, p.expired)
	case at.After(p.approved.Add(p.check.Approval.UseWithin + tick)):
		fail("G13: %s uses at %s what was approved at %s", c.ID.Text("chk_"), at, p.approved)
	}
	p.used = c
}

// judgeStanding checks S92: as many people approved as must whose keys were active, might decide and did not stand for who asked when
// the use was recorded. Their groups are those of their decisions.
func (p *petition) judgeStanding(fail func(string, ...any), c *spend.Check, keys map[string][]standing, place int) {
	if p == nil {
		return
	}
	counts := func(a approves) bool {
		is := before(keys[a.keyID], place)
		return is.decides() && is.Principal != asker && is.Principal != owner
	}
	if !p.enough(counts) {
		fail("S92: %s uses what was approved by %+v, of whom too few count", c.ID.Text("chk_"), p.approves)
	}
}

// wasApproved reports whether it was approved all the time from one moment to another.
func (p *petition) wasApproved(from, to time.Time) bool {
	if !p.approved.IsZero() && p.approved.Before(from) {
		return true
	}
	return slices.ContainsFunc(p.spans, func(s span) bool { return s.from.Before(from) && s.to.After(to) })
}

// judgeRefused checks that the reason for which a use was refused is true.
func (f *simulation) judgeRefused(fail func(string, ...any), s *sent, p *petition, refused *audit.ApprovalError) {
	lie := p == nil
	switch {
	case lie:
	case s.action.Amount != p.check.Action.Amount:
		lie = refused.Status != audit.ApprovalMismatch
	case refused.Status == audit.ApprovalUsed:
		lie = p.used == nil || p.used.ID != refused.UsedBy
	case refused.Status == audit.ApprovalPending:
		lie = p.wasApproved(s.began, s.ended())
	case refused.Status == audit.ApprovalDenied:
		lie = p.denied.IsZero() || p.denied.After(s.ended())
	case refused.Status == audit.ApprovalExpired:
		lie = s.ended().Before(p.until) &&
			(p.approved.IsZero() || s.ended().Before(p.approved.Add(p.check.Approval.UseWithin-time.Millisecond)))
	default:
		lie = true
	}
	if lie {
		fail("S47: check %d was refused as %s, used by %s; recorded is %+v", s.number, refused.Status, refused.UsedBy.Text("chk_"), p)
	}
}
