package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath/client"
	"spendgate/hotpath/wire"
)

// startNode runs the real service, as a single node, and returns two clients: one with the sample
// key and the admin key, one without a key.
func startNode(t *testing.T) (node *fleet.Dev, c, anonymous *client.Client) {
	t.Helper()
	node = fleet.TestDev(t)
	c = must.Get(client.New(client.Options{BaseURL: node.API, APIKey: node.Key, AdminKey: node.AdminKey}))(t)
	anonymous = must.Get(client.New(client.Options{BaseURL: node.API}))(t)
	return node, c, anonymous
}

func amount(t *testing.T, s string) client.Amount {
	t.Helper()
	return must.Get(client.ParseAmount(s))(t)
}

func code(err error) string {
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return refused.Code
	}
	return fmt.Sprint(err)
}

// Every endpoint of the service, asked through the client.
func TestRealNode(t *testing.T) {
	node, c, anonymous := startNode(t)
	t.Run("policies", func(t *testing.T) { policies(t, c) })
	t.Run("drafts", func(t *testing.T) { drafts(t, c) })
	t.Run("checks", func(t *testing.T) { checks(t, c) })
	t.Run("simulation", func(t *testing.T) { simulation(t, c, anonymous) })
	t.Run("violations", func(t *testing.T) { violations(t, c) })
	t.Run("lists", func(t *testing.T) { lists(t, c) })
	t.Run("events", func(t *testing.T) { events(t, c) })
	t.Run("keys", func(t *testing.T) { keys(t, c) })
	t.Run("grants", func(t *testing.T) { grants(t, node, c) })
	t.Run("approvals", func(t *testing.T) { approvals(t, node, c) })
	t.Run("outcomes", func(t *testing.T) { outcomes(t, node, c) })
	t.Run("health", func(t *testing.T) {
		if h, err := anonymous.Health(t.Context()); err != nil || h.Status != "ok" || h.Version != "dev" || h.Timestamp.IsZero() {
			t.Error(h, err)
		}
	})
}

