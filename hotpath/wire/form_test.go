package wire

import (
	"encoding/json"
	"testing"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

func appended[T any](v T, textAmounts bool) string {
	return string(Append(nil, &v, textAmounts))
}

func TestForm(t *testing.T) {
	amount := must.Get(spend.ParseAmount("1.50"))(t)
	action := RecordedAction{AgentID: `"a"`, ActionType: Refund, Amount: amount, Metadata: Text(`{"n":1.00}`)}
	const members = `"currency":"","counterparty":"","payment_method":null,"merchant_or_vendor":null,"reason_text":null,` +
		`"idempotency_key":null,"metadata":{"n":1.00}}`
	const shown = `{"agent_id":"\"a\"","policy_id":"","action_type":"refund","amount":`
	for _, c := range []struct{ got, want string }{
		{appended(action, false), shown + `1.5,` + members},
		{appended(action, true), shown + `"1.5",` + members}, // Prefer: amounts=string
		{appended(Outcome{Amount: &amount}, true)[:56], `{"check_id":"","report":0,"status":"","amount":"1.5","re`},
		{appended(Outcome{}, true)[:56], `{"check_id":"","report":0,"status":"","amount":null,"ref`},
		{appended(BudgetWindow{RollingMinutes: 5}, false), `{"window":null,"rolling_minutes":5}`},
		{appended(struct {
			Limit     *spend.Amount     `json:"limit" wire:"null"`
			Remaining []BudgetRemaining `json:"remaining,omitzero"`
			Position
		}{Limit: &amount, Remaining: []BudgetRemaining{}}, true), `{"limit":1.5,"remaining":[],"next_cursor":null,"has_more":false}`},
		{appended(DecisionCounts{Block: 2}, false), `{"allow":0,"block":2,"escalate":0}`},
	} {
		if c.got != c.want {
			t.Errorf("\n got %s\nwant %s", c.got, c.want)
		}
	}
}

// What is written is what a client reads.
func TestFormRoundTrip(t *testing.T) {
	missing := 2
	was := Approval{
		ApprovalID: "apr_1", Status: ApprovalPending, RuleIDs: []string{"r"}, Missing: &missing,
		From:      []ApprovalGroup{{Group: "finance", Required: 2, Missing: 2}},
		Decisions: []ApprovalDecision{{Principal: "ü\n", Decision: "approve"}},
		Remaining: []BudgetRemaining{{RuleID: "b", Remaining: new(Number("-1.5"))}},
	}
	text := appended(was, false)
	var is Approval
	must.Do(t, json.Unmarshal([]byte(text), &is))
	is.Action.Metadata = nil // which came as null
	if again := appended(is, false); again != text {
		t.Errorf("\n got %s\nwant %s", again, text)
	}
}
