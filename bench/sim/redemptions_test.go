package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// gateways are the redeemers. Both have one principal each, and reports by either are judged.
var gateways = [...]string{"psp", "bank"}

// redeemed is a redemption and the answer that its gateway got.
type redeemed struct {
	check        *spend.Check
	by           string
	asked        hotpath.Redemption
	began, ended time.Time
	outcome      *spend.Outcome
	replayed     bool
	err          error
	lost         bool // the node died before it answered
}

// gateway returns the access of one of the gateways.
func gateway(name string) hotpath.Access {
	return hotpath.AccessOf(&audit.Key{ID: spend.ID{6: 0x70, 15: name[0]}, Grants: spend.Grants{Role: spend.Gateway, Principal: name}})
}

// redeemOne redeems some allowed check by several gateways at once, with and without the
// same idempotency key, while others report it, say that it is in doubt and ask anew.
func (f *simulation) redeemOne(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
	c := f.someAllowed(r)
	if c == nil {
		return
	}
	f.several(r, 2+r.IntN(3), func(r *rand.Rand, _ int) {
		name := gateways[r.IntN(8)/7]
		switch r.IntN(8) {
		case 0:
			f.report(r, c, spend.Agent, drawReport(r))
		case 1:
			f.report(r, c, spend.Executor, drawReport(r))
		case 2:
			f.doubt(r, c, name)
		case 3:
			f.insist(r, again(c))
		default:
			f.redeem(r, c, name)
		}
	})
	if r.IntN(2) == 0 {
		f.doubt(r, c, gateways[r.IntN(8)/7])
		f.redeem(r, c, gateways[0])
		f.report(r, c, spend.Executor, drawReport(r))
	}
	if r.IntN(2) == 0 {
		f.reportBy(r, c, gateway(gateways[0]), gateways[0], spend.Gateway, drawReport(r))
		f.redeem(r, c, gateways[0])
	}
}

// someAllowed returns one of the latest allowed checks; nil without one.
func (f *simulation) someAllowed(r *rand.Rand) *spend.Check {
	var allowed []*spend.Check
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sent {
		if s.answer.Check != nil && s.seen() && s.answer.Check.Decision.Effect == spend.Allow {
			allowed = append(allowed, s.answer.Check)
		}
	}
	if len(allowed) == 0 {
		return nil
	}
	return allowed[len(allowed)-1-r.IntN(min(len(allowed), 8))]
}

