package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

const askRules = `[
	{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":100,"approval":{}}},
	{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":%d}},
	{"rule_id":"soft","rule_type":"budget",
		"parameters":{"limit":500,"currency":"USD","window":"lifetime","on_exceed":"escalate","approval":{"required":2}}}]`

// approver is the access of a person who may decide.
func approver(name string) hotpath.Access {
	return hotpath.AccessOf(&audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Approver, Principal: name}})
}

// asked checks an action that is escalated, and returns the approval that it asks for.
func (f *fleet) asked(a spend.Action) *audit.Approval {
	f.t.Helper()
	o := f.check(0, a)
	if o.err != nil || o.answer.Check.Decision.Effect != spend.Escalate || o.answer.Check.Approval == nil {
		f.t.Fatal(o)
	}
	return must.Get(f.nodes[0].Approval(f.t.Context(), hotpath.Access{}, o.answer.Check.ID))(f.t)
}

func (f *fleet) decide(a *audit.Approval, name string, approves bool) error {
	_, _, err := f.nodes[len(f.nodes)-1].DecideApproval(f.t.Context(), approver(name), audit.Actor{}, audit.ApprovalDecisionRequest{
		ApprovalID: a.Check.ID, Approves: approves, ActionHash: a.Check.Approval.ActionHash,
	})
	return err
}

func (f *fleet) approve(a *audit.Approval, names ...string) {
	f.t.Helper()
	for _, name := range names {
		must.Do(f.t, f.decide(a, name, true))
	}
}

func with(a *audit.Approval, action spend.Action) spend.Action {
	action.ApprovalID = a.Check.ID
	return action
}

// refusedAs reports whether a use was refused for that state.
func refusedAs(o outcome, want audit.ApprovalStatus) bool {
	refused, ok := errors.AsType[*audit.ApprovalError](o.err)
	return ok && refused.Status == want
}

// G13: of many uses at once over two nodes exactly one passes, of exactly the
// action that people saw; what is refused leaves nothing behind (F78).
func TestApprovalIsUsedOnce(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "e", fmt.Sprintf(askRules, 1000))
		for round := range 4 {
			a := refundOf(t, "101", fmt.Sprint("c-", round))
			a.PolicyID = "e"
			asks := a
			if round%2 == 1 {
				asks.IdempotencyKey = fmt.Sprint("use-", round) // an approval has a slot of its own
			}
			approval := f.asked(asks)
			if o := f.check(1, with(approval, a)); !refusedAs(o, audit.ApprovalPending) {
				t.Errorf("while pending: %s", o)
			}
			f.approve(approval, "bob")
			larger := with(approval, a)
			larger.Amount = refundOf(t, "1010", "").Amount
			if o := f.check(1, larger); !refusedAs(o, audit.ApprovalMismatch) {
				t.Errorf("ten times the amount: %s", o)
			}
			use := with(approval, asks)
			var passed *spend.Check
			replays := 0
			for _, o := range f.checkAll(repeat(use, 20)...) {
				switch {
				case o.err == nil && o.answer.Replayed:
					replays++
				case o.err == nil && o.answer.Check.Decision.Effect == spend.Allow && passed == nil:
					passed = o.answer.Check
				case o.err == nil || !refusedAs(o, audit.ApprovalUsed):
					t.Errorf("round %d: %s", round, o)
				}
			}
			if passed == nil || round%2 == 1 && replays != 19 {
				t.Fatalf("round %d: passed %v, %d replays", round, passed, replays)
			}
			if found, err := f.nodes[0].Approval(t.Context(), hotpath.Access{}, approval.Check.ID); err != nil || found.UsedBy != passed.ID {
				t.Errorf("used by %v, %v", found, err)
			}
			if o := f.check(0, a); !o.names(passed.ID.Text(spend.PrefixCheck)) {
				t.Errorf("the same without the approval: %s", o)
			}
		}
	})
}

