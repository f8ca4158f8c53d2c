package hotpath_test

import (
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

// S60: a block as exceeded leaves no fingerprint: once the budget is raised the action
// passes at once, on every node, also when Redis was lost. Of many at once none is a
// duplicate of a block (F87).
func TestExceededLeavesNoFingerprint(t *testing.T) {
	const rules = `[{"rule_id":"b","rule_type":"budget","parameters":{"limit":%d,"currency":"USD","window":"lifetime"}}]`
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		for i, lost := range []bool{false, true} {
			f.post(0, "p", fmt.Sprintf(rules, 5+10*i))
			action := refundOf(t, "10", fmt.Sprint("c-", i))
			for _, o := range f.checkAll(repeat(action, 8)...) {
				if o.err != nil || o.answer.Check.Decision.Reason != spend.ReasonBudgetExceeded || o.answer.Check.Pass.Passed() {
					t.Errorf("below the limit: %s", o)
				}
			}
			if n := f.passes(action); n != 0 {
				t.Errorf("%d passes are recorded", n)
			}
			if lost {
				f.flush()
			}
			f.post(1, "p", fmt.Sprintf(rules, 15+10*i))
			if pass := onePass(t, f, f.checkAll(repeat(action, 8)...)); pass == nil || pass.Decision.Effect != spend.Allow {
				t.Errorf("lost %t, the budget was raised: %+v", lost, pass)
			}
		}
	})
}

// F88: a block as exceeded had succeeded a pass that longer windows still see.
func TestExceededSuccessorLeavesLongerWindows(t *testing.T) {
	for _, lost := range []bool{false, true} {
		f := newFleet(t, embeddedBackend(), 2)
		f.post(0, "long", guardRules(60))
		f.post(0, "short", `[{"rule_id":"b","rule_type":"budget","parameters":{"limit":5,"currency":"USD","window":"lifetime"}}]`)
		action := refundOf(t, "10", "c")
		first := f.check(0, under(action, "long"))
		f.mini.Advance(10 * time.Minute)
		if lost {
			f.flush()
		}
		if o := f.check(1, under(action, "short")); o.err != nil || o.answer.Check.Decision.Reason != spend.ReasonBudgetExceeded {
			t.Fatal(o)
		}
		if o := f.check(0, under(action, "long")); !o.names(first.answer.Check.ID.Text(spend.PrefixCheck)) {
			t.Errorf("lost %t: %s", lost, o)
		}
	}
}

// S60: under judge_again a check that was blocked by a rule is not one that an action
// repeats, on any node, also in windows read from the record; one that passed or
// waits is, also behind a block (F89, F90).
func TestJudgedAgainAfterABlock(t *testing.T) {
	const rules = `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":%d}},
		{"rule_id":"people","rule_type":"escalate_if","parameters":{"amount_above":50}},
		{"rule_id":"repeats","rule_type":"duplicate_guard","parameters":{"window_minutes":%d,"after_block":%q}}]`
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		for i, lost := range []bool{false, true} {
			flush := func() {
				if lost {
					f.flush()
				}
			}
			action, waiting := refundOf(t, "20", fmt.Sprint("c-", i)), refundOf(t, "100", fmt.Sprint("c-", i))
			f.post(0, "p", fmt.Sprintf(rules, 10, 60, "judge_again"))
			for range 2 {
				if o := f.check(0, action); o.err != nil || o.answer.Check.Decision.Reason != spend.ReasonMaxAmount {
					t.Errorf("blocked: %s", o)
				}
				flush()
			}
			simulated := func() spend.Effect {
				checks, _, err := f.nodes[1].Simulate(t.Context(), hotpath.Request{Caller: f.key, Started: time.Now()}, "p", []*spend.Action{&action})
				must.Do(t, err)
				return checks[0].Decision.Effect
			}
			f.post(1, "p", fmt.Sprintf(rules, 1000, 60, "duplicate"))
			if o := f.check(1, action); !o.duplicate() || simulated() != spend.Block {
				t.Errorf("duplicate: %s, simulated %s", o, simulated())
			}
			f.post(1, "p", fmt.Sprintf(rules, 1000, 60, "judge_again"))
			if f.check(1, refundOf(t, "1", fmt.Sprint("another-", i))); simulated() != spend.Allow { // which loads the policy
				t.Error("a simulation repeats a block")
			}
			flush()
			var pass *spend.Check
			for _, o := range f.checkAll(repeat(action, 8)...) {
				switch {
				case o.err == nil && o.answer.Check.Decision.Effect == spend.Allow && pass == nil:
					pass = o.answer.Check
				case !o.duplicate():
					t.Errorf("lost %t: %s", lost, o)
				}
			}
			if pass == nil {
				t.Fatalf("lost %t: none passed", lost)
			}
			waits := f.check(0, waiting)
			if waits.err != nil || waits.answer.Check.Decision.Effect != spend.Escalate {
				t.Fatal(waits)
			}
			flush()
			if f.mini == nil {
				continue // the clock is real
			}
			f.mini.Advance(10 * time.Minute)
			f.post(0, "short", `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}]`)
			for _, of := range []*spend.Check{pass, waits.answer.Check} {
				again := of.Action
				if o := f.check(1, under(again, "short")); o.err != nil || o.answer.Check.Decision.Reason != spend.ReasonMaxAmount {
					t.Fatal(o)
				}
				flush()
				if o := f.check(0, again); !o.names(of.ID.Text(spend.PrefixCheck)) {
					t.Errorf("lost %t: behind a block: %s, want a duplicate of %s", lost, o, of.ID.Text(spend.PrefixCheck))
				}
			}
		}
	})
}

