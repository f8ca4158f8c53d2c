package hotpath_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// active changes whether a key is active, and stops what it was allowed unless that is kept open.
func (p payer) active(node int, active, keepOpen bool) hotpath.Stopped {
	p.t.Helper()
	change := audit.KeyChange{Active: &active, Stops: !active && !keepOpen}
	_, stopped, err := p.nodes[node].UpdateKey(context.Background(), audit.Actor{}, p.own.ID, change)
	must.Do(p.t, err)
	return stopped
}

func (p payer) check(node int, a spend.Action) outcome { return p.checkBy(p.key, node, a) }

// S87: what was allowed to a key, and nobody redeemed, is stopped when the key is deactivated, whatever was in flight; what was
// redeemed is not (G17).
func TestDeactivatedKey(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		other := newPayer(f)
		allowed := p.check(0, keyed(refundOf(t, "10", "replayed"), "replayed")).answer.Check
		redeemed := p.check(0, keyed(refundOf(t, "10", "redeemed"), "redeemed")).answer.Check
		kept := p.check(0, keyed(refundOf(t, "10", "kept"), "kept")).answer.Check
		must.Do(t, f.redeem(0, redeemed))
		p.active(1, false, true)
		if err := f.redeem(0, kept); err != nil {
			t.Errorf("kept open: %v", err)
		}
		p.active(1, true, false)
		flying := func(what string, hold func(*node) (chan struct{}, func()), do func() error, want error) {
			t.Helper()
			held, release := hold(f.nodes[0])
			result := make(chan error, 1)
			go func() { result <- do() }()
			<-held
			p.active(1, false, false)
			release()
			if err := <-result; !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
			p.active(0, true, false)
		}
		hold := func(n *node) (chan struct{}, func()) { return n.holdCommit(nil) }
		fresh := func(counterparty string) *spend.Check {
			return p.check(0, refundOf(t, "10", counterparty)).answer.Check
		}
		flying("a check that is judged", hold, func() error { return p.check(0, refundOf(t, "10", "judged")).err }, hotpath.ErrKeyInactive)
		flying("a check that is recorded", (*node).lateCommit, func() error { return p.check(0, refundOf(t, "10", "recorded")).err },
			hotpath.ErrCheckStopped)
		first, second := fresh("first"), fresh("second")
		flying("a redemption", hold, func() error { return f.redeem(0, first) }, hotpath.ErrCheckStopped)
		third := fresh("third")
		flying("a redemption that is recorded", (*node).lateCommit, func() error { return f.redeem(0, third) }, nil)
		third = fresh("since")
		if err := f.redeem(1, second); !errors.Is(err, hotpath.ErrCheckStopped) {
			t.Errorf("active again: %v", err)
		}
		if err := f.redeem(0, third); err != nil {
			t.Errorf("allowed since: %v", err)
		}

		frozen := f.freeze(0, audit.FreezeAgent, "agent-1") // is not the reason
		for node := range 2 {
			for name, caller := range map[string]hotpath.Caller{"itself": p.key, "another key of the principal": other.key} {
				if o := f.checkBy(caller, node, keyed(refundOf(t, "10", "replayed"), "replayed")); !errors.Is(o.err, hotpath.ErrCheckStopped) {
					t.Errorf("a replay by %s: %v", name, o)
				}
			}
			if err := f.redeem(node, allowed); !errors.Is(err, hotpath.ErrCheckStopped) {
				t.Errorf("a redemption: %v", err)
			}
		}
		f.thaw(0, frozen)
		if _, ok := errors.AsType[*hotpath.AlreadyRedeemedError](f.redeem(1, redeemed)); !ok {
			t.Error("it was redeemed before, and another reason is given")
		}
		if o := f.checkBy(other.key, 0, keyed(refundOf(t, "10", "redeemed"), "redeemed")); o.err != nil || o.answer.Check.ID != redeemed.ID {
			t.Errorf("a replay of what was redeemed: %v", o)
		}
	})
}

// S87, S91: a key that may grant again stops nothing of what it was allowed.
func TestGranterAgain(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "g", grantRules)
		p := f.person("ann")
		p.grant(0, f.grantAsked("g", "100", "a1"))
		p.patch(0, named(spend.Grants{Scopes: spend.ChecksWrite | spend.ChecksRedeem}, spend.MemberRole, spend.MemberScopes))
		allowed := f.checkBy(p.key, 0, refundOf(t, "10", "c")).answer.Check
		p.patch(0, named(spend.Grants{Role: spend.Approver}, spend.MemberRole, spend.MemberScopes))
		must.Do(t, f.redeem(0, allowed))
		if o := f.check(0, f.spending("g", "150", "a1", "c")); o.allowed() {
			t.Errorf("by what it granted before: %s", o)
		}
	})
}