// S47: a use is judged by the rules in force now, and only the escalations that
// people saw are lifted (G13).
func TestApprovalAndNewerRules(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		n := 0
		approved := func() (*audit.Approval, spend.Action) {
			t.Helper()
			n++
			f.post(0, "e", fmt.Sprintf(askRules, 1000))
			a := refundOf(t, "150", fmt.Sprint("c-", n))
			a.PolicyID = "e"
			approval := f.asked(a)
			f.approve(approval, "bob")
			return approval, a
		}
		for name, c := range map[string]struct {
			rules  string
			effect spend.Effect
			rule   string
		}{
			"a lower cap":       {fmt.Sprintf(askRules, 120), spend.Block, "cap"},
			"another threshold": {strings.Replace(fmt.Sprintf(askRules, 1000), `"amount_above":100`, `"amount_above":99`, 1), spend.Escalate, "ask"},
			"another approval": {
				strings.Replace(fmt.Sprintf(askRules, 1000), `"approval":{}`, `"approval":{"required":2}`, 1), spend.Escalate, "ask",
			},
			"the same, written otherwise": {strings.Replace(fmt.Sprintf(askRules, 1000), `"amount_above":100,"approval":{}`,
				`"approval":{"use_within_minutes":60,"required":1.0},"amount_above":1e2`, 1), spend.Allow, ""},
		} {
			approval, a := approved()
			f.post(1, "e", c.rules)
			o := f.check(0, with(approval, a))
			if o.err != nil || o.answer.Check.Decision.Effect != c.effect || o.answer.Check.Decision.RuleID != c.rule {
				t.Errorf("%s: %s", name, o)
			}
			found, err := f.nodes[0].Approval(t.Context(), hotpath.Access{}, approval.Check.ID)
			if err != nil || (found.Status == audit.ApprovalUsed) != (c.effect == spend.Allow) {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
		}
	})
}

// A lifted budget counts above its limit, and lets nothing more pass (G12, S47).
func TestApprovalLiftsABudget(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "e", fmt.Sprintf(askRules, 1000))
		spent := refundOf(t, "90", "c")
		spent.PolicyID = "e"
		for i := range 5 {
			spent.Counterparty = fmt.Sprint("c-", i)
			if o := f.check(0, spent); !o.passed() {
				t.Fatal(o)
			}
		}
		a := refundOf(t, "120", "big")
		a.PolicyID = "e"
		approval := f.asked(a)
		if rules := approval.Check.Approval.Rules; len(rules) != 2 || rules[0].RuleID != "ask" || rules[1].RuleID != "soft" ||
			approval.Check.Approval.Required != 2 {
			t.Errorf("asks %+v", approval.Check.Approval)
		}
		f.approve(approval, "bob")
		if err := f.decide(approval, "bob", true); err != nil { // again
			t.Error(err)
		}
		if o := f.check(0, with(approval, a)); !refusedAs(o, audit.ApprovalPending) {
			t.Errorf("approved by one of two: %s", o)
		}
		f.approve(approval, "cleo")
		if o := f.check(0, with(approval, a)); o.err != nil || o.answer.Check.Decision.Effect != spend.Allow {
			t.Errorf("%s", o)
		}
		if got := f.used(t, "e", "soft", "[]"); got != "570 6" {
			t.Errorf("used %s", got)
		}
		spent.Counterparty = "one more"
		if o := f.check(0, spent); o.err != nil || o.answer.Check.Decision.Effect != spend.Escalate {
			t.Errorf("above the limit: %s", o)
		}
	})
}

// G7: a decision is answered in time while the store is down, and can be repeated afterwards.
func TestDecisionWithoutStore(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 1)
	f.post(0, "p", fmt.Sprintf(waitsRules, 100))
	asked := f.asked(refundOf(t, "101", "c"))
	f.nodes[0].faults.decide = func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Fatal("a decision may wait for ever")
		}
		return context.DeadlineExceeded
	}
	if err := f.decide(asked, "bob", true); !errors.Is(err, hotpath.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	f.nodes[0].faults.decide = nil
	f.approve(asked, "bob")
}

