package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// lists reads what the other parts of TestRealNode made.
func lists(t *testing.T, c *client.Client) {
	a := client.Action{
		AgentID: "l", PolicyID: "p:1", Amount: amount(t, "1.50"), Currency: "USD", Counterparty: "c", ReasonText: "store credit for the customer",
		IdempotencyKey: "listed", Metadata: map[string]any{"country": "DE"},
	}
	made := must.Get(c.Check(t.Context(), a))(t)
	a.IdempotencyKey, a.Metadata, a.Counterparty = "", nil, "d"
	bare := must.Get(c.Check(t.Context(), a))(t)
	query := client.CheckQuery{
		AgentID: "l", PolicyID: "p:1", Decision: client.Allow, From: "2020-01-01", To: "2999-01-01", Before: "2999-01-01", Limit: 1,
	}
	var got []client.CheckRecord
	for r, err := range c.AllChecks(t.Context(), query) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if len(got) != 2 || got[0].CheckID != bare.CheckID || got[1].CheckID != made.CheckID || got[1].Allowed() || got[0].Action.Metadata != nil {
		t.Fatalf("%+v", got)
	}
	if r := got[1]; r.Action.ActionType != client.Credit || r.Action.Amount != amount(t, "1.5") || r.Action.ReasonText != a.ReasonText ||
		r.Action.IdempotencyKey != "listed" || string(r.Action.Metadata) != `{"country":"DE"}` || r.Principal == "" ||
		r.Decision != client.Allow {
		t.Errorf("%+v", r)
	}
	must.Get(c.ReportOutcome(t.Context(), made.CheckID, client.OutcomeReport{Status: "failed", Note: "n"}))(t)
	query.Outcome = "failed"
	if page, err := c.Checks(t.Context(), query); err != nil || len(page.Data) != 1 || page.Data[0].CheckID != made.CheckID ||
		page.Data[0].Outcome == nil || page.Data[0].Outcome.Note != "n" {
		t.Error(page, err)
	}
	for _, q := range []client.CheckQuery{
		{Counterparty: "c", AgentID: "l"},
		{AgentID: "l", Counterparty: "c", Principal: got[1].Principal, AmountFrom: "1.5", AmountTo: "1.5"},
		{IdempotencyKey: "listed"},
		{ActionType: client.Credit, IdempotencyKey: "listed"},
	} {
		if page, err := c.Checks(t.Context(), q); err != nil || len(page.Data) != 1 || page.Data[0].CheckID != made.CheckID {
			t.Errorf("%+v: %+v, %v", q, page, err)
		}
	}
	for _, q := range []client.CheckQuery{
		{ReasonCode: "duplicate_action_detected", AgentID: "l"}, {ApprovalID: "apr_00000000000000000000000000000000"},
	} {
		if page, err := c.Checks(t.Context(), q); err != nil || len(page.Data) != 0 {
			t.Errorf("%+v: %+v, %v", q, page, err)
		}
	}
	query.From = "yesterday"
	if _, err := c.Checks(t.Context(), query); code(err) != client.CodeValidation {
		t.Error(err)
	}

	var versions, latest []string
	for p, err := range c.AllPolicyVersions(t.Context(), "p:1", client.PolicyQuery{Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, fmt.Sprint(p.PolicyID, " ", p.Version, " ", string(p.Metadata), " ", p.Note))
		if p.Author == nil || !strings.HasPrefix(p.Author.KeyID, "key_") || p.Author.Principal != p.Author.KeyID {
			t.Errorf("author %+v", p.Author)
		}
	}
	for p, err := range c.AllPolicies(t.Context(), client.PolicyQuery{Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if p.PolicyID == "p:1" {
			latest = append(latest, fmt.Sprint(p.Version))
		}
	}
	if fmt.Sprint(versions) != `[p:1 2 {"k":1.50} why p:1 1 {"k":1.50} ]` || fmt.Sprint(latest) != "[2]" {
		t.Error(versions, latest)
	}
	if page, err := c.Policies(t.Context(), client.PolicyQuery{}); err != nil || page.Pagination.TotalCount < 2 {
		t.Error(page, err)
	}
	if _, err := c.PolicyVersions(t.Context(), "none", client.PolicyQuery{}); code(err) != client.CodePolicyNotFound {
		t.Error(err)
	}
}

// events reads what the other parts of TestRealNode caused, from a cursor on.
func events(t *testing.T, c *client.Client) {
	var all []client.Event
	for after, more := int64(0), true; more; {
		page := must.Get(c.Events(t.Context(), client.EventQuery{After: after, Limit: 3}))(t)
		all, after, more = append(all, page.Data...), page.NextAfter, page.HasMore
	}
	types := make(map[string]int)
	for i, e := range all {
		if i > 0 && e.Sequence <= all[i-1].Sequence || e.ID == "" || time.Since(e.Timestamp.Time).Abs() > time.Hour || len(e.Data) == 0 {
			t.Errorf("%+v", e)
		}
		types[e.Type]++
	}
	if types["policy.created"] < 2 || types["key.changed"] == 0 || types["violation.recorded"] == 0 {
		t.Error(types)
	}
	page, err := c.Events(t.Context(), client.EventQuery{After: all[len(all)-1].Sequence})
	if err != nil || len(page.Data) != 0 || page.HasMore || page.NextAfter != all[len(all)-1].Sequence {
		t.Error(page, err)
	}
	some, err := c.Events(t.Context(), client.EventQuery{Type: "policy.created", From: "2020-01-01", Limit: 100})
	if err != nil || len(some.Data) != min(types["policy.created"], 100) || some.Data[0].Type != "policy.created" {
		t.Error(some, err)
	}
	if some, err = c.Events(t.Context(), client.EventQuery{From: "2999-01-01"}); err != nil || len(some.Data) != 0 {
		t.Error(some, err)
	}
	if _, err := c.Events(t.Context(), client.EventQuery{After: -1}); code(err) != client.CodeValidation {
		t.Error(err)
	}
}