// S87: what only a redemption carries out is given back once its key is deactivated: by the next request for its payment, or by
// the service.
func TestDeactivatedKeyGivesBack(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		other := newPayer(f)
		of := func(key string, asked hotpath.PaymentRequest) hotpath.PaymentRequest {
			asked.Key = key
			return asked
		}
		action := func(counterparty string) spend.Action {
			a := refundOf(t, "50", counterparty)
			a.PolicyID = "days" // up to 100 together
			return a
		}
		first := p.must("first", action("first"), of("first", hotpath.PaymentRequest{}), audit.PaymentOpen, false)
		second := p.must("second", action("second"), of("second", hotpath.PaymentRequest{}), audit.PaymentOpen, false)
		plain := p.check(0, refundOf(t, "10", "plain")).answer.Check
		if n := p.active(1, false, false); *n.Checks != 3 || *n.Voided != 2 {
			t.Errorf("stopped %d, of which %d are voided", *n.Checks, *n.Voided)
		}
		if n := p.active(1, false, true); *n.Checks != 0 || *n.Voided != 0 {
			t.Errorf("kept open: %d, %d", *n.Checks, *n.Voided)
		}
		again := other.must("again", action("first"), of("first", nonce(1)), audit.PaymentRedeemed, true)
		if again.Check.ID == first.Check.ID || again.Payment.Attempt != 2 {
			t.Errorf("again: %+v", again.Payment)
		}
		must.Do(t, f.nodes[0].Lapses(t.Context()))
		other.must("another", action("third"), of("third", nonce(2)), audit.PaymentRedeemed, true)
		for _, c := range []*spend.Check{first.Check, second.Check, plain} {
			steps := must.Get(f.store.Outcomes(t.Context(), []spend.ID{c.ID}))(t)
			voided := len(steps) == 1 && steps[0].Status == spend.Voided && steps[0].Release == spend.ReleaseDone &&
				steps[0].KeyID == spend.SystemKey && slices.Contains(steps[0].Payment.Flags, spend.FlagStopped)
			if voided == (c == plain) || c == plain && len(steps) > 0 {
				t.Errorf("%s: %+v", c.Action.Counterparty, steps)
			}
		}
	})
}

// S87: a check that is redeemed unread is read first where a key was stopped that may have been allowed it.
func TestDeactivatedKeyUnread(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		c := p.check(0, refundOf(t, "10", "unread")).answer.Check
		held, release := f.nodes[0].holdCommit(nil)
		type result struct {
			o   *spend.Outcome
			err error
		}
		got := make(chan result, 1)
		unread := func() (*spend.Outcome, error) {
			key := &audit.Key{ID: spend.ID{6: 0x70, 15: 1}, Grants: spend.Grants{Role: spend.Executor, Principal: "till"}}
			r := hotpath.Request{Access: hotpath.AccessOf(key), ID: "req_000000000000", Started: time.Now()}
			action := c.Action
			return f.nodes[0].RedeemUnread(t.Context(), r, c.ID, hotpath.Redemption{Action: &action, IdempotencyKey: "k"})
		}
		go func() {
			o, err := unread()
			got <- result{o, err}
		}()
		select {
		case <-held:
		case r := <-got: // the store reads it first
			release()
			t.Skip("the store does not redeem unread: ", r.o, r.err)
		}
		p.active(1, false, false)
		release()
		if r := <-got; r.o != nil || r.err != nil {
			t.Errorf("redeemed unread: %+v, %v", r.o, r.err)
		}
		if o, err := unread(); o != nil || err != nil {
			t.Errorf("redeemed unread afterwards: %+v, %v", o, err)
		}
	})
}

// A node that was asked nothing since its start gives back what lapsed (S84) and what was stopped (S87), and ends freezes.
func TestIdleNode(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p, other := newPayer(f), newPayer(f)
		pay := func(by payer, key string) {
			by.must(key, under(refundOf(t, "20", key), "days"), hotpath.PaymentRequest{Key: key}, audit.PaymentOpen, false)
		}
		pay(p, "stopped")
		p.active(0, false, false)
		f.nodes[0].faults.onCommit(func(ctx context.Context, checks []*spend.Check, do realCommit) error {
			for _, c := range checks { // as long ago as they could be redeemed
				c.RedeemBy = time.Now().Add(-time.Second)
			}
			return do(ctx, checks)
		})
		pay(other, "lapsed")
		f.nodes[0].faults.onCommit(nil)
		pay(other, "open")
		until := time.Now().Add(500 * time.Millisecond)
		frozen, _, err := f.nodes[0].Freeze(t.Context(), hotpath.Access{}, audit.Actor{Credential: "01234567"}, hotpath.FreezeAsked{
			NewFreeze: audit.NewFreeze{Scope: audit.FreezeScope{Kind: audit.FreezeAll}, Reason: "a test", Until: until},
		})
		must.Do(t, err)
		time.Sleep(time.Until(until))
		must.Do(t, errors.Join(f.nodes[1].Lapses(t.Context()), f.nodes[1].EndFreezes(t.Context())))
		if used := f.used(t, "days", "all", "[]"); used != "20 1" {
			t.Errorf("%s is used, want 20 by the open check", used)
		}
		if ended, err := f.store.Freeze(t.Context(), frozen.ID); err != nil || ended.Status != audit.FreezeOver {
			t.Errorf("the freeze is %+v, %v", ended, err)
		}
	})
}