// S44: who asked decides nothing, in whatever role, and a denial ends it (G13).
func TestApprovalDecisions(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "e", fmt.Sprintf(askRules, 1000))
		a := refundOf(t, "101", "c")
		a.PolicyID = "e"
		approval := f.asked(a)
		if err := f.decide(approval, f.keyID.Text(spend.PrefixKey), true); !errors.Is(err, hotpath.NotRecordedError{Why: audit.DecisionOwn}) {
			t.Errorf("who asked: %v", err)
		}
		must.Check(t, f.decide(approval, "bob", false))
		var late *hotpath.NotPendingError
		if err := f.decide(approval, "cleo", true); !errors.As(err, &late) || late.Status != audit.ApprovalDenied {
			t.Errorf("after the denial: %v", err)
		}
		if o := f.check(0, with(approval, a)); !refusedAs(o, audit.ApprovalDenied) {
			t.Errorf("denied: %s", o)
		}
		unknown := a
		unknown.ApprovalID = spend.NewID(time.Now())
		if o := f.check(0, unknown); !errors.Is(o.err, hotpath.ErrApprovalNotFound) {
			t.Errorf("unknown: %s", o)
		}
		if claims := f.claims(); len(claims) > 1 { // the escalated check's
			t.Errorf("claims are left: %v", claims)
		}
	})
}

// S48: a client that waits at one node learns within a second what was decided at another, even if
// the store was down meanwhile.
func TestApprovalIsWaitedFor(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "e", fmt.Sprintf(askRules, 1000))
		a := refundOf(t, "101", "c")
		a.PolicyID = "e"
		approval := f.asked(a)
		var away atomic.Bool
		missed := make(chan struct{}, 100)
		f.nodes[0].faults.approvals = func() error {
			if !away.Load() {
				return nil
			}
			missed <- struct{}{}
			return audit.ErrUnavailable
		}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				found, waited, err := f.nodes[0].AwaitApproval(t.Context(), hotpath.Access{}, approval.Check.ID, time.Hour, nil)
				if err != nil || !waited || found.Status != audit.ApprovalApproved {
					t.Errorf("%+v, %t, %v", found, waited, err)
				}
			})
		}
		for until := time.Now().Add(10 * time.Second); f.nodes[0].Waiting() < 50 && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
		away.Store(true)
		f.approve(approval, "bob")
		<-missed
		away.Store(false)
		woken := make(chan struct{})
		go func() { wg.Wait(); close(woken) }()
		select {
		case <-woken:
		case <-time.After(10 * time.Second): // long before they end by themselves
			t.Fatal("who waits is not woken")
		}
		stop := make(chan struct{})
		close(stop)
		other := f.asked(spend.Action{AgentID: "x", PolicyID: "e", Type: spend.Refund, Amount: a.Amount, Currency: "USD", Counterparty: "y"})
		if found, _, err := f.nodes[0].AwaitApproval(t.Context(), hotpath.Access{}, other.Check.ID, time.Minute, stop); err != nil ||
			found.Status != audit.ApprovalPending {
			t.Errorf("a node that stops: %+v, %v", found, err)
		}
	})
}

