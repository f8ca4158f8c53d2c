package httpapi

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"spendgate/hotpath/backtest/job"
)

// backtests tries the backtests of policy p, which nobody runs.
func (d *described) backtests() {
	const ask = `{"policy_id":"p","version":1,"from":"2026-01-01","to":"2026-01-02","state":"recorded"}`
	made := d.send("POST", "/v1/backtests", ask, 202, true)
	path := "/v1/backtests/" + field(d.t, made, "backtest_id")
	for _, wrong := range []string{
		`{"policy_id":"p","version":1,"from":"2026-01-02"}`, `{"policy_id":"p","version":0,"from":"2026-01-02","to":"2026-01-02"}`,
		`{"policy_id":"p","rules":[],"from":"2026-01-02","to":"2026-01-02"}`, strings.Replace(ask, "recorded", "other", 1),
	} {
		d.send("POST", "/v1/backtests", wrong, 422, false)
	}
	d.send("POST", "/v1/backtests", strings.Replace(ask, "2026-01-02", "2025-01-02", 1), 422, true)
	without := d.send("POST", "/v1/backtests", strings.Replace(ask, `"version":1,`, "", 1), 422, true)
	ill := d.send("POST", "/v1/backtests", strings.Replace(ask, `"version":1`, `"version":"new"`, 1), 422, false)
	for answer, want := range map[string]string{without: "rules or version is required", ill: "version must be an integer"} {
		if got := field(d.t, answer, "error", "message"); !strings.HasPrefix(got, want) || strings.Contains(got, ";") {
			d.t.Errorf("%s, want %s", got, want)
		}
	}
	d.send("POST", "/v1/backtests", strings.Replace(ask, "2026-01-01", "1969-12-31", 1), 422, true)
	d.send("POST", "/v1/backtests", strings.Replace(ask, `"version":1`, `"version":99`, 1), 404, true)
	d.send("GET", "/v1/backtests?policy_id=p&status=queued", "", 200, true)
	d.send("GET", "/v1/backtests?status=none", "", 422, false)
	d.send("GET", path, "", 200, true)
	d.send("GET", path+"/flips", "", 200, true)
	d.send("POST", path+"/cancel", "", 200, true)
	d.send("GET", "/v1/backtests/bt_00000000000000000000000000000000", "", 404, true)
}