// redeem redeems a check and retries if that fails, mostly with the same idempotency key.
func (f *simulation) redeem(r *rand.Rand, c *spend.Check, by string) {
	hash := spend.ActionHash(c)
	asked := hotpath.Redemption{ActionHash: &hash}
	if r.IntN(4) > 0 {
		asked.IdempotencyKey = fmt.Sprint("try ", r.IntN(8)/7)
	}
	action := c.Action
	action.Type = c.ActionType
	if r.IntN(8) == 0 {
		asked.ActionHash = new(spend.Hash)
		action.Counterparty += "?"
	}
	sent := asked
	if r.IntN(2) == 0 {
		sent.ActionHash, sent.Action = nil, &action
	}
	for range 3 {
		n, began := f.nodes[r.IntN(len(f.nodes))], time.Now()
		o, replayed, err := f.redeemAt(n, hotpath.Request{Access: gateway(by), ID: "req_000000000000", Started: began}, c, sent)
		f.mu.Lock()
		f.redeemed = append(f.redeemed, &redeemed{c, by, asked, began, time.Now(), o, replayed, err, n.store.isDead()})
		f.mu.Unlock()
		if !errors.Is(err, hotpath.ErrUnavailable) {
			return
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
}

// redeemAt redeems a check at a node, without reading it first where the node can.
func (f *simulation) redeemAt(n *simNode, r hotpath.Request, c *spend.Check, asked hotpath.Redemption) (*spend.Outcome, bool, error) {
	if _, _, err := n.Admit(context.Background(), f.payer.caller, spend.ChecksRedeem, false); err != nil { // as any gateway is
		return nil, false, err
	}
	if o, err := n.RedeemUnread(context.Background(), r, c.ID, asked); o != nil || err != nil {
		return o, false, err
	}
	untouched, err := n.Untouched(context.Background(), c.ID)
	if err != nil {
		return nil, false, err
	}
	return n.Redeem(context.Background(), r, c, untouched != nil, asked)
}

// doubt says that a check is in doubt. The records show the effect.
func (f *simulation) doubt(r *rand.Rand, c *spend.Check, by string) {
	n := f.nodes[r.IntN(len(f.nodes))]
	asked := hotpath.Request{Access: gateway(by), ID: "req_000000000000", Started: time.Now()}
	_, _, _ = n.Doubt(context.Background(), asked, c, "", spend.ID{})
}

// course is the record about a check, with the times of the commits.
type course struct {
	check    *spend.Check
	redeemed *spend.Outcome
	at       time.Time // when it was redeemed
	doubt    time.Time // zero unless it was in doubt
	reported time.Time // first; zero until it was
}

// judgeRedemptions checks G14 against the records, in the order of their commits, and then compares
// what gateways and reporters saw with the records.
func (f *simulation) judgeRedemptions(fail func(string, ...any), byID map[spend.ID]*spend.Check) {
	all := make(map[spend.ID]*course)
	for _, e := range f.record.events {
		if e.outcome == nil {
			continue
		}
		c := all[e.outcome.CheckID]
		if c == nil {
			c = &course{check: byID[e.outcome.CheckID]}
			all[e.outcome.CheckID] = c
		}
		if why := c.follow(e.outcome, e.at); why != "" {
			fail("G14: %s of %s by %s is recorded: %s", e.outcome.Status, e.outcome.CheckID.Text("chk_"), e.outcome.Reporter(), why)
		}
	}
	fresh := make(map[spend.ID]bool)
	for _, r := range f.redeemed {
		if r.lost || errors.Is(r.err, hotpath.ErrUnavailable) || errors.Is(r.err, hotpath.ErrOverloaded) || isFrozen(r.err) {
			continue
		}
		c := all[r.check.ID]
		if c == nil {
			c = new(course)
		}
		if why := c.answered(r); why != "" {
			fail("G14: %s was told %+v, replayed %t, %v of %s: %s; recorded is %+v", r.by, r.outcome, r.replayed, r.err, r.check.ID.Text("chk_"),
				why, c)
		}
		if r.err == nil && !r.replayed {
			if fresh[r.check.ID] {
				fail("G14: two were told to carry out %s", r.check.ID.Text("chk_"))
			}
			fresh[r.check.ID] = true
		}
	}
	for _, r := range f.reports {
		already, refused := errors.AsType[*hotpath.AlreadyRedeemedError](r.err)
		if !refused || r.lost {
			continue
		}
		c := all[r.check.ID]
		switch {
		case c == nil || c.redeemed == nil || c.at.After(r.ended) || already.By.ID != c.redeemed.ID:
			fail("S74: a report of %s was refused as of one that is redeemed", r.check.ID.Text("chk_"))
		case c.redeemed.Principal == r.by, r.role == spend.Executor && !c.doubt.IsZero() && c.doubt.Before(r.ended.Add(-longest)):
			fail("S74: a report of %s by %s was refused, which %s redeemed; in doubt at %s", r.check.ID.Text("chk_"), r.by, c.redeemed.Principal,
				c.doubt)
		}
	}
}

// follow adds a step, and says why it may not be recorded.
func (c *course) follow(o *spend.Outcome, at time.Time) string {
	first := c.redeemed == nil && c.reported.IsZero()
	switch o.Status {
	case spend.Redeemed:
		late := at.After(c.check.Timestamp().Add(spend.RedeemTerms{}.Within() + time.Millisecond))
		if c.redeemed == nil {
			c.redeemed, c.at = o, at
		}
		if !first || late || c.check.Decision.Effect != spend.Allow {
			return "it is not the first step of an allowed check, or late"
		}
		return ""
	case spend.InDoubt:
		if c.redeemed == nil || !c.doubt.IsZero() || !c.reported.IsZero() || o.Principal != c.redeemed.Principal {
			return "it is not redeemed by them, or has an outcome"
		}
		c.doubt = at
		return ""
	}
	before := c.reported
	if before.IsZero() {
		c.reported = at
	}
	if c.redeemed != nil && o.Principal != c.redeemed.Principal &&
		(before.IsZero() && c.doubt.IsZero() || o.Principal == string(spend.Agent)) {
		return "another redeemed it"
	}
	return ""
}

// answered says why a gateway may not have got its answer.
func (c *course) answered(r *redeemed) string {
	replay := r.asked.IdempotencyKey != "" && c.redeemed != nil && c.redeemed.Principal == r.by &&
		c.redeemed.Replay == spend.RedemptionReplay(c.redeemed.KeyID, r.asked.IdempotencyKey)
	other, mismatch := *r.asked.ActionHash != spend.ActionHash(r.check), new(hotpath.ActionMismatchError)
	released := new(hotpath.CheckReleasedError)
	switch {
	case r.err == nil && (c.redeemed == nil || c.redeemed.ID != r.outcome.ID || c.redeemed.Principal != r.by):
		return "that is not recorded"
	case r.err == nil && other:
		return "it carries out another action"
	case r.err == nil && r.replayed &&
		(!replay || !c.doubt.IsZero() && c.doubt.Before(r.began) || !c.reported.IsZero() && c.reported.Before(r.began)):
		return "it is not theirs, is in doubt or has an outcome"
	case r.err == nil:
		return ""
	case errors.As(r.err, &mismatch):
		if !other {
			return "it is the same action"
		}
	case errors.As(r.err, &released):
		if c.reported.IsZero() || c.reported.After(r.ended) {
			return "nothing was reported"
		}
	default:
		if _, already := errors.AsType[*hotpath.AlreadyRedeemedError](r.err); !already {
			return "that is no answer here"
		}
		if c.redeemed == nil || c.at.After(r.ended) || replay && !other && (c.doubt.IsZero() || c.doubt.After(r.ended)) && (c.reported.IsZero() ||
			c.reported.After(r.ended)) {
			return "it is not redeemed, or by them"
		}
	}
	return ""
}
