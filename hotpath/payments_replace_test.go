package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// S84: what is replaced gives its budget back as the new action is recorded, in one commit; a redeemed check is not replaced.
func TestReplacedPayment(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		p.must("open", under(refundOf(t, "80", "c"), "days"), hotpath.PaymentRequest{}, audit.PaymentOpen, false)
		if _, err := p.pay(0, under(refundOf(t, "90", "c"), "days"), hotpath.PaymentRequest{}); !strings.Contains(fmt.Sprint(err), "amount") {
			t.Errorf("another action: %v", err)
		}
		replaces := nonce(1)
		replaces.Replace = true
		stillOpen := func(when string) {
			t.Helper()
			p.must(when, under(refundOf(t, "80", "c"), "days"), hotpath.PaymentRequest{}, audit.PaymentOpen, false)
			if used := f.used(t, "days", "all", "[]"); used != "80 1" {
				t.Errorf("%s: %s is used, want 80", when, used)
			}
		}
		held, release := f.nodes[0].holdCommit(nil)
		result := make(chan error, 1)
		go func() {
			_, err := p.pay(0, under(refundOf(t, "90", "c"), "days"), replaces)
			result <- err
		}()
		<-held
		frozen := f.freeze(0, audit.FreezePolicy, "days")
		release()
		if err := <-result; !isFrozen(err) {
			t.Errorf("a freeze came first: %v", err)
		}
		f.thaw(0, frozen)
		stillOpen("after a freeze")
		f.nodes[0].faults.onCommit(func(ctx context.Context, checks []*spend.Check, do realCommit) error {
			if len(checks) > 0 { // what comes before the check would be recorded
				return audit.ErrUnavailable
			}
			return do(ctx, checks)
		})
		if _, err := p.pay(0, under(refundOf(t, "90", "c"), "days"), replaces); !errors.Is(err, hotpath.ErrUnavailable) {
			t.Errorf("the store is away: %v", err)
		}
		f.nodes[0].faults.onCommit(nil)
		stillOpen("after a lost commit")
		if answer, err := p.pay(0, under(refundOf(t, "100.01", "d"), "days"), hotpath.PaymentRequest{Key: "other"}); err != nil ||
			!strings.Contains(answer.Check.Decision.Message, "80") {
			t.Errorf("another payment: %+v, %v", answer.Check, err)
		}
		p.must("replaced", under(refundOf(t, "90", "c"), "days"), replaces, audit.PaymentRedeemed, true)
		if used := f.used(t, "days", "all", "[]"); used != "90 1" {
			t.Errorf("%s is used, want 90", used)
		}
		if _, err := p.pay(0, under(refundOf(t, "80", "c"), "days"), replaces); err == nil {
			t.Error("a redeemed check was replaced")
		}
		replaces.Key = "blocked"
		p.must("open", under(refundOf(t, "10", "e"), "days"), hotpath.PaymentRequest{Key: "blocked"}, audit.PaymentOpen, false)
		answer := p.must("replaced by too much", under(refundOf(t, "10.01", "e"), "days"), replaces, audit.PaymentFree, false)
		if used := f.used(t, "days", "all", "[]"); used != "90 1" || !strings.Contains(answer.Check.Decision.Message, "90") {
			t.Errorf("%s is used, want 90: %s", used, answer.Check.Decision.Message)
		}
	})
}

// S84, S31: a key whose binding does not reach the current check replaces nothing of it, and a nonce that was used replaces nothing.
func TestReplaceWithinBindings(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		f.post(0, "small", `[{"rule_id":"m","rule_type":"max_amount","parameters":{"limit":5}}]`)
		f.post(0, "e", asksOne)
		p.must("open", under(refundOf(t, "10", "c"), "days"), hotpath.PaymentRequest{}, audit.PaymentOpen, false)
		p.must("waiting", under(refundOf(t, "200", "d"), "e"), hotpath.PaymentRequest{Key: "w"}, audit.PaymentWaiting, false)
		bound := payer{f, f.keyed(spend.Grants{Role: spend.Agent, Principal: "bot", PolicyIDs: []string{"small"}}), nil}
		for _, key := range []string{"order", "w"} {
			evil := under(refundOf(t, "99", "evil"), "small")
			_, err := bound.pay(0, evil, hotpath.PaymentRequest{Key: key, Replace: true})
			if refused, differs := errors.AsType[*hotpath.PaymentDiffersError](err); !differs || !refused.Payment.Hidden {
				t.Errorf("%s was replaced from outside: %v", key, err)
			}
		}
		p.must("still waiting", under(refundOf(t, "200", "d"), "e"), hotpath.PaymentRequest{Key: "w"}, audit.PaymentWaiting, false)
		used := nonce(1)
		redeemed := p.must("redeemed", under(refundOf(t, "10", "c"), "days"), used, audit.PaymentRedeemed, true)
		must.Do(t, p.ended(redeemed, spend.Gateway, spend.Failed, 0))
		p.must("open again", under(refundOf(t, "10", "c"), "days"), hotpath.PaymentRequest{}, audit.PaymentOpen, false)
		used.Replace = true
		if _, err := p.pay(0, under(refundOf(t, "20", "c"), "days"), used); !strings.Contains(fmt.Sprint(err), "amount") {
			t.Errorf("a used nonce replaces: %v", err)
		}
	})
}

// S84, S92: people are asked once for a payment: while the approval of an earlier check is reopened it waits for that, and no executor
// redeems a check of its own under it.
func TestReopenedApprovalOfAnEarlierCheck(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		f.post(0, "p", fmt.Sprintf(askRules, 1000))
		act, ann, bob := refundOf(t, "200", "good"), f.person("ann"), f.person("bob")
		asked := p.must("asked", act, hotpath.PaymentRequest{}, audit.PaymentWaiting, false)
		ann.approve(asked.Payment.Approval)
		f.post(0, "p", fmt.Sprintf(askRules, 150))
		p.must("blocked, with an approval", act, hotpath.PaymentRequest{}, audit.PaymentWaiting, false)
		other := f.check(0, refundOf(t, "10", "of another")).answer.Check
		hash, own := spend.ActionHash(other), hotpath.PaymentRequest{Key: "order"}
		r := hotpath.Request{Access: hotpath.AccessOf(p.own), ID: "req_000000000000", Started: time.Now(), Payment: &own}
		_, _, err := f.nodes[0].Redeem(t.Context(), r, other, true, hotpath.Redemption{ActionHash: &hash})
		if taken, is := errors.AsType[*hotpath.PaymentTakenError](err); !is || taken.Status != audit.PaymentWaiting {
			t.Errorf("a payment that may be approved is redeemed with another check: %v", err)
		}
		f.post(0, "p", fmt.Sprintf(askRules, 1000))
		ann.patch(0, audit.KeyChange{Active: new(false)})
		again := p.must("reopened", act, hotpath.PaymentRequest{}, audit.PaymentWaiting, false)
		if again.Check.Decision.Effect != spend.Block || !again.Replayed {
			t.Errorf("people are asked again: %+v", again.Check.Decision)
		}
		bob.approve(asked.Payment.Approval)
		p.must("approved", act, nonce(1), audit.PaymentRedeemed, true)
		page, _, err := f.store.ListApprovals(t.Context(), audit.ApprovalQuery{Status: audit.ApprovalPending, Limit: 9})
		if err != nil || len(page) > 0 {
			t.Errorf("people are still asked %d times: %v", len(page), err)
		}
	})
}