// One key takes a quarter of the places of who waits, and others wait meanwhile.
func TestWaitersOfOneKey(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 1)
	f.post(0, "e", fmt.Sprintf(askRules, 1000))
	approval := f.asked(under(refundOf(t, "101", "c"), "e"))
	greedy, other := approver("greedy"), approver("other")
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var refused atomic.Int32
	for range 510 {
		wg.Go(func() {
			if _, waited, err := f.nodes[0].AwaitApproval(ctx, greedy, approval.Check.ID, time.Hour, stop); err != nil {
				t.Error(err)
			} else if !waited {
				refused.Add(1)
			}
		})
	}
	for end := time.Now().Add(10 * time.Second); refused.Load() < 10 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if _, waited, err := f.nodes[0].AwaitApproval(ctx, other, approval.Check.ID, time.Millisecond, stop); err != nil || !waited {
		t.Errorf("another key: %t, %v", waited, err)
	}
	close(stop)
	wg.Wait()
	cancel()
	if n := refused.Load(); n != 10 {
		t.Errorf("%d were answered at once", n)
	}
	if _, waited, _ := f.nodes[0].AwaitApproval(t.Context(), greedy, approval.Check.ID, time.Millisecond, nil); !waited {
		t.Error("its places are not given back")
	}
}

// A use that fails leaves the name to the check that asked (F78), and a voided one
// has used its approval (F83).
func TestFailedUseLeavesItsHolder(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 2)
		f.post(0, "e", fmt.Sprintf(askRules, 1000))
		a := under(refundOf(t, "101", "c"), "e")
		approval := f.asked(a)
		f.approve(approval, "bob")
		f.nodes[0].faults.onCommit(func(context.Context, []*spend.Check, realCommit) error { return errTest })
		if o := f.check(0, with(approval, a)); o.err == nil {
			t.Fatalf("recorded by a store that fails: %s", o)
		}
		f.nodes[0].faults.onCommit(nil)
		time.Sleep(50 * time.Millisecond) // the release goes with the next batch
		if o := f.check(1, a); !o.names(approval.Check.ID.Text(spend.PrefixCheck)) {
			t.Errorf("without the approval: %s", o)
		}
		use := f.check(0, with(approval, a))
		if use.err != nil || use.answer.Check.Decision.Effect != spend.Allow {
			t.Fatal(use)
		}
		f.release(1, use)
		if o := f.check(1, with(approval, a)); !refusedAs(o, audit.ApprovalUsed) {
			t.Errorf("after it was voided: %s", o)
		}
		// Node 1 has met the check that asked, which does not come back (S40).
		if o := f.check(1, a); o.err != nil || o.answer.Check.Decision.Effect != spend.Escalate {
			t.Errorf("the action is not free again: %s", o)
		}
	})(t)
}

// A use passes a holder that was not allowed, but not the allowed action that such
// a holder hides, since its own window was shorter (G3, F79, G13).
func TestApprovalBehindAnothersCheck(t *testing.T) {
	for _, released := range []bool{false, true} {
		t.Run(fmt.Sprint("and behind a released one=", released), func(t *testing.T) {
			f := newFleet(t, embeddedBackend(), 2)
			f.post(0, "e", strings.Replace(guardRules(60), "[",
				`[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":100,"approval":{}}},`, 1))
			f.post(0, "short", guardRules(5))
			f.post(0, "shut", strings.Replace(guardRules(5), "500", "1", 1))
			a := under(refundOf(t, "101", "c"), "e")
			approval := f.asked(a)
			f.approve(approval, "bob")
			f.mini.Advance(6 * time.Minute)
			allowed := f.check(0, under(a, "short"))
			f.mini.Advance(6 * time.Minute)
			if o := f.check(1, under(a, "shut")); !allowed.passed() || o.err != nil || o.answer.Check.Decision.RuleID != "cap" {
				t.Fatal(allowed, o)
			}
			if released { // then the store is asked
				f.mini.Advance(6 * time.Minute)
				f.release(0, f.check(0, under(a, "short")))
			}
			for range 2 {
				if o := f.check(1, with(approval, a)); !o.names(allowed.answer.Check.ID.Text(spend.PrefixCheck)) {
					t.Errorf("a second time: %s", o)
				}
			}
			f.release(0, allowed)
			if o := f.check(1, with(approval, a)); o.err != nil || o.answer.Check.Decision.Effect != spend.Allow {
				t.Errorf("after the first was voided: %s", o)
			}
		})
	}
}