// TestBacktest: the live version gives no flip over the checks that it judged, a tighter one names
// each of them, and the same candidate gives the same bytes. A key bound to agents is refused, and
// a key without checks:read is shown no actions.
func TestBacktest(t *testing.T) {
	options := realOptions(t)
	address := serveOn(t, New(options))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		job.New(job.Options{Store: options.Store.(job.Store), Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	defer func() { stop(); <-ended }()
	key := keysAt(t, address)
	full := key("")
	rules := func(limit, day string) string {
		return `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":` + limit + `}},` +
			`{"rule_id":"day","rule_type":"budget","parameters":{"limit":` + day + `,"currency":"USD","window":"day","per":["agent_id"]}}]`
	}
	doAt(t, address, "POST", "/v1/policies", `{"policy_id":"p","name":"n","rules":`+rules("100", "150")+`}`, full)
	from := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	var ids []string
	for _, amount := range []string{"30", "30", "60", "200", "70", "60", "20"} { // allow, duplicate, allow, cap, exceeded, duplicate, allow
		answer := doAt(t, address, "POST", "/v1/checks", `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":`+amount+
			`,"currency":"USD","counterparty":"c"}`, full)
		ids = append(ids, field(t, answer.body, "check_id"))
	}
	run := func(candidate string) (path, body string) {
		t.Helper()
		made := doAt(t, address, "POST", "/v1/backtests", `{"policy_id":"p",`+candidate+`,"from":"`+from+`","to":"2099-01-01"}`, full)
		path = "/v1/backtests/" + field(t, made.body, "backtest_id")
		for range 200 {
			if body = doAt(t, address, "GET", path, "", full).body; field(t, body, "status") == "succeeded" {
				return path, body
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal(body)
		return "", ""
	}
	report := func(body string) string { _, text, _ := strings.Cut(body, `"report":`); return text }
	_, same := run(`"version":1`)
	if !strings.Contains(same, `"checks":7,"compared":7,"skipped":[]`) || !strings.Contains(same, `"flips":{"total":0,`) {
		t.Errorf("its own version: %s", same)
	}
	tighter := `"rules":` + rules("50", "150")
	path, one := run(tighter)
	if _, again := run(tighter); report(one) != report(again) {
		t.Errorf("the same candidate: %s\n%s", one, again)
	}
	// 60 is blocked by the cap, and then 70 by it too, which was blocked anyway.
	if !strings.Contains(one, `"flips":{"total":1,"stricter":1,"looser":0,"to_allow":0,"listed":1}`) {
		t.Errorf("a tighter one: %s", one)
	}
	flips := doAt(t, address, "GET", path+"/flips", "", full).body
	if !strings.Contains(flips, ids[2]) || !strings.Contains(flips, `"rule_id":"cap"`) || !strings.Contains(flips, `"amount":60`) {
		t.Errorf("flips: %s", flips)
	}
	text := doAt(t, address, "GET", path+"/flips", "", full, "Prefer: amounts=string")
	if text.header.Get("Preference-Applied") != "amounts=string" || text.body != strings.ReplaceAll(flips, `"amount":60`, `"amount":"60"`) {
		t.Errorf("amounts as strings: %v %s", text.header, text.body)
	}
	draft := `{"name":"n",` + tighter + `}`
	doAt(t, address, "PUT", "/v1/policies/p/draft", draft, full)
	doAt(t, address, "POST", "/v1/checks",
		`{"agent_id":"b","policy_id":"p","action_type":"refund","amount":55,"currency":"USD","counterparty":"d"}`, full)
	of := func(headers ...string) (last answer) {
		t.Helper()
		for range 200 {
			if last = doAt(t, address, "GET", "/v1/policies/p/draft/report", "", append(headers, full)...); last.status == 200 {
				return last
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal(last)
		return last
	}
	if known := of().body; !strings.Contains(known, `"checks":1,"compared":1,"skipped":[]`) || !strings.Contains(known, `"amount":55,`) ||
		!strings.Contains(known, `"rule_id":"cap","reason_code":"max_amount_exceeded","policy_version":null}`) {
		t.Errorf("the report of a draft: %s", known)
	}
	if known := of("Prefer: amounts=string").body; !strings.Contains(known, `"amount":"55",`) {
		t.Errorf("amounts as strings: %s", known)
	}
	doAt(t, address, "DELETE", "/v1/policies/p/draft", "", full)
	blind := doAt(t, address, "GET", path+"/flips", "", key(`,"scopes":["backtests:write"]`)).body
	if !strings.Contains(blind, ids[2]) || !strings.Contains(blind, `"action":null`) || strings.Contains(blind, `"amount"`) {
		t.Errorf("flips without checks:read: %s", blind)
	}
	if got := doAt(t, address, "GET", path, "", key(`,"agent_ids":["a"]`)).status; got != 403 {
		t.Errorf("bound to an agent: %d", got)
	}
	if strings.Count(flips, `"policy_version":1}`) != 1 || strings.Count(flips, `"policy_version":null}`) != 1 {
		t.Errorf("rules that are no version: %s", flips)
	}
	doAt(t, address, "POST", "/v1/policies", `{"policy_id":"p","name":"n",`+tighter+`}`, full)
	path, _ = run(`"version":2`)
	if flips = doAt(t, address, "GET", path+"/flips", "", full).
		body; !strings.Contains(flips, `"reason_code":"max_amount_exceeded","policy_version":2}`) {
		t.Errorf("a version: %s", flips)
	}
	_, looser := run(`"rules":` + rules("1000", "1000"))
	if !strings.Contains(looser, `"looser":2,"to_allow":2`) {
		t.Errorf("a looser one: %s", looser)
	}
}

// A backtest is canceled by the principal that began it, with any of its keys, or by an admin; others who may run
// backtests of the policy read it.
func TestCancelBacktest(t *testing.T) {
	address := serveOn(t, New(realOptions(t)))
	const admin = "X-Admin-Key: " + adminKey
	key := keysAt(t, address)
	author, rotated, plain := key(`,"principal":"ann"`), key(`,"principal":"Ann","role":"author"`), key("")
	other, elsewhere := key(`,"principal":"bob","role":"author"`), key(`,"principal":"ann","policy_ids":["elsewhere"]`)
	doAt(t, address, "POST", "/v1/policies", `{"policy_id":"p","name":"n","rules":`+
		`[{"rule_id":"r","rule_type":"max_amount","parameters":{"limit":5}}]}`, author)
	for _, c := range []struct {
		name, begun string
		caller      []string
		status      int
	}{
		{"another principal", author, []string{other}, 403},
		{"another plain key", author, []string{plain}, 403},
		{"another of a plain key", plain, []string{key("")}, 403},
		{"a key that does not see the policy", author, []string{elsewhere}, 404},
		{"the principal's other key", author, []string{rotated}, 200},
		{"the key", plain, []string{plain}, 200},
		{"an admin", author, []string{admin, "X-API-Key: -"}, 200},
		{"an admin with another's key", author, []string{other, admin}, 200},
		{"a wrong admin key", author, []string{"X-Admin-Key: wrong", "X-API-Key: -"}, 401},
		{"another with a wrong admin key", author, []string{other, "X-Admin-Key: wrong"}, 403},
	} {
		path := "/v1/backtests/" + field(t, doAt(t, address, "POST", "/v1/backtests",
			`{"policy_id":"p","version":1,"from":"2026-01-01","to":"2026-01-02"}`, c.begun).body, "backtest_id")
		a := doAt(t, address, "POST", path+"/cancel", "", c.caller...)
		state := field(t, doAt(t, address, "GET", path, "", other).body, "status")
		if a.status != c.status || (state == "canceled") != (c.status == 200) {
			t.Errorf("%s: %d %s, and it is %s", c.name, a.status, a.body, state)
		}
	}
}

// Rules are tried before they are stored by who may store them: by the recorded fingerprints and by the
// counters of budgets that go on, also where there is no such policy yet (S23).
func TestSimulateRules(t *testing.T) {
	address := serveOn(t, New(realOptions(t)))
	key := keysAt(t, address)
	full := key("")
	const day = `{"rule_id":"day","rule_type":"budget","parameters":{"limit":100,"currency":"USD","window":"day"}}`
	action := func(policyID, amount string) string {
		return `{"agent_id":"a","policy_id":"` + policyID + `","action_type":"refund","amount":` + amount +
			`,"currency":"USD","counterparty":"c"}`
	}
	doAt(t, address, "POST", "/v1/policies", `{"policy_id":"p","name":"n","rules":[`+day+`]}`, full)
	doAt(t, address, "POST", "/v1/checks", action("p", "60"), full)
	lower := strings.Replace(day, `"limit":100`, `"limit":70`, 1)
	for _, c := range []struct {
		name, policyID, rules, amount, key string
		status                             int
		want                               string
	}{
		{"the budget goes on", "p", day, "50", full, 200, `"reason_code":"budget_exceeded"`},
		{"with another limit", "p", lower, "20", full, 200, `"reason_code":"budget_exceeded"`},
		{"another budget", "p", strings.Replace(lower, `"day","rule_type`, `"other","rule_type`, 1), "20", full, 200, `"decision":"allow"`},
		{"what was recorded", "p", day, "60", full, 200, `"reason_code":"duplicate_action_detected"`},
		{"the next version", "p", day, "30", full, 200, `"policy_version":2,`},
		{"a new policy", "new", day, "101", full, 200, `"policy_version":1,`},
		{"faults of both", "p", strings.Replace(day, "100", "-1", 1), `"x"`, full, 422, `actions[0].amount must be a number`},
		{"faults of rules", "p", strings.Replace(day, "100", "-1", 1), `"x"`, full, 422, `rules[0].parameters.limit`},
		{"no rules", "p", ``, "1", full, 422, `rules`},
		{"who may not write policies", "p", day, "1", key(`,"scopes":["policies:read"]`), 403, `policies:write`},
		{"for another policy", "p", day, "1", key(`,"policy_ids":["q"]`), 403, `policy_id`},
		{"for another agent", "p", day, "1", key(`,"agent_ids":["b"]`), 403, `agent_id`},
		{"a stranger", "p", day, "1", "X-Nothing: -", 401, `unauthorized`},
	} {
		got := doAt(t, address, "POST", "/v1/simulate", `{"policy_id":"`+c.policyID+`","rules":[`+c.rules+`],"actions":[`+
			action(c.policyID, c.amount)+`]}`, c.key)
		if got.status != c.status || !strings.Contains(got.body, c.want) {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
	}
	if got := doAt(t, address, "GET", "/v1/policies", "", full).body; !strings.Contains(got, `"total_count":1`) {
		t.Errorf("stored: %s", got)
	}
}
