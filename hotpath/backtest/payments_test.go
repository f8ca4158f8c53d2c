package backtest

import (
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
)

// TestAllowedBefore: where the candidate allows an earlier check of a payment, nobody asks for the payment again. The outcome
// becomes that of the earlier check, and one that gives back frees the payment (S84).
func TestAllowedBefore(t *testing.T) {
	a := newAsked(t, `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":100}},
		{"rule_id":"day","rule_type":"budget","parameters":{"limit":150,"currency":"USD","window":"day"}}]`,
		`[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":10}}]`)
	pays := func(after time.Duration, amount string, round int, effect spend.Effect) *Record {
		rule := ""
		if effect == spend.Block {
			rule = "cap"
		}
		r := a.check(after, amount, 2, effect, rule, spend.ID{})
		if effect == spend.Block {
			r.Check.Decision.Reason, r.Check.Pass = spend.ReasonMaxAmount, spend.Pass{}
		}
		r.Check.Payment = &spend.CheckPayment{Key: "order", Round: round}
		return r
	}
	pays(0, "80", 0, spend.Block)
	givenBack := func(r *Record) {
		r.Reports = []*spend.Outcome{{
			ID: spend.NewOutcomeID(r.Check.Timestamp().Add(time.Second)), CheckID: r.Check.ID, Number: 1, Status: spend.Failed,
			Release: spend.ReleaseDone,
		}}
	}
	givenBack(pays(time.Second, "10", 0, spend.Allow)) // of less, which the candidate's agent need not ask for
	pays(3*time.Second, "90", 0, spend.Block)          // has room, since that was given back
	pays(4*time.Second, "10", 0, spend.Allow)
	givenBack(pays(5*time.Second, "10", 1, spend.Allow)) // of the next round
	pays(7*time.Second, "10", 1, spend.Allow)
	r, flips := a.replay(1, 0)
	skipped := r.Coverage.Skipped
	if r.Coverage.Compared != 4 || r.Flips.ToAllow != 2 || len(flips) != 2 || len(skipped) != 1 || skipped[0].Reason != PaymentAllowed ||
		skipped[0].Checks != 2 {
		t.Errorf("%s\n%s", r.JSON(), strings.Join(flips, "\n"))
	}
}

// TestAllowedBeforePeopleWereAsked: the check that used an approval belongs to the payment that the candidate allowed before anybody
// was asked, and takes nothing from its budgets again (S84).
func TestAllowedBeforePeopleWereAsked(t *testing.T) {
	a := newAsked(t, `[{"rule_id":"day","rule_type":"budget","parameters":{"limit":150,"currency":"USD","window":"day"}}]`,
		`[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":10}}]`,
		`[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":10,"approval":{}}}]`)
	pays := func(after time.Duration, amount string, version int, effect spend.Effect, rule string, uses spend.ID) *Record {
		r := a.check(after, amount, version, effect, rule, uses)
		if r.Check.Payment = new(spend.CheckPayment{Key: "order"}); effect == spend.Block {
			r.Check.Decision.Reason, r.Check.Pass = spend.ReasonMaxAmount, spend.Pass{}
		}
		return r
	}
	pays(0, "80", 2, spend.Block, "cap", spend.ID{})
	asks := pays(time.Second, "80", 3, spend.Escalate, "ask", spend.ID{}).approved(time.Second)
	pays(3*time.Second, "80", 3, spend.Allow, "", asks.Check.ID)
	a.check(4*time.Second, "70", 1, spend.Allow, "", spend.ID{}) // of no payment; has room
	r, flips := a.replay(1, 0)
	if r.Coverage.Compared != 2 || r.Flips.ToAllow != 1 || len(flips) != 1 {
		t.Errorf("%s\n%s", r.JSON(), flips)
	}
}
