package hotpath_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// freeze freezes a scope with the admin key.
func (f *fleet) freeze(node int, kind audit.FreezeKind, value string) *audit.Freeze {
	f.t.Helper()
	asked := hotpath.FreezeAsked{NewFreeze: audit.NewFreeze{Scope: audit.FreezeScope{Kind: kind, Value: value}, Reason: "it runs wild"}}
	made, _, err := f.nodes[node].Freeze(context.Background(), hotpath.Access{}, audit.Actor{Credential: "01234567"}, asked)
	must.Do(f.t, err)
	return made.Freeze
}

func (f *fleet) thaw(node int, frozen *audit.Freeze) {
	f.t.Helper()
	_, _, err := f.nodes[node].ReleaseFreeze(context.Background(), hotpath.Access{}, audit.Actor{Credential: "01234567"}, frozen.ID, "mended")
	must.Do(f.t, err)
}

func isFrozen(err error) bool {
	_, ok := errors.AsType[*hotpath.FrozenError](err)
	return ok
}

func (o outcome) frozen() bool {
	return o.err == nil && o.answer.Check.Decision.Reason == spend.ReasonFrozen && o.answer.Check.Decision.RuleID == "freeze" &&
		!o.answer.Check.Pass.Passed()
}

// lateCommit has the node's next commit be answered only once release is called; done is closed when it is recorded.
func (n *node) lateCommit() (done chan struct{}, release func()) {
	done, gate := make(chan struct{}), make(chan struct{})
	n.faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
		n.faults.onCommit(nil)
		err := commit(ctx, checks)
		close(done)
		<-gate
		return err
	})
	return done, func() { close(gate) }
}

// S87, G17: what is in flight when a freeze is answered passes it nowhere.
func TestNothingPassesAFreeze(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		allowed := f.check(0, keyed(refundOf(t, "10", "before"), "replayed"))
		redeemable := f.check(0, refundOf(t, "10", "redeemed")).answer.Check
		inFlight := func(what string, hold func(*node) (chan struct{}, func()), do func() error) *audit.Freeze {
			t.Helper()
			held, release := hold(f.nodes[0])
			result := make(chan error, 1)
			go func() { result <- do() }()
			<-held
			frozen := f.freeze(1, audit.FreezeAgent, "agent-1")
			release()
			if err := <-result; !isFrozen(err) {
				t.Errorf("%s: %v", what, err)
			}
			return frozen
		}
		hold := func(n *node) (chan struct{}, func()) { return n.holdCommit(nil) }
		asFrozen := func(o outcome) error {
			if o.frozen() {
				return new(hotpath.FrozenError)
			}
			return fmt.Errorf("%v", o)
		}
		frozen := inFlight("a check that is judged", hold, func() error { return asFrozen(f.check(0, refundOf(t, "10", "judged"))) })
		if o := f.check(0, keyed(refundOf(t, "10", "before"), "replayed")); !isFrozen(o.err) {
			t.Errorf("a replay: %v", o)
		}
		f.flush()
		for node := range 2 {
			if o := f.check(node, refundOf(t, "10", "other")); !o.frozen() {
				t.Errorf("another check: %v", o)
			}
		}
		f.thaw(0, frozen)
		if o := f.check(0, refundOf(t, "10", "judged")); !o.passed() {
			t.Errorf("after the release: %v", o)
		}
		if o := f.check(1, keyed(refundOf(t, "10", "before"), "replayed")); o.err != nil || o.answer.Check.ID != allowed.answer.Check.ID {
			t.Errorf("a replay after the release: %v", o)
		}
		orphan := refundOf(t, "10", "recorded")
		frozen = inFlight("a check that is recorded", (*node).lateCommit, func() error { return f.check(0, orphan).err })
		if o := f.check(1, orphan); !isFrozen(o.err) {
			t.Errorf("its retry: %v", o)
		}
		f.thaw(0, frozen)
		for node, replayed := range []bool{true, false} { // the first may have it, the second is its duplicate
			if o := f.check(node, orphan); o.err != nil || o.answer.Replayed != replayed {
				t.Errorf("its retry after the release: %v", o)
			}
		}
		f.thaw(0, inFlight("a redemption", hold, func() error { return f.redeem(0, redeemable) }))
		f.thaw(0, inFlight("a redemption that is recorded", (*node).lateCommit, func() error { return f.redeem(0, redeemable) }))
	})
}