func policies(t *testing.T, c *client.Client) {
	rules := []client.Rule{
		{
			RuleID: "cap", RuleType: "max_amount", Description: "a cap", Parameters: json.RawMessage(`{"limit":999999999999999.9,"currency":"USD"}`),
		},
		{RuleID: "review", RuleType: "escalate_if", Parameters: json.RawMessage(`{"amount_above":200.0}`)},
	}
	for want := range 2 {
		p, err := c.CreatePolicy(t.Context(), client.NewPolicy{
			PolicyID: "p:1", Name: "n", Description: "d", Rules: rules, Metadata: json.RawMessage(`{"k":1.50}`), Note: strings.Repeat("why", want),
		})
		if err != nil || p.Version != want+1 {
			t.Fatal(p, err)
		}
	}
	p, err := c.Policy(t.Context(), "p:1", 1)
	if err != nil || p.Version != 1 || len(p.Rules) != 2 || string(p.Rules[0].Parameters) != string(rules[0].Parameters) ||
		p.Name != "n" || p.Description != "d" || string(p.Metadata) != `{"k":1.50}` || p.CreatedAt.IsZero() {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := c.Policy(t.Context(), "p:1", 0); err != nil || p.Version != 2 {
		t.Error(p, err)
	}
	if _, err := c.Policy(t.Context(), "p:1", 3); code(err) != client.CodePolicyNotFound {
		t.Error(err)
	}
	if _, err := c.CreatePolicyJSON(t.Context(), []byte(`{"name":"n","rules":[],"nope":1}`)); code(err) != client.CodeValidation ||
		!strings.Contains(err.Error(), "nope") {
		t.Error(err)
	}
	budget := client.NewPolicy{PolicyID: "b", Name: "n", Rules: []client.Rule{
		{RuleID: "day", RuleType: "budget", Parameters: json.RawMessage(`{"max_count":9,"window":"day"}`)},
	}}
	must.Get(c.CreatePolicy(t.Context(), budget))(t)
	spent := client.Action{AgentID: "a", PolicyID: "b", ActionType: client.Spend, Amount: amount(t, "1"), Currency: "USD", Counterparty: "c"}
	if d, err := c.Check(t.Context(), spent); err != nil || !d.Allowed() {
		t.Fatal(d, err)
	}
	budget.Rules = rules
	if _, err := c.CreatePolicy(t.Context(), budget); code(err) != client.CodeBudgetInUse {
		t.Error(err)
	}
	budget.DropBudgets = []string{"day"}
	if p, err := c.CreatePolicy(t.Context(), budget); err != nil || p.Version != 2 {
		t.Error(p, err)
	}
	for _, stale := range []int{0, 1, 3} {
		budget.Replaces = &stale
		if _, err := c.CreatePolicy(t.Context(), budget); code(err) != client.CodeVersionMismatch {
			t.Error(stale, err)
		}
	}
	budget.Replaces, budget.DropBudgets = new(2), nil
	if p, err := c.CreatePolicy(t.Context(), budget); err != nil || p.Version != 3 {
		t.Error(p, err)
	}
	if p, err := c.CreatePolicy(t.Context(), client.NewPolicy{Name: "n", Rules: rules}); err != nil || !strings.HasPrefix(p.PolicyID, "pol_") {
		t.Error(p, err)
	}
}

func drafts(t *testing.T, c *client.Client) {
	ctx := t.Context()
	rules := []client.Rule{{RuleID: "cap", RuleType: "max_amount", Parameters: json.RawMessage(`{"limit":50}`)}}
	must.Get(c.CreatePolicy(ctx, client.NewPolicy{PolicyID: "d:1", Name: "n", Rules: rules}))(t)
	if _, err := c.Draft(ctx, "d:1"); code(err) != client.CodeDraftNotFound {
		t.Error(err)
	}
	put, err := c.PutDraftJSON(ctx, "d:1", "", []byte(`{"name":"n","note":"why","rules":[
		{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":20.50}}]}`))
	if err != nil || put.PolicyID != "d:1" || put.BaseVersion != 1 || put.Note != "why" || put.Author == nil ||
		!strings.Contains(string(put.Rules), "20.50") {
		t.Fatalf("%+v, %v", put, err)
	}
	if d, err := c.Draft(ctx, "d:1"); err != nil || d.DraftHash != put.DraftHash {
		t.Errorf("%+v, %v", d, err)
	}
	judged := client.Action{
		AgentID: "a", PolicyID: "d:1", ActionType: client.Refund, Amount: amount(t, "30"), Currency: "USD", Counterparty: "c",
	}
	if d, err := c.Check(ctx, judged); err != nil || !d.Allowed() {
		t.Fatal(d, err)
	}
	r, err := c.AwaitDraftReport(ctx, "d:1", nil)
	if err != nil || r.Report.Coverage.Compared != 1 || r.Report.Flips.Stricter != 1 || len(r.Flips) != 1 ||
		r.Flips[0].Recorded.Decision != client.Allow || r.Flips[0].Candidate.Decision != client.Block || r.Flips[0].Candidate.RuleID != "cap" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := c.PromoteDraft(ctx, "d:1", 7, client.Promotion{}); code(err) != client.CodeVersionMismatch {
		t.Error(err)
	}
	if p, err := c.PromoteDraft(ctx, "d:1", 1, client.Promotion{Note: "tighter"}); err != nil || p.Version != 2 ||
		string(p.Rules[0].Parameters) != `{"limit":20.50}` {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := c.PutDraftJSON(ctx, "d:1", "", []byte(`{"name":"n","rules":[],"nope":1}`)); code(err) != client.CodeValidation {
		t.Error(err)
	}
	if _, err := c.PutDraftJSON(ctx, "d:1", "", []byte(`{"name":"n","rules":[
		{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":1}}]}`)); err != nil {
		t.Error(err)
	}
	must.Check(t, c.DeleteDraft(ctx, "d:1", ""))
	if err := c.DeleteDraft(ctx, "d:1", ""); code(err) != client.CodeDraftNotFound {
		t.Error(err)
	}
}

func checks(t *testing.T, c *client.Client) {
	a := client.Action{
		AgentID: "a", PolicyID: "p:1", ActionType: client.Refund, Amount: amount(t, "100"), Currency: "USD", Counterparty: "c",
		PaymentMethod: "card", MerchantOrVendor: "m", ReasonText: "because", Metadata: map[string]any{"country": "DE"},
		IdempotencyKey: "order-1",
	}
	first, err := c.Check(t.Context(), a)
	if err != nil || !first.Allowed() || first.Replayed {
		t.Fatal(first, err)
	}
	again, err := c.Check(t.Context(), a)
	if err != nil || !again.Allowed() || !again.Replayed || string(again.Body) != string(first.Body) {
		t.Error(again, err)
	}
	read, err := c.GetCheck(t.Context(), first.CheckID)
	if err != nil || string(read.Body) != string(first.Body) || read.Allowed() {
		t.Error(read, err)
	}
	a.Amount = amount(t, "100.01")
	if _, err := c.Check(t.Context(), a); code(err) != client.CodeValidation {
		t.Error(err)
	}
	a.IdempotencyKey = ""
	a.Amount = amount(t, "100")
	if r, err := c.Check(t.Context(), a); err != nil || r.Allowed() || r.ReasonCode != "duplicate_action_detected" ||
		r.Decision != client.Block {
		t.Error(r, err)
	}
	// All nineteen digits arrive.
	a.Amount = amount(t, "999999999999999.9001")
	if r, err := c.Check(t.Context(), a); err != nil || r.Decision != client.Block ||
		!strings.Contains(r.Message, "999999999999999.9001 USD") {
		t.Error(r, err)
	}
	a.Amount = amount(t, "200.01")
	if r, err := c.Check(t.Context(), a); err != nil || r.Decision != client.Escalate || r.ViolatedRuleID != "review" || r.Allowed() {
		t.Error(r, err)
	}
	a.Counterparty = "\xff"
	if _, err := c.Check(t.Context(), a); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Error(err)
	}
	if _, err := c.GetCheck(t.Context(), "chk_00000000000000000000000000000000"); code(err) != client.CodeCheckNotFound {
		t.Error(err)
	}
}

func simulation(t *testing.T, c, anonymous *client.Client) {
	a := client.Action{AgentID: "s", ActionType: client.Spend, Amount: amount(t, "1"), Currency: "USD", Counterparty: "c"}
	for mode, c := range map[string]*client.Client{"simulation": c, "demo": anonymous} {
		s, err := c.Simulate(t.Context(), "p:1", []client.Action{a, a})
		if err != nil || s.Mode != mode || s.PolicyVersion != 2 || s.Summary != (wire.SimulationSummary{Total: 2, Allowed: 1, Blocked: 1}) {
			t.Fatal(s, err)
		}
		if r := s.Results[0]; r.Decision != client.Allow || r.Allowed() {
			t.Errorf("a simulated allow: %+v", r)
		}
	}
	if _, err := anonymous.Simulate(t.Context(), "p:1", make([]client.Action, 11)); code(err) != client.CodeDemoLimit {
		t.Error(err)
	}
	if _, err := anonymous.Check(t.Context(), a); code(err) != client.CodeUnauthorized {
		t.Error(err)
	}
}

func violations(t *testing.T, c *client.Client) {
	for i := range 5 {
		a := client.Action{
			AgentID: "v", PolicyID: "p:1", ActionType: client.Credit, Amount: amount(t, fmt.Sprint(300+i)), Currency: "USD", Counterparty: "c",
		}
		if r, err := c.Check(t.Context(), a); err != nil || r.Decision != client.Escalate {
			t.Fatal(r, err)
		}
	}
	if none, err := c.Violations(t.Context(), client.ViolationQuery{AgentID: "v", PolicyID: "other"}); err != nil ||
		none.Pagination.TotalCount != 0 {
		t.Error(none, err)
	}
	query := client.ViolationQuery{
		AgentID: "v", PolicyID: "p:1", ActionType: client.Credit, Decision: client.Escalate, From: "2020-01-01", To: "2999-01-01", Limit: 2,
	}
	page, err := c.Violations(t.Context(), query)
	if err != nil || len(page.Data) != 2 || !page.Pagination.HasMore || page.Pagination.TotalCount != 5 {
		t.Fatal(page, err)
	}
	var got []string
	for v, err := range c.AllViolations(t.Context(), query) {
		must.Do(t, err)
		got = append(got, v.Amount.String())
	}
	if fmt.Sprint(got) != "[304 303 302 301 300]" {
		t.Error(got)
	}
	query.From = "yesterday"
	if _, err := c.Violations(t.Context(), query); code(err) != client.CodeValidation {
		t.Error(err)
	}
}

func keys(t *testing.T, c *client.Client) {
	made := make(map[string]bool)
	for range 3 {
		k, err := c.CreateKey(t.Context(), client.KeyRequest{Name: "till", RateLimitRPM: new(7)})
		if err != nil || k.RateLimitRPM != 7 || !strings.HasPrefix(k.APIKey, "svc_live_") {
			t.Fatal(k, err)
		}
		made[k.KeyID] = true
	}
	for id := range made {
		k, err := c.UpdateKey(t.Context(), id, client.KeyChange{Active: new(false), Name: new("old"), RateLimitRPM: new(9)})
		if err != nil || k.Active || k.Name != "old" || k.RateLimitRPM != 9 {
			t.Error(k, err)
		}
	}
	for k, err := range c.AllKeys(t.Context()) {
		must.Do(t, err)
		delete(made, k.KeyID)
	}
	if len(made) != 0 {
		t.Errorf("not listed: %v", made)
	}
	if _, err := c.UpdateKey(t.Context(), "key_00000000000000000000000000000000", client.KeyChange{Active: new(true)}); code(err) !=
		client.CodeKeyNotFound {
		t.Error(err)
	}
}

// The rights of a key are returned with it, can be changed and removed, and are what the key
// itself reads.
// A released check's answer, given again, permits nothing.
func outcomes(t *testing.T, node *fleet.Dev, c *client.Client) {
	made := must.Get(c.CreateKey(t.Context(), client.KeyRequest{Name: "executor", Grants: client.Grants{Role: "executor"}}))(t)
	executor := must.Get(client.New(client.Options{BaseURL: node.API, APIKey: made.APIKey}))(t)
	a := client.Action{
		AgentID: "a", PolicyID: "p:1", ActionType: client.Refund, Amount: amount(t, "30"), Currency: "USD", Counterparty: "reported",
		PaymentMethod: "card", MerchantOrVendor: "m", Metadata: map[string]any{"country": "DE"}, IdempotencyKey: "order-reported",
	}
	first, err := c.Check(t.Context(), a)
	if err != nil || !first.Allowed() {
		t.Fatal(first, err)
	}
	if o, err := executor.GetOutcome(t.Context(), first.CheckID); code(err) != "outcome_not_found" {
		t.Error(o, err)
	}
	for i := range 2 {
		o, err := executor.ReportOutcome(t.Context(), first.CheckID, client.OutcomeReport{Status: "failed", Reference: "psp-1"})
		if err != nil || o.Release != "done" || o.Amount != nil || o.Replayed != (i == 1) || o.At.IsZero() {
			t.Error(o, err)
		}
	}
	if o, err := executor.GetOutcome(t.Context(), first.CheckID); err != nil || o.Status != "failed" || o.Reference != "psp-1" {
		t.Error(o, err)
	}
	if again, err := c.Check(t.Context(), a); err != nil || again.Allowed() || again.Outcome != (client.CheckOutcome{Status: "failed"}) ||
		again.CheckID != first.CheckID {
		t.Error(again, err)
	}
}

func grants(t *testing.T, node *fleet.Dev, admin *client.Client) {
	expires := client.Timestamp{Time: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)}
	want := client.Grants{
		Role: "agent", PolicyIDs: []string{"p:1", "p:2"}, AgentIDs: []string{"a"}, Principal: "till", Owner: "shop", ExpiresAt: &expires,
	}
	made, err := admin.CreateKey(t.Context(), client.KeyRequest{Name: "narrow", Grants: want})
	if err != nil || !reflect.DeepEqual(made.Grants, want) {
		t.Fatal(made, err)
	}
	c := must.Get(client.New(client.Options{BaseURL: node.API, APIKey: made.APIKey}))(t)
	if k, err := c.Self(t.Context()); err != nil || k.KeyID != made.KeyID || !reflect.DeepEqual(k.Grants, want) {
		t.Error(k, err)
	}
	if _, err := c.CreatePolicy(t.Context(), client.NewPolicy{PolicyID: "p:1", Name: "n"}); code(err) != client.CodeForbidden {
		t.Error(err)
	}
	changed, err := admin.UpdateKey(t.Context(), made.KeyID, client.KeyChange{
		Grants: client.Grants{Scopes: []string{"policies:write"}, Owner: "bank"}, Clear: []string{"policy_ids", "agent_ids", "expires_at"},
	})
	if err != nil || !reflect.DeepEqual(changed.Grants, client.Grants{Scopes: []string{"policies:write"}, Principal: "till", Owner: "bank"}) {
		t.Error(changed, err)
	}
	// An empty list is not the same as a list that was not given.
	for _, g := range []client.Grants{{Scopes: []string{}}, {PolicyIDs: []string{}}, {AgentIDs: []string{}}} {
		if k, err := admin.CreateKey(t.Context(), client.KeyRequest{Name: "wide", Grants: g}); code(err) != client.CodeValidation {
			t.Error(k, err)
		}
	}
	if _, err := admin.UpdateKey(t.Context(), made.KeyID,
		client.KeyChange{Grants: client.Grants{Owner: "x"}, Clear: []string{"owner"}}); err == nil {
		t.Error("a member is set and cleared")
	}
}
