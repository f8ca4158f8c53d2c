package client_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// approvals takes one approval through everything that can be done with it.
func approvals(t *testing.T, node *fleet.Dev, c *client.Client) {
	person := keyOf(t, node, c, client.Grants{Role: "approver", Owner: "finance"})
	must.Get(c.CreatePolicy(t.Context(), client.NewPolicy{PolicyID: "ask", Name: "n", Rules: []client.Rule{
		{RuleID: "review", RuleType: "escalate_if", Parameters: json.RawMessage(`{"amount_above":200,"approval":{}}`)},
		{
			RuleID: "day", RuleType: "budget",
			Parameters: json.RawMessage(`{"limit":1000,"currency":"USD","max_count":3,"per":["agent_id"],"window":"day"}`),
		},
	}}))(t)
	a := client.Action{
		AgentID: "asker", PolicyID: "ask", ActionType: client.Refund, Amount: amount(t, "300.10"), Currency: "USD", Counterparty: "c",
		ReasonText: "broken", Metadata: map[string]any{"order": json.Number("1.50")},
	}
	asked, err := c.Check(t.Context(), a)
	if err != nil || asked.Decision != client.Escalate || asked.ApprovalID == "" {
		t.Fatal(asked, err)
	}
	pending, err := c.Approval(t.Context(), asked.ApprovalID, 0)
	if err != nil || pending.Status != client.ApprovalPending || pending.CheckID != asked.CheckID || pending.RetryAfter != 5*time.Second ||
		pending.Action.Amount != a.Amount || pending.Action.ReasonText != "broken" || string(pending.Action.Metadata) != `{"order":1.50}` ||
		pending.Required != 1 || fmt.Sprint(pending.RuleIDs) != "[review]" || pending.UseBy != nil ||
		*pending.Remaining[0].Remaining != "1000" {
		t.Errorf("%+v, %v", pending, err)
	}
	use := a
	use.ApprovalID = asked.ApprovalID
	if _, err := c.Check(t.Context(), use); code(err) != client.CodeApprovalNotApproved {
		t.Error(err)
	}
	if _, err := person.Approve(t.Context(), asked.ApprovalID, "00", ""); code(err) != client.CodeApprovalMismatch {
		t.Error(err)
	}
	if _, err := c.Approve(t.Context(), asked.ApprovalID, pending.ActionHash, ""); code(err) != client.CodeForbidden {
		t.Error(err)
	}

	waited := make(chan *client.Approval)
	go func() {
		a, err := c.WaitForApproval(t.Context(), asked.ApprovalID)
		must.Check(t, err)
		waited <- a
	}()
	for range 2 { // the same decision again replays
		approved, err := person.Approve(t.Context(), asked.ApprovalID, pending.ActionHash, "seen the photo")
		if err != nil || approved.Status != client.ApprovalApproved || approved.UseBy == nil || len(approved.Decisions) != 1 ||
			approved.Decisions[0].Note != "seen the photo" {
			t.Fatalf("%+v, %v", approved, err)
		}
	}
	if a := <-waited; a == nil || a.Status != client.ApprovalApproved {
		t.Errorf("%+v", a)
	}
	used, err := c.Check(t.Context(), use)
	if err != nil || !used.Allowed() {
		t.Fatal(used, err)
	}
	if _, err := c.Check(t.Context(), use); code(err) != client.CodeApprovalUsed {
		t.Error(err)
	}
	if _, err := person.Deny(t.Context(), asked.ApprovalID, pending.ActionHash, ""); code(err) != client.CodeApprovalNotPending {
		t.Error(err)
	}
	listed(t, c, person, a, used)
}

// listed reads the lists of approvals and budgets after one of each.
func listed(t *testing.T, c, person *client.Client, a client.Action, used *client.Result) {
	for i := range 2 {
		a.Amount = amount(t, fmt.Sprint(400+i))
		if r, err := c.Check(t.Context(), a); err != nil || r.ApprovalID == "" {
			t.Fatal(r, err)
		}
	}
	var statuses []string
	for approval, err := range c.AllApprovals(t.Context(), client.ApprovalQuery{PolicyID: "ask", AgentID: "asker", Limit: 1}) {
		must.Do(t, err)
		statuses = append(statuses, string(approval.Status)+approval.UsedByCheckID)
	}
	if fmt.Sprint(statuses) != "[pending pending used"+used.CheckID+"]" {
		t.Error(statuses)
	}
	waiting := 0
	for item, err := range person.Waiting(t.Context(), client.ApprovalQuery{PolicyID: "ask", Limit: 1}) {
		if waiting++; err != nil || item.Kind != "approval" || item.Approval.Status != client.ApprovalPending || item.Draft != nil ||
			!strings.Contains(string(item.Body), item.Approval.ApprovalID) {
			t.Error(item, err)
		}
	}
	if waiting != 2 {
		t.Errorf("%d wait", waiting)
	}
	if all, err := list(c.AllApprovals(t.Context(), client.ApprovalQuery{Status: client.ApprovalDenied})); err != nil || len(all) != 0 {
		t.Error(all, err)
	}

	small := a
	small.AgentID, small.Amount = "another", amount(t, "0.000000001")
	if r, err := c.Check(t.Context(), small); err != nil || !r.Allowed() {
		t.Fatal(r, err)
	}
	var counters []string
	for b, err := range c.AllBudgets(t.Context(), client.BudgetQuery{PolicyID: "ask", RuleID: "day", Limit: 1}) {
		must.Do(t, err)
		counters = append(counters, fmt.Sprintln(b.Per, b.Used, b.Remaining, *b.Limit, b.Count, *b.MaxCount, *b.RemainingCount, b.Window,
			b.TimeZone, b.ResetsAt.After(b.AsOf.Time)))
	}
	want := []string{
		"map[agent_id:another] 0.000000001 999.999999999 1000 1 3 2 day UTC true\n", "map[agent_id:asker] 300.1 699.9 1000 1 3 2 day UTC true\n",
	}
	if fmt.Sprint(counters) != fmt.Sprint(want) {
		t.Error(counters)
	}
	if _, err := list(c.AllBudgets(t.Context(), client.BudgetQuery{})); code(err) != client.CodeValidation {
		t.Error(err)
	}
}

// keyOf returns a client with a new key.
func keyOf(t *testing.T, node *fleet.Dev, admin *client.Client, g client.Grants) *client.Client {
	t.Helper()
	made := must.Get(admin.CreateKey(t.Context(), client.KeyRequest{Name: "made", Grants: g}))(t)
	return must.Get(client.New(client.Options{BaseURL: node.API, APIKey: made.APIKey}))(t)
}