// S87, G17: a check in flight is of whom its row names, whoever the key is when it is judged again.
func TestFreezeOfWhoTheKeyWas(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.change(named(spend.Grants{Principal: "thief"}, spend.MemberPrincipal))
		held, release := f.nodes[0].holdCommit(nil)
		result := make(chan outcome, 1)
		go func() { result <- f.check(0, refundOf(t, "10", "judged")) }()
		<-held
		f.change(named(spend.Grants{Principal: "other"}, spend.MemberPrincipal))
		f.freeze(0, audit.FreezePrincipal, "thief")
		release()
		if o := <-result; !o.frozen() {
			t.Error(o)
		}
	})
}

// S87: whoever cannot read a freeze is not told of it.
func TestFreezeIsToldToWhoReadsIt(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.change(named(spend.Grants{Principal: "thief"}, spend.MemberPrincipal))
		c := f.check(0, refundOf(t, "10", "c")).answer.Check
		f.freeze(0, audit.FreezePrincipal, "thief")
		for policyID, told := range map[string]bool{"": true, c.Action.PolicyID: false} {
			g := spend.Grants{Role: spend.Executor, Principal: "till"}
			if policyID != "" {
				g.PolicyIDs = []string{policyID}
			}
			access := hotpath.AccessOf(&audit.Key{ID: spend.ID{6: 0x70, 15: 1}, Grants: g})
			hash, r := spend.ActionHash(c), hotpath.Request{Access: access, ID: "req_000000000000", Started: time.Now()}
			_, _, err := f.nodes[0].Redeem(t.Context(), r, c, true, hotpath.Redemption{ActionHash: &hash})
			if refused, is := errors.AsType[*hotpath.FrozenError](err); !is || (refused.Freeze != nil) != told {
				t.Errorf("bound to %q: %v", policyID, err)
			}
		}
	})
}

// S87, S78: a principal's freeze stops, and is told to, whoever has a session of that name.
func TestFreezeOfASession(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "e", asksOne)
		other := f.check(0, under(refundOf(t, "10", "of another"), "e")).answer.Check
		for _, frozen := range []string{"ID:bo", "bo@example.com"} {
			token, _ := f.signedIn(0, "bo", spend.Grants{Role: spend.Gateway, PolicyIDs: []string{"e"}})
			caller := f.caller(0, token)
			made := f.freeze(0, audit.FreezePrincipal, frozen)
			if o := f.checkBy(caller, 0, under(refundOf(t, "10", frozen), "e")); !o.frozen() {
				t.Errorf("%s checks: %s", frozen, o)
			}
			access, _, err := f.nodes[0].Admit(t.Context(), caller, spend.ChecksRedeem, false)
			must.Do(t, err)
			hash, r := spend.ActionHash(other), hotpath.Request{Access: access, ID: "req_000000000000", Started: time.Now()}
			_, _, err = f.nodes[0].Redeem(t.Context(), r, other, true, hotpath.Redemption{ActionHash: &hash})
			if refused, is := errors.AsType[*hotpath.FrozenError](err); !is || refused.Freeze == nil {
				t.Errorf("%s redeems: %v", frozen, err)
			}
			f.thaw(0, made)
		}
	})
}

