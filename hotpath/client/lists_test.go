package client_test

import (
	"fmt"
	"iter"
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
	got := must.Get(list(c.AllChecks(t.Context(), query)))(t)
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
	if all, err := list(c.AllChecks(t.Context(), query)); err != nil || len(all) != 1 || all[0].CheckID != made.CheckID ||
		all[0].Outcome == nil || all[0].Outcome.Note != "n" {
		t.Error(all, err)
	}
	for _, q := range []client.CheckQuery{
		{Counterparty: "c", AgentID: "l"},
		{AgentID: "l", Counterparty: "c", Principal: got[1].Principal, AmountFrom: "1.5", AmountTo: "1.5"},
		{IdempotencyKey: "listed"},
		{ActionType: client.Credit, IdempotencyKey: "listed"},
	} {
		if all, err := list(c.AllChecks(t.Context(), q)); err != nil || len(all) != 1 || all[0].CheckID != made.CheckID {
			t.Errorf("%+v: %+v, %v", q, all, err)
		}
	}
	for _, q := range []client.CheckQuery{
		{ReasonCode: "duplicate_action_detected", AgentID: "l"}, {ApprovalID: "apr_00000000000000000000000000000000"},
	} {
		if all, err := list(c.AllChecks(t.Context(), q)); err != nil || len(all) != 0 {
			t.Errorf("%+v: %+v, %v", q, all, err)
		}
	}
	query.From = "yesterday"
	if _, err := list(c.AllChecks(t.Context(), query)); code(err) != client.CodeValidation {
		t.Error(err)
	}

	var versions, latest []string
	for _, p := range must.Get(list(c.AllPolicyVersions(t.Context(), "p:1")))(t) {
		versions = append(versions, fmt.Sprint(p.PolicyID, " ", p.Version, " ", string(p.Metadata), " ", p.Note))
		if p.Author == nil || !strings.HasPrefix(p.Author.KeyID, "key_") || p.Author.Principal != p.Author.KeyID {
			t.Errorf("author %+v", p.Author)
		}
	}
	for _, p := range must.Get(list(c.AllPolicies(t.Context())))(t) {
		if p.PolicyID == "p:1" {
			latest = append(latest, fmt.Sprint(p.Version))
		}
	}
	if fmt.Sprint(versions) != `[p:1 2 {"k":1.50} why p:1 1 {"k":1.50} ]` || fmt.Sprint(latest) != "[2]" {
		t.Error(versions, latest)
	}
	if _, err := list(c.AllPolicyVersions(t.Context(), "none")); code(err) != client.CodePolicyNotFound {
		t.Error(err)
	}
}

func list[T any](all iter.Seq2[T, error]) (found []T, err error) {
	for element, err := range all {
		if err != nil {
			return nil, err
		}
		found = append(found, element)
	}
	return found, nil
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
