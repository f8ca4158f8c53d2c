package report

import (
	"testing"
	"time"

	"spendgate/audit/spend"
)

func action(amount, currency string) *spend.Action {
	a, err := spend.ParseAmount(amount)
	if err != nil {
		panic(err)
	}
	return &spend.Action{Amount: a, Currency: currency}
}

// TestTally: compared checks are in the matrix, by decision and currency, skipped ones are not, and
// the same comparisons make the same bytes.
func TestTally(t *testing.T) {
	allow := Verdict{Version: 3}
	block := Verdict{Effect: spend.Block, Reason: spend.ReasonMaxAmount, RuleID: "cap", Version: 3}
	escalate := Verdict{Effect: spend.Escalate, Reason: spend.ReasonEscalationThreshold, RuleID: "ask"}
	compared := func() *Report {
		tally := NewTally()
		for _, c := range []struct {
			amount, currency    string
			recorded, candidate Verdict
			flip                bool
		}{
			{"10.5", "USD", allow, allow, false},
			{"1.25", "USD", allow, block, true},
			{"2", "EUR", allow, block, true},
			{"7", "USD", block, allow, true},
			{"8", "USD", block, escalate, true},
			{"9", "USD", escalate, escalate, false},
		} {
			if got := tally.Add(action(c.amount, c.currency), c.recorded, c.candidate); got != c.flip {
				t.Errorf("%v to %v: listed %v", c.recorded, c.candidate, got)
			}
		}
		tally.Skip("late")
		return tally.Report()
	}
	r := compared()
	if r.Coverage.Checks != 7 || r.Coverage.Compared != 6 || len(r.Coverage.Skipped) != 1 || r.Coverage.Skipped[0] != (Skipped{"late", 1}) {
		t.Errorf("coverage %+v", r.Coverage)
	}
	if r.Flips != (Counts{Total: 4, Stricter: 2, Looser: 2, ToAllow: 1, Listed: 4}) {
		t.Errorf("flips %+v", r.Flips)
	}
	if len(r.Rules) != 2 || r.Rules[0] != (Fired{"ask", Effects{Escalate: 1}, Effects{Escalate: 2}}) ||
		r.Rules[1] != (Fired{"cap", Effects{Block: 2}, Effects{Block: 2}}) {
		t.Errorf("rules %+v", r.Rules)
	}
	const none = `{"checks":0,"amounts":{}}`
	want := `{"allow":{"allow":{"checks":1,"amounts":{"USD":10.5}},"block":{"checks":2,"amounts":{"EUR":2,"USD":1.25}},"escalate":` +
		none + `},` +
		`"block":{"allow":{"checks":1,"amounts":{"USD":7}},"block":` + none + `,"escalate":{"checks":1,"amounts":{"USD":8}}},` +
		`"escalate":{"allow":` + none + `,"block":` + none + `,"escalate":{"checks":1,"amounts":{"USD":9}}}}`
	if got, err := r.Matrix.MarshalJSON(); string(got) != want || err != nil {
		t.Errorf("matrix\n%s\nwant\n%s", got, want)
	}
	if r.JSON() != compared().JSON() {
		t.Error("the same comparisons make other bytes")
	}
}

// TestFlip: a flip shows check, action and both verdicts.
func TestFlip(t *testing.T) {
	c := &spend.Check{ID: spend.NewID(time.UnixMilli(1_790_000_000_123)), Action: *action("12.5", "USD"), ActionType: spend.Refund}
	c.Action.AgentID, c.Action.Counterparty = "a", "c"
	f := FlipOf(c, Verdict{Version: 2}, Verdict{Effect: spend.Block, Reason: spend.ReasonMaxAmount, RuleID: "cap"})
	want := `{"check_id":"` + c.ID.Text(spend.PrefixCheck) + `","timestamp":"2026-09-21T14:13:20.123Z",` +
		`"recorded":{"decision":"allow","rule_id":null,"reason_code":null,"policy_version":2},` +
		`"candidate":{"decision":"block","rule_id":"cap","reason_code":"max_amount_exceeded","policy_version":null},` +
		`"action":{"agent_id":"a","action_type":"refund","amount":12.5,"currency":"USD","counterparty":"c"}}`
	if got := f.JSON(); got != want {
		t.Errorf("flip\n%s\nwant\n%s", got, want)
	}
}