// S87, G5: who may not freeze, or release, any more when it would be recorded does not.
func TestFreezeByADeactivatedKey(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		all := audit.FreezeScope{Kind: audit.FreezeAll}
		frozen := f.freeze(0, audit.FreezeAll, "")
		for name, change := range ends() {
			for what, act := range map[string]func(person) error{
				"freezes": func(p person) error {
					asked := hotpath.FreezeAsked{NewFreeze: audit.NewFreeze{Scope: all, Reason: "it runs wild"}}
					_, _, err := f.nodes[0].Freeze(t.Context(), p.access, audit.Actor{}, asked)
					return err
				},
				"releases": func(p person) error {
					_, _, err := f.nodes[0].ReleaseFreeze(t.Context(), p.access, audit.Actor{}, frozen.ID, "mended")
					return err
				},
			} {
				p := f.person(name)
				f.nodes[0].faults.write = func() { p.patch(1, change[0]) }
				if err := act(p); !forbidden(err) && !errors.Is(err, hotpath.ErrKeyInactive) && !errors.Is(err, hotpath.ErrKeyExpired) {
					t.Errorf("%s %s: %v", name, what, err)
				}
			}
		}
		page, _, err := f.store.ListFreezes(t.Context(), audit.FreezeQuery{Limit: 9})
		if err != nil || len(page) != 1 || page[0].Status != audit.FreezeActive {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

// S87: whoever reads freezes sees that one is over, and records nothing.
func TestReadingEndsNoFreeze(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		until := time.Now().Add(2 * time.Second)
		frozen, _, err := f.nodes[0].Freeze(t.Context(), hotpath.Access{}, audit.Actor{Credential: "01234567"}, hotpath.FreezeAsked{
			NewFreeze: audit.NewFreeze{Scope: audit.FreezeScope{Kind: audit.FreezeAll}, Reason: "a test", Until: until},
		})
		must.Do(t, err)
		for _, want := range []audit.FreezeStatus{audit.FreezeActive, audit.FreezeOver} {
			one, err := f.nodes[0].FreezeOf(t.Context(), hotpath.Access{}, frozen.ID)
			all, _, lost := f.nodes[0].ListFreezes(t.Context(), hotpath.Access{}, audit.FreezeQuery{Limit: 9})
			active, _, failed := f.nodes[0].ListFreezes(t.Context(), hotpath.Access{}, audit.FreezeQuery{Limit: 9, Active: new(true)})
			if errors.Join(err, lost, failed) != nil || one.Status != want || len(all) != 1 || all[0].Status != want ||
				len(active) == 1 != (want == audit.FreezeActive) || one.Last != frozen.Seq {
				t.Errorf("%+v, listed %+v, active %+v, %v; want %s", one, all, active, errors.Join(err, lost, failed), want)
			}
			time.Sleep(time.Until(until))
		}
	})
}

// S87: a repeated request brings a freeze, or a release, into force whose first request was recorded, and got no further.
func TestRepeatedFreeze(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		replayed := keyed(refundOf(t, "10", "before"), "replayed")
		for node := range 2 {
			if o := f.check(node, replayed); o.err != nil {
				t.Fatal(o)
			}
		}
		asked := hotpath.FreezeAsked{IdempotencyKey: "once", NewFreeze: audit.NewFreeze{
			Scope: audit.FreezeScope{Kind: audit.FreezeAgent, Value: "agent-1"}, Reason: "it runs wild", Seen: -1,
		}}
		by, first := audit.Actor{Credential: "01234567"}, asked.NewFreeze
		sum := sha256.Sum256([]byte("spendgate freeze\n\x00admin\nonce"))
		copy(first.ID[:], sum[:])
		if _, _, err := f.store.CreateFreeze(t.Context(), by, first); err != nil {
			t.Fatal(err)
		}
		if _, again, err := f.nodes[0].Freeze(t.Context(), hotpath.Access{}, by, asked); err != nil || !again {
			t.Fatal(again, err)
		}
		for node := range 2 {
			if o := f.check(node, replayed); !isFrozen(o.err) {
				t.Errorf("a replay: %v", o)
			}
		}
		frozen := must.Get(f.store.Freeze(t.Context(), first.ID))(t)
		changes, err := f.store.ConfigChanges(t.Context(), 0)
		must.Do(t, err)
		released := audit.FreezeRelease{Freeze: frozen, Keys: changes.Generation, Note: "mended", Completes: true}
		err = f.store.ReleaseFreeze(t.Context(), by, released)
		must.Do(t, err)
		f.thaw(0, frozen)
		for node := range 2 {
			if o := f.check(node, replayed); o.err != nil {
				t.Errorf("after a repeated release: %v", o)
			}
		}
	})
}

