package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

// A report over HTTP, by keys that may release and may not, its faults and its
// refusals (S39, S40, F65).
func TestOutcomes(t *testing.T) {
	address := serveOn(t, New(realOptions(t)))
	key := keysAt(t, address)
	full, agent, executor := key(`,"principal":"office"`), key(`,"role":"agent","principal":"till"`), key(`,"role":"executor"`)
	other, elsewhere := key(`,"role":"agent","principal":"other"`), key(`,"role":"executor","policy_ids":["q"]`)
	doAt(t, address, "POST", "/v1/policies", `{"policy_id":"p","name":"n","rules":[
		{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":500}},
		{"rule_id":"day","rule_type":"budget","parameters":{"limit":150,"currency":"USD","max_count":2,"window":"day"}}]}`, full)
	action := func(amount, counterparty, more string) string {
		return `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":` + amount + `,"currency":"USD","counterparty":"` + counterparty +
			`"` + more + `}`
	}
	check := func(body string) (id, decision, released string) {
		t.Helper()
		a := doAt(t, address, "POST", "/v1/checks", body, agent)
		return field(t, a.body, "check_id"), field(t, a.body, "decision"), a.header.Get("Outcome")
	}
	report := func(id, body, by string, status int, want string) {
		t.Helper()
		a := doAt(t, address, "POST", "/v1/checks/"+id+"/outcome", body, by)
		if a.status != status || !strings.Contains(a.body, want) || (a.header.Get("Idempotent-Replayed") == "true") != (status == http.StatusOK) {
			t.Errorf("%s: %d %s, %v; want %d with %s", body, a.status, a.body, a.header, status, want)
		}
	}
	first, decision, released := check(action("100", "c", `,"idempotency_key":"k"`))
	if decision != "allow" || released != "" {
		t.Fatal(decision, released)
	}
	long := strings.Repeat("ö", 256)
	for _, bad := range [][2]string{
		{`{}`, "status is required"},
		{`{"status":"paid"}`, "status must be executed, failed or voided"},
		{`{"status":3}`, "status must be a string"},
		{`{"status":"voided","amount":1}`, "amount is accepted only for an executed action"},
		{`{"status":"executed","amount":"1"}`, "amount must be a number"},
		{`{"status":"executed","amount":-1}`, "amount must not be negative"},
		{`{"status":"executed","reference":"` + long + `x"}`, "reference must be at most 256 characters"},
		{`{"status":"executed","note":"` + strings.Repeat("x", 4097) + `"}`, "note must be at most 4096 characters"},
		{`{"status":"executed","more":1}`, "more"},
		{`{"status":"executed","supersedes":1.5}`, "supersedes must be the number of a report"},
		{`{"status":"executed","supersedes":"1"}`, "supersedes must be"},
	} {
		report(first, bad[0], agent, 422, bad[1])
	}
	report(first, `{"status":"voided"}`, other, 404, "check_not_found")
	report(first, `{"status":"voided"}`, elsewhere, 404, "check_not_found")
	report("chk_00000000000000000000000000000000", `{"status":"voided"}`, executor, 404, "check_not_found")

	// The agent's own report gives nothing back.
	report(first, `{"status":"voided","reference":"`+long+`"}`, agent, 201, `"report":1,"status":"voided","amount":null,"reference":"`+long+
		`","note":null,"release":"pending","flags":[],"principal":"till"`)
	report(first, `{"status":"voided","reference":"`+long+`"}`, agent, 200, `"release":"pending"`)
	report(first, `{"status":"failed"}`, agent, 409, "outcome_already_reported")
	if _, decision, _ = check(action("60", "d", "")); decision != "block" {
		t.Errorf("after an agent's own report: %s", decision)
	}
	shown := func(want string) {
		t.Helper()
		replayed := doAt(t, address, "POST", "/v1/checks", action("100", "c", `,"idempotency_key":"k"`), agent)
		read := doAt(t, address, "GET", "/v1/checks/"+first, "", agent)
		if got := []string{replayed.header.Get("Outcome"), read.header.Get("Outcome")}; got[0] != want || got[1] != want ||
			replayed.body != read.body {
			t.Errorf("S57: replay and GET say %q, want %q", got, want)
		}
	}
	shown("voided;release=pending")
	// One by a key that may release needs to name no report.
	report(first, `{"status":"failed"}`, executor, 201,
		`"status":"failed","amount":null,"reference":null,"note":null,"release":"done","flags":[],"principal":"key_`)
	report(first, `{"status":"failed"}`, executor, 200, `"release":"done"`)
	report(first, `{"status":"voided"}`, executor, 409, "outcome_already_reported")
	report(first, `{"status":"failed"}`, agent, 200, `"release":"done"`)
	report(first, `{"status":"voided","reference":"`+long+`"}`, agent, 200, `"release":"pending"`)
	shown("failed")
	got := doAt(t, address, "GET", "/v1/checks/"+first+"/outcome", "", executor)
	if got.status != 200 || field(t, got.body, "status") != "failed" {
		t.Errorf("%d %s", got.status, got.body)
	}
	// The action is free, and so is the budget.
	second, decision, _ := check(action("100", "c", ""))
	if decision != "allow" || second == first {
		t.Fatalf("the action again: %s %s", second, decision)
	}
	report(second, `{"status":"executed","amount":140}`, full, 201,
		`"amount":140,"reference":null,"note":null,"release":"none","flags":["exceeded_pending"],"principal":"office"`)
	third, decision, _ := check(action("50", "e", ""))
	if decision != "allow" {
		t.Errorf("an excess that is not counted: %s", decision)
	}
	report(second, `{"status":"executed","amount":140}`, executor, 201, `"flags":["exceeded"]`)
	if read := doAt(t, address, "GET", "/v1/checks/"+second, "", agent); read.header.Get("Outcome") != "executed" {
		t.Errorf("S57: what was executed is shown with %v", read.header)
	}
	counters := doAt(t, address, "GET", "/v1/budgets?policy_id=p", "", agent)
	if !strings.Contains(counters.body, `"used":190,"remaining":0,"count":2`) {
		t.Error(counters.body)
	}
	blocked, decision, _ := check(action("1", "f", ""))
	if decision != "block" {
		t.Error(decision)
	}
	report(blocked, `{"status":"voided"}`, executor, 409, "not_allowed")
	// A report is corrected by one that names it, and no other (S61).
	report(second, `{"status":"executed","amount":100}`, executor, 409, `"latest":{"check_id":"`+second+
		`","report":2,"status":"executed","amount":140,`)
	report(second, `{"status":"executed","amount":100,"supersedes":1}`, executor, 409, `"latest":{"check_id":"`+second+`","report":2,`)
	for _, other := range []string{"3", "0", "-1", "101", "4294967297", "999999999999999999"} {
		report(second, `{"status":"executed","amount":100,"supersedes":`+other+`}`, executor, 409,
			`"latest":{"check_id":"`+second+`","report":2,`)
	}
	report(second, `{"status":"executed","amount":100,"supersedes":2}`, agent, 409, `"latest":{"check_id":"`+second+`","report":2,`)
	report(second, `{"status":"executed","amount":100,"supersedes":2}`, executor, 201, `"report":3,"status":"executed","amount":100,`)
	report(second, `{"status":"executed","amount":100,"supersedes":2}`, executor, 200, `"report":3,`)
	report(second, `{"status":"executed","amount":100}`, executor, 200, `"report":3,`)
	report(second, `{"status":"voided","supersedes":3}`, executor, 201, `"report":4,"status":"voided"`)
	report(second, `{"status":"executed","amount":100,"supersedes":4}`, executor, 201, `"report":5,`)
	for _, none := range []string{"1", "0"} {
		report(third, `{"status":"executed","supersedes":`+none+`}`, executor, 409, "nothing is reported of this check yet")
	}
	doAt(t, address, "GET", "/v1/checks/"+third+"/outcome", "", executor).is(t, "a refused first report", 404)
	if a := doAt(t, address, "POST", "/v1/checks/"+second+"/outcome", `{"status":"failed"}`, executor,
		"Prefer: amounts=string"); !strings.Contains(a.body, `"report":5,"status":"executed","amount":"100"`) {
		t.Errorf("amounts as strings: %s", a.body)
	}
}
