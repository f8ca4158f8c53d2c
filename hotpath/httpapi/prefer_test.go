package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func TestPreferredWait(t *testing.T) {
	const none = -1
	for headers, want := range map[string]int{
		"": none, "wait": none, "wait=": none, "wait=x": none, "wait=-1": none, "await=3": none, "respond-async": none,
		"wait=0": 0, "wait=7": 7, " Wait = \"7\" ": 7, "wait=30": 30, "wait=31": 30, "wait=99999999999999999999": 30,
		"respond-async, wait=7": 7, "wait=7; strict": 7, "wait=7;x=\",\", wait=9": 7,
		`foo="a, wait=9", wait=1`: 1, `foo="\", wait=9", wait=1`: 1, `foo="a`: none,
		"respond-async\nwait=1": 1, "wait=2\nwait=1": 2,
	} {
		var lines [][]byte
		for line := range strings.SplitSeq(headers, "\n") {
			lines = append(lines, []byte(line))
		}
		got, asked := preferredWait(lines)
		if !asked {
			got = -time.Second
		}
		if want := time.Duration(want) * time.Second; got != want {
			t.Errorf("%q: %s, want %s", headers, got, want)
		}
	}
}

func TestPrefersText(t *testing.T) {
	for headers, want := range map[string]bool{
		"": false, "amounts": false, "amounts=number": false, "amounts=String": false, "amounts=strings": false, "text=string": false,
		"amounts=string": true, ` Amounts = "string"; x=1`: true, "wait=3, amounts=string": true, "wait=3\namounts=string": true,
		"amounts=number, amounts=string": false, "amounts=string, amounts=number": true,
		`x="amounts=string"`: false, `x=", amounts=string, "`: false, "\namounts=string": true,
	} {
		x := &exchange{ctx: new(fasthttp.RequestCtx)}
		for range 3 { // behind them an empty value is nil
			x.ctx.Request.Header.Add("X-Other", "1")
		}
		for line := range strings.SplitSeq(headers, "\n") {
			x.ctx.Request.Header.Add("Prefer", line)
		}
		if got := x.prefersText(); got != want {
			t.Errorf("%q: %v", headers, got)
		}
	}
}

// No reader takes strings because the one before it did.
func TestReleasedReaderTakesNumbers(t *testing.T) {
	r := &reader{textAmounts: true}
	if r.release(); r.textAmounts {
		t.Error("it takes strings")
	}
}

