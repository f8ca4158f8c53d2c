package httpapi

import (
	"math"
	"strings"
	"testing"
)

// drafts sends every kind of request about drafts.
func (d *described) drafts() {
	d.t.Helper()
	const (
		path  = "/v1/policies/d/draft"
		rules = `"name":"n","rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":%}}]`
		check = `{"agent_id":"a","policy_id":"d","action_type":"refund","amount":20,"currency":"USD","counterparty":"c%"}`
	)
	with := func(text, value string) string { return strings.ReplaceAll(text, "%", value) }
	refused := func(method, path, body string, status int, code string, fits bool, headers ...string) {
		d.t.Helper()
		if got := field(d.t, d.send(method, path, body, status, fits, headers...), "error", "code"); got != code {
			d.t.Errorf("%s %s is refused as %s, want %s", method, path, got, code)
		}
	}
	draft := `{` + with(rules, "10") + `,"note":"tighter"}`
	refused("PUT", path, draft, 404, "policy_not_found", true)
	d.send("POST", "/v1/policies", `{"policy_id":"d",`+with(rules, "100")+`}`, 201, true)
	refused("GET", path, "", 404, "draft_not_found", true)
	refused("GET", path+"/report", "", 404, "draft_not_found", true)
	refused("DELETE", path, "", 404, "draft_not_found", true)
	refused("POST", path+"/promote", "", 404, "draft_not_found", false, "If-Match: 1")
	refused("PUT", path, `{"policy_id":"d",`+draft[1:], 422, "validation_error", false)
	refused("PUT", path, `{"drop_budgets":[],`+draft[1:], 422, "validation_error", false)
	made := d.send("PUT", path, draft, 200, true)
	if read := d.send("GET", path, "", 200, true); read != made || !strings.Contains(read, `,"base_version":1,"name":"n","rules":[`) ||
		!strings.HasSuffix(read, `,"note":"tighter"}`) {
		d.t.Error(made, read)
	}
	if again := d.send("PUT", path, draft, 200, true); again != made {
		d.t.Errorf("the same again is another draft: %s", again)
	}

	// A draft judges no check.
	if answer := d.send("POST", "/v1/checks", with(check, "1"), 200, true); strings.Contains(answer, "cap") {
		d.t.Errorf("with a draft a check is answered %s", answer)
	}
	if report := d.send("GET", path+"/report", "", 202, true); !strings.Contains(report, `"status":"queued"`) ||
		!strings.HasSuffix(report, `"report":null,"flips":[]}`) {
		d.t.Errorf("before a report is known: %s", report)
	}

	refused("POST", path+"/promote", "", 428, "if_match_required", false)
	refused("POST", path+"/promote", "", 428, "if_match_required", false, "If-Match: ")
	refused("POST", path+"/promote", "", 422, "validation_error", false, "If-Match: 01")
	refused("POST", path+"/promote", "", 422, "validation_error", false, `If-Match: "x"`)
	refused("POST", path+"/promote", "", 422, "validation_error", false, `If-Match: *`)
	for _, other := range []string{`"2"`, "0", "4294967296", "99999999999999999999"} {
		refused("POST", path+"/promote", "", 409, "policy_version_mismatch", false, "If-Match: "+other)
	}
	for _, hash := range []string{"00", strings.Repeat("0", 64)} { // the hash of an earlier draft, and of none
		refused("POST", path+"/promote", `{"draft_hash":"`+hash+`"}`, 409, "draft_hash_mismatch", false, "If-Match: 1")
		refused("POST", path+"/promote", `{"draft_hash":"`+hash+`"}`, 409, "policy_version_mismatch", false, "If-Match: 2")
		refused("POST", path+"/promote", `{"draft_hash":"`+hash+`"}`, 409, "policy_version_mismatch", false, "If-Match: 0")
	}
	refused("POST", path+"/promote", `{"drop_budgets":["none"]}`, 422, "validation_error", false, `If-Match: "1"`)
	if promoted := d.send("POST", path+"/promote", `{"note":"as tried","draft_hash":"`+field(d.t, made, "draft_hash")+`"}`, 201, false,
		`If-Match: "1"`); !strings.Contains(promoted,
		`"version":2,"rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":10}}]`) {
		d.t.Error(promoted)
	}
	refused("POST", path+"/promote", "", 404, "draft_not_found", false, "If-Match: 2")
	refused("POST", path+"/promote", "", 409, "policy_version_mismatch", false, "If-Match: 0")
	if versions := d.send("GET", "/v1/policies/d/versions", "", 200, true); !strings.Contains(versions, `"note":"as tried"`) {
		d.t.Error(versions)
	}
	d.send("POST", "/v1/policies", `{"policy_id":"d","changes":{},`+with(rules, "10")+`}`, 201, true)
	approver := "X-API-Key: " + field(d.t, d.send("POST", "/v1/keys", `{"name":"n","role":"approver"}`, 201, true, "X-Admin-Key: "+adminKey),
		"api_key")
	decision := `{"draft_hash":"` + field(d.t, d.send("PUT", path, draft, 200, true), "draft_hash") + `"}`
	d.send("POST", path+"/approve", decision, 200, true, approver)
	d.send("POST", path+"/reject", decision, 200, true, approver)
	d.send("DELETE", path, "", 204, true)
	refused("GET", path, "", 404, "draft_not_found", true)
}

// TestIfMatch: one version, bare or quoted.
func TestIfMatch(t *testing.T) {
	for text, want := range map[string]int{
		"3": 3, `"3"`: 3, " 12 ": 12, `"3`: 0, `3"`: 0, `W/"3"`: 0, "*": 0, "": 0, "01": 0, "-1": 0, "1,2": 0,
		"99999999999": math.MaxInt32, // which no version has
	} {
		if got, ok := ifMatch([][]byte{[]byte(text)}); got != want && ok || ok != (want > 0) {
			t.Errorf("%q is version %d, %t", text, got, ok)
		}
	}
	if got, ok := ifMatch([][]byte{[]byte("0")}); got != 0 || !ok {
		t.Errorf("0, which no version has either, is %d, %t", got, ok)
	}
	if _, ok := ifMatch([][]byte{[]byte("1"), []byte("1")}); ok {
		t.Error("two headers are one")
	}
}
