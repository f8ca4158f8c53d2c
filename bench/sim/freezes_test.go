package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// frozen is a freeze: when it was first asked for and answered, and the same of its release.
type frozen struct {
	scope         audit.FreezeScope
	until         time.Time // zero: until it is released
	asked, told   time.Time
	thawed, ended time.Time // zero until then
}

var operator = audit.Actor{Credential: "01234567"}

// freezeOne freezes some of what others do, and releases it a moment later, or has its time end.
func (f *simulation) freezeOne(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
	scopes := []audit.FreezeScope{
		{Kind: audit.FreezeAll},
		{Kind: audit.FreezePolicy, Value: [...]string{"short", "long", budgeted, asking}[r.IntN(4)]},
		{Kind: audit.FreezeAgent, Value: [...]string{"agent", "payer"}[r.IntN(2)]},
		{Kind: audit.FreezeCounterparty, Value: [...]string{"a", "b", "desk", fmt.Sprint("order ", r.IntN(3))}[r.IntN(4)]},
		{Kind: audit.FreezePrincipal, Value: [...]string{asker, owner, gateways[0]}[r.IntN(3)]},
	}
	one := &frozen{scope: scopes[r.IntN(len(scopes))], asked: time.Now()}
	lasts := time.Duration(r.Int64N(int64(1500 * time.Millisecond)))
	if r.IntN(3) == 0 {
		one.until = time.Now().Add(lasts + 500*time.Millisecond).Truncate(time.Millisecond)
	}
	f.mu.Lock()
	f.frozen = append(f.frozen, one)
	f.mu.Unlock()
	asked := hotpath.FreezeAsked{
		IdempotencyKey: fmt.Sprint("freeze ", r.Uint64()),
		NewFreeze:      audit.NewFreeze{Scope: one.scope, Reason: "it runs wild", Until: one.until},
	}
	var id spend.ID
	f.insistOn(r, func(n *simNode) error {
		made, _, err := n.Freeze(context.Background(), hotpath.Access{}, operator, asked)
		if err == nil && !n.store.isDead() {
			id = made.ID
			if made.Status == audit.FreezeActive {
				one.told = time.Now()
			}
		}
		return err
	})
	if id.IsZero() {
		return // its time was over before it was recorded
	}
	began := time.Now()
	if c := f.someAllowed(r); c != nil {
		f.several(r, 2, func(r *rand.Rand, _ int) { f.insist(r, c.Action) })
		f.redeem(r, c, gateways[0])
	}
	time.Sleep(lasts - time.Since(began))
	if !one.until.IsZero() && r.IntN(2) == 0 {
		f.insistOn(r, func(n *simNode) error { return n.EndFreezes(context.Background()) })
		return
	}
	one.thawed = time.Now()
	f.insistOn(r, func(n *simNode) error {
		_, _, err := n.ReleaseFreeze(context.Background(), hotpath.Access{}, operator, id, "mended")
		return err
	})
	one.ended = time.Now()
}