// With Prefer: amounts=string, amounts of actions and outcomes may be strings in a
// request and are strings in its response; without it nothing changes.
func TestAmountsAsText(t *testing.T) {
	address := serveOn(t, New(realOptions(t)))
	key := keysAt(t, address)
	full, person := key(""), key(`,"role":"approver"`)
	const applied = "amounts=string"
	prefer := "Prefer: " + applied
	f := func(method, path, body string, status int, headers ...string) answer {
		t.Helper()
		a := doAt(t, address, method, path, body, append([]string{full}, headers...)...)
		if a.status != status {
			t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, a.status, a.body, status)
		}
		return a
	}
	f("POST", "/v1/policies", `{"policy_id":"p","name":"n","rules":[
		{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":100,"approval":{}}},
		{"rule_id":"day","rule_type":"budget","parameters":{"limit":1000,"currency":"USD","window":"day"}}]}`, 201, prefer)
	check := func(amount string) string {
		return `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":` + amount +
			`,"currency":"usd","counterparty":"c","idempotency_key":"k"}`
	}

	for _, amount := range []string{
		`""`, `" 1"`, `"1 "`, `"+1"`, `"01"`, `"1."`, `".5"`, `"1,5"`, `"-1"`, `"0x1"`, `"NaN"`, `"1e19"`, `"0.1234567891"`, `true`, `["1"]`,
		`null`,
	} {
		if a := f("POST", "/v1/checks", check(amount), 422, prefer); a.header.Get("Preference-Applied") != "" ||
			strings.Count(a.body, "amount ") != 1 {
			t.Errorf("%s: %v %s", amount, a.header, a.body)
		}
	}
	f("POST", "/v1/checks", check(`"10.50"`), 422)
	f("POST", "/v1/checks", check(`"10.50"`), 422, "Prefer: amounts=number")
	first := f("POST", "/v1/checks", check(`"10.50"`), 200, prefer)
	for amount, headers := range map[string][]string{`"1.05\u0065+1"`: {prefer}, `10.5`: {prefer}, `1050e-2`: nil} {
		again := f("POST", "/v1/checks", check(amount), 200, headers...)
		if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" ||
			(again.header.Get("Preference-Applied") == applied) != (headers != nil) {
			t.Errorf("%s: %v %s", amount, again.header, again.body)
		}
	}
	f("POST", "/v1/checks", check(`"11"`), 422, prefer)
	f("POST", "/v1/simulate", `{"policy_id":"p","actions":[`+check(`"3"`)+`]}`, 200, prefer)
	f("POST", "/v1/simulate", `{"policy_id":"p","actions":[`+check(`"3"`)+`]}`, 422)

	asked := f("POST", "/v1/checks", strings.Replace(check(`"700.10"`), `"k"`, `"ask"`, 1), 200, prefer)
	checkPath, approval := "/v1/checks/"+field(t, first.body, "check_id"), "/v1/approvals/"+field(t, asked.body, "approval_id")
	f("POST", checkPath+"/outcome", `{"status":"executed","amount":"9.50"}`, 422)
	hash := field(t, f("GET", approval, "", 200).body, "action_hash")
	for _, r := range []struct {
		method, path, body string
		status             int
		amount             string
	}{
		{"POST", checkPath + "/outcome", `{"status":"executed","amount":"9.50"}`, 201, "9.5"},
		{"GET", checkPath + "/outcome", "", 200, "9.5"},
		{"GET", checkPath, "", 200, ""},
		{"GET", "/v1/checks", "", 200, "9.5"},
		{"GET", "/v1/checks", "", 200, "10.5"},
		{"GET", "/v1/violations", "", 200, "700.1"},
		{"GET", "/v1/approvals", "", 200, "700.1"},
		{"GET", approval, "", 200, "700.1"},
		{"POST", approval + "/approve", `{"action_hash":"` + hash + `"}`, 200, "700.1"},
		{"POST", approval + "/deny", `{"action_hash":"` + hash + `"}`, 200, "700.1"},
		{"GET", "/v1/events", "", 200, "9.5"},
		{"GET", "/v1/events", "", 200, "700.1"},
	} {
		who := full
		if strings.HasPrefix(r.path, approval+"/") {
			who = person
		}
		a := f(r.method, r.path, r.body, r.status, prefer, who)
		if a.header.Get("Preference-Applied") != applied || r.amount != "" && !strings.Contains(a.body, `"amount":"`+r.amount+`"`) ||
			strings.Contains(strings.ReplaceAll(a.body, `"amount":"`, ""), `"amount":`) {
			t.Errorf("%s %s: %v %s", r.method, r.path, a.header, a.body)
		}
		if r.method == "GET" {
			a := f(r.method, r.path, r.body, r.status, who)
			if a.header.Get("Preference-Applied") != "" || r.amount != "" && !strings.Contains(a.body, `"amount":`+r.amount+`,`) ||
				strings.Contains(a.body, `"amount":"`) {
				t.Errorf("%s %s without: %v %s", r.method, r.path, a.header, a.body)
			}
		}
	}
	// Budgets and rules have no amounts of actions.
	if a := f("GET", "/v1/budgets?policy_id=p", "", 200, prefer); a.header.Get("Preference-Applied") != "" ||
		!strings.Contains(a.body, `"limit":1000,"used":10.5,`) {
		t.Errorf("%v %s", a.header, a.body)
	}
	if a := f("GET", approval, "", 200, "Prefer: amounts=string, wait=1"); a.header.Get("Preference-Applied") != "wait=1, amounts=string" {
		t.Errorf("%v", a.header)
	}
}
