package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

const (
	// asking is the policy whose escalations ask people.
	asking = "asking"
	// asker and owner are behind the key that asks, and may not decide (S44).
	asker, owner = "shop", "olga"
)

// decided is a person's decision and the answer to it.
type decided struct {
	approval spend.ID
	who      string
	approves bool
	ended    time.Time
	err      error
	lost     bool // the node died before it answered
}

// askPeople sends an action that is escalated, now and then again after its window,
// has people decide about it, and uses their approvals by several requests at once.
func (f *simulation) askPeople(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
	a := f.actionToAsk(r)
	asked := f.insist(r, a)
	if !asked.seen() || asked.answer.Check.Approval == nil {
		return
	}
	approvals := []*spend.Check{asked.answer.Check}
	if r.IntN(3) == 0 && !f.lossless { // else all checks must be in one rate window
		time.Sleep(shortMinutes*time.Minute + time.Second)
		if asked = f.insist(r, again(approvals[0])); asked.seen() && asked.answer.Check.Approval != nil {
			approvals = append(approvals, asked.answer.Check)
		}
	}
	early, keyed := r.IntN(4) == 0, r.IntN(3) == 0
	decisions := rand.New(rand.NewPCG(r.Uint64(), 0))
	done := make(chan struct{})
	go func() {
		for _, c := range approvals {
			f.decideAll(decisions, c)
		}
		close(done)
	}()
	if !early {
		<-done
		if r.IntN(6) == 0 && !f.lossless {
			time.Sleep(time.Duration(r.Int64N(int64(2 * time.Minute))))
		}
	}
	use := func(c *spend.Check) spend.Action {
		action := again(c)
		if action.ApprovalID = c.ID; keyed {
			action.IdempotencyKey = "use " + c.ID.Text("")
		}
		return action
	}
	f.several(r, 2+r.IntN(2), func(r *rand.Rand, _ int) {
		action := use(approvals[r.IntN(len(approvals))])
		if r.IntN(6) == 0 {
			action.Amount, _ = spend.ParseAmount("59")
			action.IdempotencyKey = ""
		}
		f.insist(r, action)
	})
	<-done
	c := approvals[0]
	used := f.insist(r, use(c))
	if used.seen() && used.answer.Check.UsesApproval() && r.IntN(2) == 0 {
		f.report(r, used.answer.Check, spend.Executor, hotpath.Report{Status: spend.Voided})
		f.insist(r, use(c))
		f.insist(r, again(c))
	}
}

// askCalmly asks after all faults have ended: then people's approval is used.
func (f *simulation) askCalmly() {
	a := f.actionToAsk(f.source())
	a.Amount, _ = spend.ParseAmount("30") // every version asks
	a.Counterparty, a.IdempotencyKey = "sofa", ""
	asked := f.retry(a)
	if !asked.seen() || asked.answer.Check == nil {
		return
	}
	for _, who := range []string{"ann", "bob"} {
		f.decide(chance(f.seed, 0), f.nodes[:1], asked.answer.Check, who, true)
	}
	a.ApprovalID = asked.answer.Check.ID
	if used := f.retry(a); used.seen() && (used.answer.Check == nil || !used.answer.Check.UsesApproval()) {
		f.note("what people approved does not pass: %s", used)
		f.unrecovered = true
	}
}

func (f *simulation) actionToAsk(r *rand.Rand) spend.Action {
	text := [...]string{"15", "22", "30", "40"}[r.IntN(4)]
	amount, _ := spend.ParseAmount(text)
	a := spend.Action{
		AgentID: "agent", PolicyID: asking, Type: spend.Refund, Amount: amount, Currency: "USD",
		Counterparty: [...]string{"desk", "chair", "lamp"}[r.IntN(3)],
	}
	if r.IntN(4) == 0 {
		a.IdempotencyKey = a.Counterparty + text
	}
	return a
}

// decideAll has people decide at about the same moment, sometimes including one who may not decide
// or one who denies.
func (f *simulation) decideAll(r *rand.Rand, c *spend.Check) {
	who := []string{"ann", "bob", "cleo", "ann", asker, owner}
	r.Shuffle(len(who), func(i, j int) { who[i], who[j] = who[j], who[i] })
	who = who[:4+r.IntN(3)]
	f.several(r, len(who), func(r *rand.Rand, node int) {
		f.mu.Lock()
		name := who[0]
		who = who[1:]
		f.mu.Unlock()
		f.decide(r, f.nodes, c, name, r.IntN(12) > 0)
	})
}