// insistOn calls some living node after another, until one answers.
func (f *simulation) insistOn(r *rand.Rand, do func(*simNode) error) {
	for {
		n := f.nodes[r.IntN(len(f.nodes))]
		if err := do(n); !n.store.isDead() && !errors.Is(err, hotpath.ErrUnavailable) && !errors.Is(err, audit.ErrUnavailable) &&
			!errors.Is(err, audit.ErrUnknown) {
			return
		}
		time.Sleep(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
	}
}

// covers reports whether a scope has an action of these people.
func covers(s audit.FreezeScope, a *spend.Action, people ...audit.Party) bool {
	switch s.Kind {
	case audit.FreezeAll:
		return true
	case audit.FreezePolicy:
		return a.PolicyID == s.Value
	case audit.FreezeAgent:
		return a.AgentID == s.Value
	case audit.FreezeCounterparty:
		return a.Counterparty == s.Value
	case audit.FreezePrincipal:
		return slices.ContainsFunc(people, func(p audit.Party) bool { return p.Principal == s.Value || p.Owner == s.Value })
	}
	return false
}

// attempt is a request that a freeze may stop, and what came of it.
type attempt struct {
	what         string
	action       *spend.Action
	people       []audit.Party
	began, ended time.Time
	permits      bool // carries the action out
	stopped      bool // as frozen
}

func isFrozen(err error) bool {
	_, ok := errors.AsType[*hotpath.FrozenError](err)
	return ok
}

// attempts returns all requests that were answered.
func (f *simulation) attempts() (all []attempt) {
	asks, bank := audit.Party{Principal: asker, Owner: owner}, func(name string) audit.Party { return audit.Party{Principal: name} }
	for _, s := range f.sent {
		if s.lost || s.err != nil && !isFrozen(s.err) {
			continue
		}
		a := attempt{what: fmt.Sprint("check ", s.number), action: &s.action, people: []audit.Party{asks}, began: s.began, ended: s.ended()}
		if a.stopped = isFrozen(s.err); !a.stopped {
			d := &s.answer.Check.Decision
			a.permits, a.stopped = d.Effect == spend.Allow, d.Reason == spend.ReasonFrozen && !s.answer.Replayed
		}
		all = append(all, a)
	}
	for _, p := range f.paid {
		if p.lost || p.err != nil && !isFrozen(p.err) {
			continue
		}
		all = append(all, attempt{
			what: "the payment of " + p.nonce, action: &p.action, people: []audit.Party{asks}, began: p.began, ended: p.ended,
			permits: p.err == nil && p.answer.Payment.Proceed, stopped: p.err != nil, // a block may be shown again
		})
	}
	for _, r := range f.redeemed {
		if r.lost || r.err != nil && !isFrozen(r.err) {
			continue
		}
		all = append(all, attempt{
			what: "the redemption of " + r.check.ID.Text("chk_"), action: &r.check.Action, people: []audit.Party{asks, bank(r.by)},
			began: r.began, ended: r.ended, permits: r.err == nil, stopped: r.err != nil,
		})
	}
	return all
}

// judgeFreezes checks G17: no answer permits what is frozen, nothing is recorded that does, and nothing else is stopped.
func (f *simulation) judgeFreezes(fail func(string, ...any)) {
	for _, a := range f.attempts() {
		may := false
		for _, one := range f.frozen {
			if !covers(one.scope, a.action, a.people...) {
				continue
			}
			before := func(t time.Time) bool { return t.IsZero() || a.ended.Before(t) }
			if a.permits && !one.told.IsZero() && a.ended.After(one.told) && before(one.thawed) && before(one.until) {
				fail("G17: %s was answered at %s, and %+v was frozen at %s", a.what, a.ended, one.scope, one.told)
			}
			after := func(t time.Time) bool { return t.IsZero() || !a.began.After(t) }
			may = may || one.asked.Before(a.ended) && after(one.ended) && after(one.until)
		}
		if a.stopped && !may {
			fail("G17: %s was stopped at %s, and nothing is frozen", a.what, a.ended)
		}
	}
	active := make(map[string]*audit.Freeze)
	for _, e := range f.record.all {
		switch {
		case e.change != nil && e.change.Kind == audit.FreezeCreated:
			made, err := audit.FreezeOf(e.change)
			if err != nil {
				fail("S87: %v", err)
			}
			active[e.change.Subject] = &made
		case e.change != nil && (e.change.Kind == audit.FreezeIsReleased || e.change.Kind == audit.FreezeEnded):
			delete(active, e.change.Subject)
		case e.check != nil && e.check.Decision.Effect == spend.Allow:
			f.judgeRecorded(fail, active, e.check, e.at, audit.Asker(e.check))
		case e.outcome != nil && (e.outcome.Status == spend.Redeemed || e.outcome.Status == spend.TakenOver):
			c := f.record.byID[e.outcome.CheckID]
			f.judgeRecorded(fail, active, c, e.at, audit.Asker(c), audit.Party{Principal: e.outcome.Principal})
		}
	}
}

// judgeRecorded checks what was recorded while some freezes were active.
func (f *simulation) judgeRecorded(
	fail func(string, ...any), active map[string]*audit.Freeze, c *spend.Check, at time.Time, people ...audit.Party,
) {
	for id, one := range active {
		if covers(one.Scope, &c.Action, people...) && (one.Until.IsZero() || at.Before(one.Until)) {
			fail("G17: %s is recorded at %s behind %s of %+v", c.ID.Text("chk_"), at, id, one.Scope)
		}
	}
}
