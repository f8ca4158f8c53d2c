package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// Every endpoint of a real node, in one story, held to the document.
func TestRequestsAndAnswersFitTheDocument(t *testing.T) {
	d := describe(t)
	options := realOptions(t)
	store := options.Store.(audit.Store)
	d.address = serveOn(t, New(options))
	admin := "X-Admin-Key: " + adminKey
	d.send("GET", "/health", "", 200, true)
	d.send("GET", "/openapi.yaml", "", 200, true)
	d.send("GET", "/openapi.json", "", 200, true)

	created := d.send("POST", "/v1/keys", `{"name":"tests","rate_limit_rpm":1000}`, 201, true, admin)
	d.key = field(t, created, "api_key")
	keyPath := "/v1/keys/" + field(t, created, "key_id")
	d.send("POST", "/v1/keys", `{"name":"x","rate_limit_rpm":0}`, 422, false, admin)
	d.send("POST", "/v1/keys", `{}`, 422, false, admin)
	d.send("POST", "/v1/keys", `{"name":"x"}`, 401, true)
	d.send("GET", "/v1/keys?limit=5", "", 200, true, admin)
	d.send("GET", "/v1/keys?limit=0", "", 422, false, admin)
	d.send("PATCH", keyPath, `{"name":"renamed","active":null}`, 200, true, admin)
	d.send("PATCH", keyPath, `{}`, 422, false, admin)
	d.send("GET", "/v1/keys/self", "", 200, true)
	d.send("GET", "/v1/keys/self?x=1", "", 422, true)
	narrow := d.send("POST", "/v1/keys", `{"name":"narrow","role":"agent","policy_ids":["p"],"agent_ids":["a"],"principal":"till",`+
		`"owner":"team","groups":["support"],"expires_at":"2100-01-31T12:00:00+01:00"}`, 201, true, admin)
	narrowKey, narrowPath := "X-API-Key: "+field(t, narrow, "api_key"), "/v1/keys/"+field(t, narrow, "key_id")
	d.send("GET", "/v1/keys/self", "", 200, true, narrowKey)
	d.send("GET", "/v1/keys", "", 200, true, admin)
	d.send("PATCH", narrowPath, `{"scopes":["checks:write","checks:read"],"policy_ids":null,"owner":null,"groups":null,"expires_at":null}`,
		200, true, admin)
	d.send("PATCH", narrowPath, `{"scopes":[]}`, 422, false, admin)
	d.send("PATCH", narrowPath, `{"role":"admin"}`, 422, false, admin)
	d.send("POST", "/v1/keys", `{"name":"x","agent_ids":["a","a"]}`, 422, false, admin)
	d.send("PATCH", "/v1/keys/key_00000000000000000000000000000000", `{"active":true}`, 404, true, admin)

	rules := `"rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":500}},` +
		`{"rule_id":"ask","rule_type":"escalate_if","description":"ask","parameters":{"amount_above":200.50}}]`
	d.send("POST", "/v1/policies", `{"policy_id":"p","name":"n","description":null,"metadata":{"team":"x"},`+rules+`}`, 201, true)
	d.send("POST", "/v1/policies", `{"policy_id":"p","name":"n",`+rules+`}`, 201, true)
	d.send("POST", "/v1/policies", `{"name":"n",`+rules+`}`, 201, true)
	d.send("POST", "/v1/policies", `{"name":"n","rules":[]}`, 422, false)
	d.send("POST", "/v1/policies", `{"name":"n","rules":[{"rule_id":"r","rule_type":"x","parameters":{}}]}`, 422, false)
	d.send("GET", "/v1/policies/p", "", 200, true)
	d.send("GET", "/v1/policies/p?version=1", "", 200, true)
	d.send("GET", "/v1/policies/p?version=0", "", 422, false)
	d.send("GET", "/v1/policies/p?version=9", "", 404, true)

	check := func(amount string) string {
		return `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":` + amount + `,"currency":"usd","counterparty":"c` + amount +
			`","metadata":{"days_since_purchase":5.0,"x":[{}]},"idempotency_key":"k` + amount + `"}`
	}
	allowed := d.send("POST", "/v1/checks", check("10"), 200, true)
	blocked := d.send("POST", "/v1/checks", check("600.05"), 200, true)
	d.send("POST", "/v1/checks", check("300"), 200, true)
	for i, body := range []string{allowed, blocked} {
		if want := []string{"allow", "block"}[i]; field(t, body, "decision") != want {
			t.Errorf("%s, want %s", body, want)
		}
		if again := d.send("GET", "/v1/checks/"+field(t, body, "check_id"), "", 200, true); again != body {
			t.Errorf("got again %s\nanswered %s", again, body)
		}
	}
	if again := d.send("POST", "/v1/checks", check("600.05"), 200, true); again != blocked {
		t.Errorf("replayed %s\nanswered %s", again, blocked)
	}
	d.send("POST", "/v1/checks", strings.Replace(check("600.05"), `"a"`, `"b"`, 1), 422, true)
	d.send("POST", "/v1/checks", strings.Replace(check("7"), `"p"`, `"none"`, 1), 404, true)
	d.send("POST", "/v1/checks", `{"agent_id":"a","policy_id":"p","amount":-1,"currency":"usd","counterparty":"c","reason_text":"r"}`,
		422, false)
	d.send("POST", "/v1/checks", `{"agent_id":"a","policy_id":"p","amount":1,"currency":"usd","counterparty":"c"}`, 422, true)
	d.send("POST", "/v1/checks", strings.Replace(check("7"), "{", `{"agentid":"x",`, 1), 422, false)
	d.send("POST", "/v1/checks", `{"agent_id":`, 400, false)
	d.send("POST", "/v1/checks", check("7"), 401, true, "X-API-Key: svc_live_wrong")
	d.send("POST", "/v1/checks", strings.Replace(check("7"), `"a"`, `"other"`, 1), 403, true, narrowKey)
	d.send("GET", "/v1/policies/p", "", 403, true, narrowKey)
	d.send("GET", "/v1/checks/chk_00000000000000000000000000000000", "", 404, true)

	outcome := "/v1/checks/" + field(t, allowed, "check_id") + "/outcome"
	d.send("GET", outcome, "", 404, true)
	d.send("POST", outcome, `{"status":"executed","reference":"psp-1","note":null}`, 201, true)
	d.send("POST", outcome, `{"status":"executed","amount":1e1,"reference":"psp-1","note":" "}`, 200, true)
	d.send("POST", outcome, `{"status":"executed","amount":9.5}`, 409, true)
	d.send("POST", outcome, `{"status":"done"}`, 422, false)
	d.send("POST", outcome, `{"status":`, 400, false)
	d.send("POST", outcome, `{"status":"failed"}`, 403, true, narrowKey)
	d.send("GET", outcome, "", 200, true)
	d.send("POST", "/v1/checks/"+field(t, blocked, "check_id")+"/outcome", `{"status":"voided"}`, 409, true)

	redeems := "X-API-Key: " + field(t, d.send("POST", "/v1/keys", `{"name":"n","role":"executor"}`, 201, true, admin), "api_key")
	paid := "/v1/checks/" + field(t, d.send("POST", "/v1/checks", check("12.5"), 200, true), "check_id")
	d.send("POST", paid+"/redeem", `{"amount":12.5,"currency":"usd","counterparty":"d"}`, 409, true, redeems)
	d.send("POST", paid+"/redeem", `{"amount":12.5,"x":1}`, 422, false, redeems)
	d.send("POST", paid+"/redeem", check("12.5"), 200, true, redeems)
	d.send("GET", paid, "", 200, true)
	d.send("POST", paid+"/in-doubt", `{"note":"timeout"}`, 201, true, redeems)
	d.send("POST", paid+"/in-doubt", `{}`, 200, true, redeems)
	d.send("GET", "/v1/checks?outcome=in_doubt", "", 200, true)
	d.send("GET", "/v1/events?type=check.redeemed,check.in_doubt", "", 200, true)

	const violations = "/v1/violations?limit=1&action_type=refund&amount_from=0&amount_to=9999.5&from=2020-01-01"
	page := d.send("GET", violations, "", 200, true)
	d.send("GET", violations+"&cursor="+field(t, page, "pagination", "next_cursor"), "", 200, true)
	d.send("GET", "/v1/violations?cursor=x", "", 422, true)
	d.send("GET", "/v1/violations?decision=allow", "", 422, false)
	const stats = "/v1/stats?from=2026-01-01&to=2026-01-02&step="
	d.send("GET", stats+"day", "", 200, true)
	d.send("GET", stats+"week", "", 422, false)
	d.send("GET", "/v1/stats?from=1969-12-31&to=1970-01-01&step=day", "", 422, true)
	d.send("GET", "/v1/sums?from=2020-01-01&principal=x&rule_id=r", "", 200, true)
	d.send("GET", "/v1/sums", "", 200, true)
	d.send("GET", "/v1/sums?from=2020-01-02&to=2020-01-01", "", 422, true)

	const withBudgets = `{"policy_id":"b","name":"n","rules":[
		{"rule_id":"day","rule_type":"budget","parameters":{"limit":1000,"currency":"usd","max_count":50,"per":["agent_id"],"window":"day"}},
		{"rule_id":"ever","rule_type":"budget","parameters":{"max_count":1,"window":"lifetime"}},
		{"rule_id":"hour","rule_type":"budget","parameters":{"limit":100,"currency":"USD","rolling_minutes":60}}]}`
	d.send("POST", "/v1/policies", withBudgets, 201, true)
	budgeted := strings.Replace(check("11"), `"p"`, `"b"`, 1)
	if answer := d.send("POST", "/v1/checks", budgeted, 200, true); field(t, answer, "decision") != "allow" {
		t.Error(answer)
	}
	if answer := d.send("POST", "/v1/checks", strings.ReplaceAll(budgeted, "11", "12"), 200, true); field(t, answer, "reason_code") !=
		"count_limit_exceeded" {
		t.Error(answer)
	}
	counters := d.send("GET", "/v1/budgets?policy_id=b&limit=2", "", 200, true)
	if !strings.Contains(counters, `"rule_id":"day","per":{"agent_id":"a"},"currency":"USD","limit":1000,"used":11,"remaining":989,`+
		`"count":1,"max_count":50,"remaining_count":49,"window":"day","time_zone":"UTC",`) ||
		!strings.Contains(counters, `"rule_id":"ever","per":{},"currency":null,"limit":null,"used":0,"remaining":null,"count":1,"max_count":1,`+
			`"remaining_count":0,"window":"lifetime",`) {
		t.Error(counters)
	}
	next := d.send("GET", "/v1/budgets?policy_id=b&limit=2&cursor="+field(t, counters, "pagination", "next_cursor"), "", 200, true)
	if !strings.Contains(next, `{"data":[{"policy_id":"b","rule_id":"hour","per":{},"currency":"USD","limit":100,"used":11,"remaining":89,`+
		`"count":1,"max_count":null,"remaining_count":null,"window":null,"rolling_minutes":60,`) {
		t.Error(next)
	}
	without := strings.Replace(withBudgets, `"day",`, `"Day",`, 1)
	if refused := d.send("POST", "/v1/policies", without, 409, true); field(t, refused, "error", "code") != "budget_in_use" ||
		!strings.Contains(refused, `rule \"day\": 11.00 USD and count 1 of agent_id \"a\""`) {
		t.Error(refused)
	}
	d.send("POST", "/v1/policies", `{"drop_budgets":["ever"],`+without[1:], 422, true)
	if made := d.send("POST", "/v1/policies", `{"note":"because","drop_budgets":[],`+withBudgets[1:], 201, true); strings.Contains(made,
		"because") {
		t.Error(made)
	}
	if versions := d.send("GET", "/v1/policies/b/versions", "", 200, true); !strings.Contains(versions, `,"note":"because"},{`) ||
		!strings.Contains(versions, `,"author":{"principal":"key_`) {
		t.Error(versions)
	}
	d.send("GET", "/v1/budgets?policy_id=b&rule_id=day&agent_id=other&counterparty=c", "", 200, true)
	if free := d.send("GET", "/v1/budgets?policy_id=b&agent_id=other", "", 200, true); !strings.Contains(free,
		`"per":{"agent_id":"other"},"currency":"USD","limit":1000,"used":0,"remaining":1000,"count":0,`) ||
		!strings.Contains(free, `"rule_id":"ever","per":{},`) {
		t.Error(free)
	}
	if past := d.send("GET", "/v1/budgets?policy_id=b&agent_id=other&at=2026-01-01T00:00:00%2B02:00", "", 200, true); !strings.HasPrefix(past,
		`{"data":[],`) {
		t.Error(past)
	}
	d.send("GET", "/v1/budgets?policy_id=b&at=soon", "", 422, true)
	d.send("GET", "/v1/budgets", "", 422, false)
	d.send("GET", "/v1/budgets?policy_id=none", "", 404, true)

	d.send("POST", "/v1/checks", `{"agent_id":"a","policy_id":"p","amount":3,"currency":"usd","counterparty":"c","reason_text":"give it `+
		`back","payment_method":"card","merchant_or_vendor":"m"}`, 200, true)
	list := d.send("GET", "/v1/checks?limit=1&agent_id=a&policy_id=p&from=2020-01-01&to=2999-01-01&before=2999-01-01", "", 200, true)
	d.send("GET", "/v1/checks?limit=1&agent_id=a&policy_id=p&from=2020-01-01&before=2999-01-01&cursor="+
		field(t, list, "pagination", "next_cursor"), "", 200, true)
	d.send("GET", "/v1/checks?decision=allow&rule_id=r&amount_from=0&amount_to=99.5&principal=x", "", 200, true, narrowKey)
	d.send("GET", "/v1/checks?decision=deny", "", 422, false)
	if unreported := d.send("GET", "/v1/checks?outcome=none&policy_id=p", "", 200, true); strings.Contains(unreported,
		field(t, allowed, "check_id")) {
		t.Errorf("%s was reported: %s", outcome, unreported)
	}
	d.send("GET", "/v1/checks?outcome=released", "", 422, false)
	d.send("GET", "/v1/checks?before=soon", "", 422, true)
	list = d.send("GET", "/v1/policies?limit=1", "", 200, true)
	d.send("GET", "/v1/policies?cursor="+field(t, list, "pagination", "next_cursor"), "", 200, true)
	d.send("GET", "/v1/policies?limit=0", "", 422, false)
	list = d.send("GET", "/v1/policies/p/versions?limit=1", "", 200, true)
	d.send("GET", "/v1/policies/p/versions?cursor="+field(t, list, "pagination", "next_cursor"), "", 200, true)
	d.send("GET", "/v1/policies/p/versions?cursor=x", "", 422, true)
	d.send("GET", "/v1/policies/none/versions", "", 404, true)
	d.send("GET", "/v1/policies", "", 403, true, narrowKey)
	d.send("POST", "/v1/policies", `{"policy_id":"e","name":"n","rules":[
		{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":1,"approval":{"use_within_minutes":5}}},
		{"rule_id":"day","rule_type":"budget","parameters":{"limit":100,"currency":"usd","window":"day"}}]}`, 201, true)
	escalated := strings.Replace(check("13"), `"p"`, `"e"`, 1)
	approvalID := field(t, d.send("POST", "/v1/checks", escalated, 200, true), "approval_id")
	path := "/v1/approvals/" + approvalID
	pending := d.send("GET", path, "", 200, true, "Prefer: wait=0")
	if !strings.Contains(pending, `"remaining":[{"rule_id":"day","remaining":100,"remaining_count":null,"remaining_after_approved":100,`+
		`"remaining_count_after_approved":null}],"next_step":"Pending is not approved. Ask again in 5 s."}`) {
		t.Error(pending)
	}
	use := strings.Replace(strings.Replace(escalated, `"k13"`, `"use"`, 1), "{", `{"approval_id":"`+approvalID+`",`, 1)
	d.send("POST", "/v1/checks", use, 409, true)
	d.send("POST", "/v1/checks", strings.Replace(use, approvalID, "apr_"+strings.Repeat("0", 32), 1), 404, true)
	d.send("POST", "/v1/checks", strings.Replace(use, approvalID, "apr_0", 1), 404, false)
	personKey := doAt(t, d.address, "POST", "/v1/keys", `{"name":"person","role":"approver"}`, admin)
	person := "X-API-Key: " + field(t, personKey.body, "api_key")
	decision := `{"action_hash":"` + field(t, pending, "action_hash") + `","note":"ok"}`
	d.send("POST", path+"/approve", decision, 403, true)
	d.send("POST", path+"/approve", `{"action_hash":"00"}`, 409, true, person)
	d.send("POST", path+"/approve", `{"note":"no hash"}`, 422, false, person)
	other := field(t, d.send("POST", "/v1/checks", strings.Replace(check("14"), `"p"`, `"e"`, 1), 200, true), "approval_id")
	waits := func(want int, query string, headers ...string) string {
		t.Helper()
		list := d.send("GET", "/v1/approvals?waiting_for=me"+query, "", 200, true, headers...)
		if got := strings.Count(list, `"status":"pending"`); got != want || strings.Count(list, `"approval_id"`) != want {
			t.Errorf("%d wait, want %d: %s", got, want, list)
		}
		return list
	}
	waits(0, "") // who asked decides nothing
	if list := waits(1, "&limit=1", person); strings.Contains(list, other) ||
		!strings.Contains(waits(1, "&limit=1&cursor="+field(t, list, "pagination", "next_cursor"), person), other) {
		t.Error("what expires last is not on the second page", list)
	}
	waits(1, "&amount_to=13.0&counterparty=c13&from=2020-01-01&to=2099-01-01", person)
	waits(0, "&amount_from=14.5", person)
	d.send("GET", "/v1/approvals?amount_from=2&amount_to=1", "", 422, true, person)
	d.send("GET", "/v1/approvals?amount_from=x", "", 422, false, person)
	d.send("GET", "/v1/approvals?waiting_for=ann", "", 422, false, person)
	d.send("GET", "/v1/approvals?waiting_for=me&status=denied", "", 422, true, person)
	d.send("POST", path+"/approve", decision, 200, true, person)
	d.send("POST", path+"/approve", decision, 200, true, person)
	if list := waits(1, "", person); !strings.Contains(list, other) {
		t.Error(list)
	}
	if left := d.send("GET", "/v1/approvals/"+other, "", 200, true, person); !strings.Contains(left,
		`"remaining":100,"remaining_count":null,"remaining_after_approved":87,`) {
		t.Error(left)
	}
	// More may be approved than is left: nothing is left then.
	more := "/v1/approvals/" + field(t, d.send("POST", "/v1/checks", strings.Replace(check("95"), `"p"`, `"e"`, 1), 200, true), "approval_id")
	all := `{"action_hash":"` + field(t, d.send("GET", more, "", 200, true), "action_hash") + `"}`
	d.send("POST", more+"/approve", all, 200, true, person)
	if left := d.send("GET", "/v1/approvals/"+other, "", 200, true, person); !strings.Contains(left,
		`"remaining":100,"remaining_count":null,"remaining_after_approved":0,`) {
		t.Error(left)
	}
	d.send("POST", more+"/deny", all, 200, true, person)
	if answer := d.send("POST", "/v1/checks", use, 200, true); field(t, answer, "decision") != "allow" ||
		!strings.HasSuffix(field(t, answer, "message"), ", version 1; people approved what version 1 escalated by ask") {
		t.Error(answer)
	}
	d.send("POST", "/v1/checks", strings.Replace(use, `"use"`, `"again"`, 1), 409, true)
	d.send("POST", path+"/deny", decision, 409, true, person)
	denied := "/v1/approvals/" + field(t, d.send("POST", "/v1/checks", strings.ReplaceAll(escalated, "13", "14"), 200, true), "approval_id")
	d.send("POST", denied+"/deny", `{"action_hash":"`+field(t, d.send("GET", denied, "", 200, true), "action_hash")+`"}`, 200, true, person)
	d.send("GET", "/v1/approvals?status=used&policy_id=e&agent_id=a&limit=1", "", 200, true)
	d.send("GET", "/v1/approvals?status=open", "", 422, false)
	d.send("GET", "/v1/approvals/apr_0", "", 404, true)

	d.send("POST", "/v1/policies", `{"policy_id":"r","name":"n","rules":[
		{"rule_id":"hour","rule_type":"budget","parameters":{"limit":10,"currency":"USD","rolling_minutes":60}}]}`, 201, true)
	for _, amount := range []string{"15", "16"} { // told of once
		d.send("POST", "/v1/checks", strings.Replace(check(amount), `"p"`, `"r"`, 1), 200, true)
	}
	d.send("POST", "/v1/policies", `{"policy_id":"absent","name":"n","description":null,"metadata":null,"redeem":null,
		"redeem_within_minutes":null,"changes":null,"note":null,"drop_budgets":null,"rules":[
		{"rule_id":"a","rule_type":"duplicate_guard","description":null,"parameters":{"window_minutes":5,"after_block":null}},
		{"rule_id":"b","rule_type":"max_amount","parameters":{"limit":1,"currency":null}},
		{"rule_id":"c","rule_type":"escalate_if","parameters":{"amount_above":1,"action_types":null,"approval":{
			"required":null,"from":[{"group":"g","required":null}],"exclude_author":null,"expires_minutes":null,"use_within_minutes":null}}},
		{"rule_id":"d","rule_type":"discount_cap","parameters":{"max_percent":1,"on_missing":null,"approval":null}},
		{"rule_id":"e","rule_type":"time_restriction","parameters":{"allowed_days":null,"allowed_hours_utc":"00:00-24:00"}},
		{"rule_id":"f","rule_type":"budget","parameters":{"limit":null,"currency":null,"max_count":1,"per":null,"window":"day","notify_at":null,
			"rolling_minutes":null,"time_zone":null,"action_types":null,"on_exceed":null,"approval":null}}]}`, 201, true)
	d.send("POST", "/v1/policies", `{"policy_id":"n","name":"n","rules":[{"rule_id":"near","rule_type":"budget",
		"parameters":{"limit":100,"currency":"USD","window":"lifetime","notify_at":[95,50]}}]}`, 201, true)
	d.send("POST", "/v1/checks", strings.Replace(check("60"), `"p"`, `"n"`, 1), 200, true)
	events := d.send("GET", "/v1/events?limit=100", "", 200, true)
	for _, want := range []string{
		`"type":"violation.recorded","timestamp":"`, `"type":"approval.requested","timestamp":"`, `"type":"approval.denied","timestamp":"`,
		`"used_by_check_id":"chk_`, `"use_by":"`, `"reference":"psp-1"`, `"decision":{"principal":"`, `"by":{"kind":"admin",`,
		`"rule_id":"ever","per":{},"currency":null,"limit":null,"used":0,"count":1,"max_count":1,"window":"lifetime","time_zone":"UTC",` +
			`"window_start":"`,
		`"data":{"policy_id":"r","rule_id":"hour","per":{},"currency":"USD","limit":10,"used":0,"count":0,"max_count":null,"window":null,` +
			`"rolling_minutes":60,"window_start":"`,
		`"data":{"policy_id":"n","rule_id":"near","percent":50,"per":{},"currency":"USD","limit":100,"used":60,"count":1,`,
		`"created":true,"key":{`, `"created":false,"key":{`, `"has_more":false}`,
	} {
		if !strings.Contains(events, want) {
			t.Errorf("no %s in %s", want, events)
		}
	}
	if n := strings.Count(events, "budget.exhausted"); n != 2 {
		t.Errorf("%d budgets are exhausted in %s", n, events)
	}
	d.send("GET", "/v1/events?after=9223372036854775807", "", 200, true)
	d.send("GET", "/v1/events?after=-1", "", 422, false)
	d.send("GET", "/v1/events?cursor=x", "", 422, true)
	d.send("GET", "/v1/events", "", 403, true, narrowKey)
	eventsKey := doAt(t, d.address, "POST", "/v1/keys", `{"name":"events","scopes":["events:read"],"policy_ids":["p","e","r"]}`, admin)
	blind := d.send("GET", "/v1/events?limit=100", "", 200, true, "X-API-Key: "+field(t, eventsKey.body, "api_key"))
	if strings.Contains(blind, `"amount"`) || strings.Contains(blind, "key.changed") || strings.Contains(blind, `"b"`) ||
		!strings.Contains(blind, `"data":{"policy_id":"p","agent_id":"a"}}`) ||
		!strings.Contains(blind, `"policy_id":"e","agent_id":"a","action":null,"rule_ids":null,`) ||
		strings.Contains(blind, `"per":{`) ||
		!strings.Contains(blind, `"rule_id":"hour","per":null,"currency":"USD","limit":10,"used":null,"count":null,"max_count":null,`) {
		t.Error(blind)
	}

	d.send("POST", "/v1/simulate", `{"policy_id":"p","actions":[`+check("10")+","+check("900")+`]}`, 200, true)
	d.send("POST", "/v1/simulate", `{"policy_id":"p","actions":[`+check("10")+`]}`, 200, true, "X-API-Key: -")
	d.send("POST", "/v1/simulate", `{"policy_id":"p","actions":[]}`, 422, false)
	d.send("POST", "/v1/simulate", `{"policy_id":"p","rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}],`+
		`"actions":[`+check("10")+`]}`, 200, true)
	d.send("POST", "/v1/simulate", `{"policy_id":"none","actions":[`+strings.ReplaceAll(check("10"), `"p"`, `"none"`)+`]}`, 404, true)

	d.webhooks(store, admin)
	session := &audit.Session{
		ID: spend.NewID(time.Now()), Begun: time.Now(), For: time.Hour, Idle: time.Hour,
		Grants: spend.Grants{Role: spend.Approver, Principal: "id:1"},
	}
	must.Do(t, store.CreateSession(t.Context(), session))
	d.send("GET", "/v1/sessions", "", 200, true, admin)
	d.send("DELETE", "/v1/sessions/"+session.ID.Text(spend.PrefixSession), "", 204, true, admin)
	d.backtests()
	d.drafts()
	d.freezes(admin)
	d.grants(admin)

	d.send("PATCH", keyPath, `{"rate_limit_rpm":1}`, 200, true, admin)
	d.send("GET", "/v1/violations", "", 429, true)
	d.send("GET", stats+"day", "", 429, true)
	d.send("GET", "/v1/sums", "", 429, true)
	d.send("POST", "/v1/checks", check("8"), 429, true)
	d.send("PATCH", keyPath, `{"active":false}`, 200, true, admin)
	d.send("GET", "/v1/policies/p", "", 401, true)

	for path, item := range d.doc.Paths.Map() {
		for method := range item.Operations() {
			if !slices.ContainsFunc([]int{200, 201, 202, 204},
				func(status int) bool { return d.done[method+" "+path+" "+http.StatusText(status)] }) {
				t.Errorf("%s %s was not tried", method, path)
			}
		}
	}
}
