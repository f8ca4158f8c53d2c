package report

import (
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// A flip that was kept is shown by what it says: the order of its members, white space and texts that look like members make no
// difference.
func TestShowFlip(t *testing.T) {
	amount, err := spend.ParseAmount("999999999999999.9001")
	must.Do(t, err)
	f := FlipOf(&spend.Check{
		ID: spend.NewID(time.UnixMilli(1)), ActionType: spend.Refund,
		Action: spend.Action{AgentID: `,"action":{"amount":1,`, Amount: amount, Currency: "USD", Counterparty: "<c>"},
	}, Verdict{Effect: spend.Allow}, Verdict{Effect: spend.Block, RuleID: `,"action":{`, Reason: spend.ReasonMaxAmount, Version: 2})
	kept := f.JSON()
	head, action, _ := strings.Cut(kept, `,"action":{"agent_id"`)
	members := strings.Split(strings.TrimSuffix(`"agent_id"`+action, "}}"), `,"currency"`)
	other := `{"action": {"currency"` + members[1] + ", " + members[0] + "}, " + head[1:] + "}"
	for _, as := range []Shown{{}, {NoAction: true}, {TextAmounts: true}, {NoAction: true, TextAmounts: true}} {
		want := kept
		switch {
		case as.NoAction:
			want = head + `,"action":null}`
		case as.TextAmounts:
			want = strings.Replace(kept, `"amount":999999999999999.9001`, `"amount":"999999999999999.9001"`, 1)
		}
		for _, text := range []string{kept, other} {
			if got, err := ShowFlip(text, as); err != nil || got != want {
				t.Errorf("%+v of %s: %s, %v", as, text, got, err)
			}
		}
		if got := f.Show(as); got != want {
			t.Errorf("%+v: %s", as, got)
		}
	}
	if _, err := ShowFlip(`{"action":`, Shown{}); err == nil {
		t.Error("half a flip is shown")
	}
}