// S84: a payment's check of the round before makes its next request no duplicate, also behind another's block; it makes one of
// another payment.
func TestOwnPaymentBehindABlock(t *testing.T) {
	for _, lost := range []bool{false, true} {
		p := newPayer(newFleet(t, embeddedBackend(), 1))
		p.post(0, "long", `[{"rule_id":"repeats","rule_type":"duplicate_guard",
			"parameters":{"window_minutes":1440,"after_block":"judge_again"}}]`)
		p.post(0, "short", `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}]`)
		action := under(refundOf(t, "10", "c"), "long")
		asked := nonce(1)
		asked.Hours = 1
		first := p.must("the first", action, asked, audit.PaymentRedeemed, true)
		must.Do(t, p.ended(first, spend.Gateway, spend.Executed, 0))
		p.mini.Advance(2 * time.Hour)
		p.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
		p.nodes = append(p.nodes, p.start(p.server, p.inProcess))
		if o := p.check(1, under(action, "short")); o.err != nil || o.answer.Check.Decision.Reason != spend.ReasonMaxAmount {
			t.Fatal(o)
		}
		if lost {
			p.flush()
		}
		if o := p.check(1, action); !o.names(first.Check.ID.Text(spend.PrefixCheck)) {
			t.Errorf("lost %t: without a payment: %s", lost, o)
		}
		asked.Nonce = ""
		if next, err := p.pay(1, action, asked); err != nil || next.Payment.Status != audit.PaymentOpen {
			t.Errorf("lost %t: the next round: %+v, %v", lost, next.Payment, err)
		}
	}
}

// S84, S17: a payment's own check hides no pass of another check, which a longer window still sees.
func TestOwnPaymentHidesNoOther(t *testing.T) {
	for _, again := range []string{"", `,"after_block":"judge_again"`} {
		inVirtualTime(func(t *testing.T) {
			p := newPayer(newFleet(t, embeddedBackend(), 1))
			b := audit.Backtest{PolicyID: "p", From: time.Now()}
			b.Version = p.post(0, "p", `[{"rule_id":"each","rule_type":"duplicate_guard","parameters":{"window_minutes":10`+again+`}},
				{"rule_id":"shops","rule_type":"duplicate_guard","parameters":{"window_minutes":60`+again+`},"when":{"merchants":["shop"]}}]`)
			shop := refundOf(t, "50", "c")
			shop.MerchantOrVendor = "shop"
			elsewhere := shop
			elsewhere.MerchantOrVendor = "elsewhere"
			first := p.check(0, shop)
			time.Sleep(30 * time.Minute)
			p.must("elsewhere", elsewhere, hotpath.PaymentRequest{}, audit.PaymentOpen, false)
			access, _, err := p.nodes[0].Admit(t.Context(), p.key, spend.PoliciesRead, true)
			r := hotpath.Request{Caller: p.key, Access: access, Started: time.Now(), PaymentKeys: []string{"order"}}
			simulated, _, simErr := p.nodes[0].Simulate(t.Context(), r, "p", []*spend.Action{&shop})
			if err = errors.Join(err, simErr); err != nil || !(outcome{answer: hotpath.Answer{Check: simulated[0]}}).names(nameOf(first)) {
				t.Errorf("simulated: %v, %v", simulated, err)
			}
			answer, err := p.pay(0, shop, hotpath.PaymentRequest{Replace: true})
			if o := (outcome{answer: answer, err: err}); !o.names(nameOf(first)) {
				t.Errorf("%q: in the shop, where it was allowed before: %s", again, o)
			}
			b.To = time.Now()
			time.Sleep(time.Minute)
			ended := p.backtest(&b)
			if !strings.Contains(ended.Report, `"compared":3`) || !strings.Contains(ended.Report, `"flips":{"total":0`) {
				t.Error(ended.Report, ended.Error)
			}
		})(t)
	}
}

func nameOf(o outcome) string { return o.answer.Check.ID.Text(spend.PrefixCheck) }