// S87: what each state of a payment answers while it is frozen (G17).
func TestFrozenPayments(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		of := func(key string, asked hotpath.PaymentRequest) hotpath.PaymentRequest {
			asked.Key = key
			return asked
		}
		p.must("open", refundOf(t, "10", "open"), of("open", hotpath.PaymentRequest{}), audit.PaymentOpen, false)
		redeemed := p.must("redeemed", refundOf(t, "11", "taken"), of("taken", nonce(1)), audit.PaymentRedeemed, true)
		held, release := f.nodes[0].holdCommit(nil)
		result := make(chan error, 1)
		go func() {
			answer, err := p.pay(0, refundOf(t, "12", "flying"), of("flying", nonce(2)))
			if err == nil && answer.Payment.Proceed {
				err = errors.New("it proceeds")
			} else if err == nil && answer.Check.Decision.Reason != spend.ReasonFrozen {
				err = errors.New("it is not blocked")
			}
			result <- err
		}()
		<-held
		frozen := f.freeze(1, audit.FreezePrincipal, "BOT")
		release()
		if err := <-result; err != nil {
			t.Errorf("in flight: %v", err)
		}
		for what, asked := range map[string]hotpath.PaymentRequest{
			"shown": {}, "redeemed": nonce(3), "replaced": {Nonce: nonce(4).Nonce, Replace: true},
		} {
			for node := range 2 {
				_, err := p.pay(node, refundOf(t, "10", "open"), of("open", asked))
				refused, ok := errors.AsType[*hotpath.FrozenError](err)
				if !ok || refused.Payment == nil || refused.Payment.Status != audit.PaymentOpen || refused.Payment.Proceed {
					t.Errorf("open, %s: %+v, %v", what, refused, err)
				}
			}
		}
		p.must("its own nonce", refundOf(t, "11", "taken"), of("taken", nonce(1)), audit.PaymentRedeemed, false)
		over := nonce(5)
		over.TakeOver = time.Hour
		if _, err := p.pay(0, refundOf(t, "11", "taken"), of("taken", over)); !isFrozen(err) {
			t.Errorf("a take-over: %v", err)
		}
		if err := p.ended(redeemed, spend.Gateway, spend.Executed, 0); err != nil {
			t.Errorf("an outcome: %v", err)
		}
		p.must("executed", refundOf(t, "11", "taken"), of("taken", nonce(6)), audit.PaymentExecuted, false)
		f.thaw(0, frozen)
		f.freezeTwoActions(p, of)
		p.must("redeemed at last", refundOf(t, "10", "open"), of("open", nonce(7)), audit.PaymentRedeemed, true)
		p.must("judged again", refundOf(t, "12", "flying"), of("flying", nonce(8)), audit.PaymentRedeemed, true)
	})
}

// freezeTwoActions freezes one of two actions of a payment: a blocked one does not stop the other, and a nonce that has
// redeemed before is told of the freeze.
func (f *fleet) freezeTwoActions(p payer, of func(string, hotpath.PaymentRequest) hotpath.PaymentRequest) {
	t := f.t
	f.post(0, "p", fmt.Sprintf(askRules, 1000))
	asked := p.must("asked", refundOf(t, "200", "good"), of("two", hotpath.PaymentRequest{}), audit.PaymentWaiting, false)
	f.approve(asked.Payment.Approval, "ann")
	f.post(0, "p", fmt.Sprintf(askRules, 150))
	p.must("blocked", refundOf(t, "200", "good"), of("two", hotpath.PaymentRequest{}), audit.PaymentWaiting, false)
	p.must("blocked, too", refundOf(t, "200", "bad"), of("two", hotpath.PaymentRequest{}), audit.PaymentFree, false)
	f.post(0, "p", fmt.Sprintf(askRules, 1000))
	frozen := f.freeze(1, audit.FreezeCounterparty, "bad")
	p.must("another action", refundOf(t, "200", "good"), of("two", nonce(20)), audit.PaymentRedeemed, true)
	f.thaw(0, frozen)

	used := of("used", nonce(21))
	redeemed := p.must("redeemed", refundOf(t, "13", "bad"), used, audit.PaymentRedeemed, true)
	must.Do(t, p.ended(redeemed, spend.Gateway, spend.Failed, 0))
	p.must("open", refundOf(t, "13", "bad"), of("used", hotpath.PaymentRequest{}), audit.PaymentOpen, false)
	frozen = f.freeze(1, audit.FreezeCounterparty, "bad")
	if _, err := p.pay(0, refundOf(t, "13", "bad"), used); !isFrozen(err) {
		t.Errorf("a nonce that redeemed before: %v", err)
	}
	f.thaw(0, frozen)
}
