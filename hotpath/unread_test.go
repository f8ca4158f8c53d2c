package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// redeemUnread redeems a check as an action, by an API key that may be bound to agents, without reading it.
func (f *fleet) redeemUnread(node int, key byte, id spend.ID, action spend.Action, agents ...string) (*spend.Outcome, error) {
	k := &audit.Key{ID: spend.ID{6: 0x70, 15: key}, Grants: spend.Grants{Role: spend.Executor, Principal: "till", AgentIDs: agents}}
	r := hotpath.Request{Access: hotpath.AccessOf(k), ID: "req_000000000000", Started: time.Now()}
	return f.nodes[node].RedeemUnread(f.t.Context(), r, id, hotpath.Redemption{Action: &action, IdempotencyKey: "k"})
}

// F136: a check of another node is redeemed without being read, once, and only as what it is; who
// was refused reads first for a while, and what is committed with it is recorded.
func TestRedeemUnread(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		var commits atomic.Int32
		f.nodes[1].faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
			commits.Add(1)
			time.Sleep(20 * time.Millisecond) // so that those that come meanwhile are committed together
			return commit(ctx, checks)
		})
		check := func(name string) (*spend.Check, spend.Action) {
			t.Helper()
			return f.check(0, refundOf(t, "10", name)).answer.Check, refundOf(t, "10", name)
		}
		known, _ := check("so that its version is known")
		must.Do(t, f.redeem(1, known))
		first, action := check("first")
		action.AgentID = ""
		if o, err := f.redeemUnread(1, 3, first.ID, action, first.Action.AgentID); o != nil || err != nil {
			t.Errorf("by a key that is bound to agents, without one: %+v, %v", o, err)
		}
		o, err := f.redeemUnread(1, 1, first.ID, action)
		if err != nil || o == nil || o.CheckID != first.ID || o.Unread || !o.Check.Carries(first) || o.Check.KeyID != first.KeyID {
			t.Fatalf("%+v, %v", o, err)
		}
		if again, err := f.redeemUnread(1, 2, first.ID, action); again != nil || err != nil {
			t.Errorf("again: %+v, %v", again, err)
		}
		for name, differ := range map[string]func(*spend.Action){
			"no policy":      func(a *spend.Action) { a.PolicyID = "" },
			"no type":        func(a *spend.Action) { a.Type, a.ReasonText = spend.Unspecified, "refund" },
			"unknown policy": func(a *spend.Action) { a.PolicyID = "q" },
			"another amount": func(a *spend.Action) { a.Amount = refundOf(t, "11", "").Amount },
			"another payee":  func(a *spend.Action) { a.Counterparty = "other" },
		} {
			c, action := check(name)
			differ(&action)
			if o, err := f.redeemUnread(1, byte(10+len(name)), c.ID, action); o != nil || err != nil {
				t.Errorf("%s: %+v, %v", name, o, err)
			}
		}

		var all sync.WaitGroup
		var good [4]*spend.Outcome
		var errs [4]error
		bad, wrong := check("bad")
		wrong.Counterparty = "other"
		for i := range good {
			c, action := check(fmt.Sprint("good ", i))
			all.Go(func() { good[i], errs[i] = f.redeemUnread(1, byte(100+i), c.ID, action) })
		}
		all.Go(func() {
			if o, err := f.redeemUnread(1, 99, bad.ID, wrong); o != nil || err != nil {
				t.Errorf("another action: %+v, %v", o, err)
			}
		})
		all.Wait()
		for i, o := range good {
			if o == nil || errs[i] != nil {
				t.Errorf("beside another action: %+v, %v", o, errs[i])
			}
		}
		before := commits.Load()
		if o, err := f.redeemUnread(1, 99, bad.ID, refundOf(t, "10", "bad")); o != nil || err != nil || commits.Load() != before {
			t.Errorf("behind a refusal: %+v, %v, %d commits", o, err, commits.Load()-before)
		}
		if o, err := f.redeemUnread(1, 98, bad.ID, refundOf(t, "10", "bad")); o == nil || err != nil {
			t.Errorf("by another key: %+v, %v", o, err)
		}
	})
}

// S87: a redemption whose check was not read is not recorded behind a freeze of who asked for it.
func TestUnreadMeetsAFreeze(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		asker := f.keyed(spend.Grants{Principal: "asker", Owner: "people"})
		f.check(1, refundOf(t, "10", "so that the policy is known"))
		action := refundOf(t, "10", "c")
		c := f.checkBy(asker, 0, action).answer.Check
		var frozen *audit.Freeze
		f.nodes[1].faults.unread = func() {
			frozen = f.freeze(1, audit.FreezePrincipal, "people")
			f.check(1, refundOf(t, "10", "so that the node knows of it"))
		}
		if o, err := f.redeemUnread(1, 1, c.ID, action); o != nil || err != nil {
			t.Errorf("%+v, %v", o, err)
		}
		f.nodes[1].faults.unread = nil
		f.thaw(1, frozen)
		if o, err := f.redeemUnread(1, 1, c.ID, action); err != nil || o == nil || o.Check.Owner != "people" {
			t.Errorf("after the release: %+v, %v", o, err)
		}
	})
}

// F136: a redemption whose commit gave no answer is shown with its check, or is not recorded.
func TestRedeemUnreadUnanswered(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.check(1, refundOf(t, "10", "so that the policy is known"))
		c, action := f.check(0, refundOf(t, "10", "c")).answer.Check, refundOf(t, "10", "c")
		f.nodes[1].faults.unanswered = true
		f.nodes[1].faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
			f.nodes[1].faults.onCommit(nil)
			return errors.Join(commit(ctx, checks), audit.ErrUnknown)
		})
		o, err := f.redeemUnread(1, 1, c.ID, action)
		if err != nil || o == nil || o.Unread || !o.Check.Carries(c) {
			t.Fatalf("%+v, %v", o, err)
		}
		steps, err := f.store.Outcomes(t.Context(), []spend.ID{c.ID})
		if err != nil || len(steps) != 1 || steps[0].ID != o.ID {
			t.Errorf("%+v, %v", steps, err)
		}
		found, err := f.store.Checks(t.Context(), []spend.ID{c.ID})
		if err != nil || len(found) != 1 || !reflect.DeepEqual(found[0], o.Check) {
			t.Errorf("%+v, %v, and the redemption has %+v", found, err, o.Check)
		}
	})
}