// decide decides about an approval through one of the nodes, and retries if that fails.
func (f *simulation) decide(r *rand.Rand, nodes []*simNode, c *spend.Check, who string, approves bool) {
	access := hotpath.AccessOf(&audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Approver, Principal: who}})
	for range 3 {
		n := nodes[r.IntN(len(nodes))]
		_, _, err := n.DecideApproval(context.Background(), access, audit.Actor{}, audit.ApprovalDecisionRequest{
			ApprovalID: c.ID, Approves: approves, ActionHash: c.Approval.ActionHash,
		})
		f.mu.Lock()
		f.decided = append(f.decided, &decided{c.ID, who, approves, time.Now(), err, n.store.isDead()})
		f.mu.Unlock()
		if !errors.Is(err, hotpath.ErrUnavailable) {
			return
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
}

// petition is the record about an approval.
type petition struct {
	check    *spend.Check // that asked
	asked    time.Time
	by       map[string]bool // who approved
	approved time.Time       // zero until enough have
	denied   time.Time
	expired  time.Time // as it is recorded
	used     *spend.Check
}

// judgeApprovals checks G13 against the records, in the order of their commits, and then compares
// what clients saw with the records.
func (f *simulation) judgeApprovals(fail func(string, ...any)) {
	all := make(map[spend.ID]*petition)
	byName := make(map[string]*petition)
	for _, e := range f.record.events {
		switch {
		case e.check != nil && e.check.UsesApproval():
			all[e.check.Action.ApprovalID].use(fail, e.check, e.at)
		case e.check != nil && e.check.Approval != nil:
			p := &petition{check: e.check, asked: e.at, by: make(map[string]bool)}
			all[e.check.ID], byName[e.check.ID.Text(spend.PrefixApproval)] = p, p
		case e.change != nil && byName[e.change.Subject] != nil:
			byName[e.change.Subject].decide(fail, e.change, e.at)
		}
	}
	for _, d := range f.decided {
		if d.lost || errors.Is(d.err, hotpath.ErrUnavailable) {
			continue
		}
		p := all[d.approval]
		_, late := errors.AsType[*hotpath.NotPendingError](d.err)
		switch {
		case p == nil:
			fail("G13: %s decided about %s, which is not recorded", d.who, d.approval.Text("apr_"))
		case errors.Is(d.err, hotpath.NotRecordedError{Why: audit.DecisionOwn}) != (d.who == asker || d.who == owner):
			fail("S44: %s decided about %s: %v", d.who, d.approval.Text("apr_"), d.err)
		case d.err == nil && d.approves && !p.by[d.who], d.err == nil && !d.approves && p.denied.IsZero():
			fail("G13: the decision of %s about %s was answered and is not recorded", d.who, d.approval.Text("apr_"))
		case d.err != nil && !late && !errors.Is(d.err, hotpath.NotRecordedError{Why: audit.DecisionOwn}):
			fail("a decision about %s: %v", d.approval.Text("apr_"), d.err)
		}
	}
	for _, s := range f.sent {
		if refused, ok := errors.AsType[*audit.ApprovalError](s.err); ok && !s.lost {
			f.judgeRefused(fail, s, all[s.action.ApprovalID], refused)
		}
	}
}

// decide adds a decision, or the expiry.
func (p *petition) decide(fail func(string, ...any), ch *audit.Change, at time.Time) {
	who := ch.By.Principal
	expired := !at.Before(p.asked.Add(p.check.Approval.Expires))
	if ch.Kind == audit.ApprovalExpiry {
		due := p.asked.Add(p.check.Approval.Expires)
		if !p.approved.IsZero() {
			due = p.approved.Add(p.check.Approval.UseWithin)
		}
		if at.Before(due.Add(-time.Millisecond)) || p.used != nil || !p.denied.IsZero() || !p.expired.IsZero() {
			fail("G13: %s is recorded as expired at %s", ch.Subject, at)
		}
		p.expired = at
		return
	}
	late := !p.denied.IsZero() || !p.expired.IsZero() || p.used != nil || ch.Kind == audit.ApprovalGiven && !p.approved.IsZero()
	if who == asker || who == owner || p.by[who] && ch.Kind == audit.ApprovalGiven || late || expired {
		fail("G13: %s of %s by %s is recorded", ch.Kind, ch.Subject, who)
	}
	if ch.Kind == audit.ApprovalDenial {
		p.denied = at
		return
	}
	if p.by[who] = true; len(p.by) == p.check.Approval.Required {
		p.approved = at
	}
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
		fail("G13: %s uses what %d of %d approved, denied at %s, expired at %s", c.ID.Text("chk_"), len(p.by), p.check.Approval.Required,
			p.denied, p.expired)
	case at.After(p.approved.Add(p.check.Approval.UseWithin + tick)):
		fail("G13: %s uses at %s what was approved at %s", c.ID.Text("chk_"), at, p.approved)
	}
	p.used = c
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
		lie = !p.approved.IsZero() && p.approved.Before(s.began)
	case refused.Status == audit.ApprovalDenied:
		lie = p.denied.IsZero() || p.denied.After(s.ended())
	case refused.Status == audit.ApprovalExpired:
		lie = s.ended().Before(p.asked.Add(p.check.Approval.Expires)) &&
			(p.approved.IsZero() || s.ended().Before(p.approved.Add(p.check.Approval.UseWithin-time.Millisecond)))
	default:
		lie = true
	}
	if lie {
		fail("S47: check %d was refused as %s, used by %s; recorded is %+v", s.number, refused.Status, refused.UsedBy.Text("chk_"), p)
	}
}
