package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"spendgate/hotpath"
)

// freezes is the part of the story about freezes.
func (d *described) freezes(admin string) {
	d.t.Helper()
	d.send("POST", "/v1/freezes", `{"scope":{"agent_id":"a","principal":"p"},"reason":"r"}`, 422, false)
	d.send("POST", "/v1/freezes", `{"scope":{"policy_id":"none"},"reason":"r"}`, 404, true)
	made := d.send("POST", "/v1/freezes", `{"scope":{"policy_id":"p"},"reason":"r","until":"2100-01-01T00:00:00Z"}`, 201, true)
	path := "/v1/freezes/" + field(d.t, made, "freeze_id")
	d.send("GET", path, "", 200, true)
	d.send("GET", "/v1/freezes?active=true&policy_id=p&limit=1", "", 200, true)
	d.send("GET", "/v1/freezes?all=false", "", 422, false)
	d.send("POST", path+"/release", `{"note":"n"}`, 403, true)
	d.send("POST", path+"/release", `{"note":"n"}`, 200, true, admin, "X-API-Key: -")
}

// releasesCount: a release counts only as long as a decision would (S92).
func (d *described) releasesCount(admin, reader string) {
	const scopes = `"scopes":["freezes:read","freezes:release"]`
	var path string
	missing := func(what string, want int) {
		d.t.Helper()
		if got := d.send("GET", path, "", 200, true, reader); !strings.Contains(got, fmt.Sprintf(`"missing":%d`, want)) {
			d.t.Errorf("%s: %s, want %d missing", what, got, want)
		}
	}
	key := func(principal string) (header, path string) {
		made := d.send("POST", "/v1/keys", `{"name":"n","rate_limit_rpm":1000,"principal":"`+principal+`",`+scopes+`}`, 201, true, admin)
		return "X-API-Key: " + field(d.t, made, "api_key"), "/v1/keys/" + field(d.t, made, "key_id")
	}
	for what, c := range map[string]struct {
		change, mend string
		lost, mended int // how many are missing then
	}{
		"deactivated":  {`{"active":false,"keep_open":true}`, `{"active":true}`, 2, 2},
		"no scope":     {`{"scopes":["freezes:read"]}`, `{` + scopes + `}`, 2, 2},
		"bound":        {`{"policy_ids":["p"]}`, `{"policy_ids":null}`, 2, 2},
		"the frozen":   {`{"owner":"Bot"}`, `{"owner":null}`, 2, 1},
		"renamed":      {`{"name":"m"}`, `{"principal":"dora 2"}`, 1, 1},
		"somebody now": {`{"principal":"emil"}`, `{"principal":"dora"}`, 1, 1},
	} {
		dora, keyPath := key("dora")
		emil, _ := key("emil")
		second := d.send("POST", "/v1/freezes", `{"scope":{"principal":"bot"},"reason":"r"}`, 201, true, admin, "X-API-Key: -")
		path = "/v1/freezes/" + field(d.t, second, "freeze_id")
		d.send("POST", path+"/release", `{"note":"n"}`, 200, true, dora)
		missing("released by one", 1)
		d.send("PATCH", keyPath, c.change, 200, true, admin)
		missing(what, c.lost)
		if c.lost > c.mended || what == "somebody now" { // then emil's does not complete it
			d.send("POST", path+"/release", `{"note":"n"}`, 200, true, emil)
			missing(what+", and another", 1)
		}
		d.send("PATCH", keyPath, c.mend, 200, true, admin)
		missing(what+", and mended", c.mended)
		d.send("POST", path+"/release", `{"note":"n"}`, 200, true, emil)
		if c.mended > 1 {
			missing(what+", mended, and another", 1)
			d.send("POST", path+"/release", `{"note":"n"}`, 200, true, dora)
		}
		if got := d.send("GET", path, "", 200, true, reader); !strings.Contains(got, `"status":"released"`) {
			d.t.Errorf("%s, released by two who count: %s", what, got)
		}
	}
}

// TestFreezes: who freezes, reads and releases what, and what a freeze stops; every answer fits the document (S87).
func TestFreezes(t *testing.T) {
	d := describe(t)
	d.address = serveOn(t, New(realOptions(t, func(c *hotpath.Components) { c.ReleasesRequired = 2 })))
	admin, keyless := "X-Admin-Key: "+adminKey, "X-API-Key: -"
	key := keysAt(t, d.address)
	refused := func(method, path, body string, status int, code string, headers ...string) string {
		t.Helper()
		got := d.send(method, path, body, status, status != 422, headers...)
		if field(t, got, "error", "code") != code {
			t.Errorf("%s %s: %s, want %s", method, path, got, code)
		}
		return got
	}
	agent, full := key(`,"role":"agent","principal":"bot"`), key(`,"principal":"ops"`)
	d.send("POST", "/v1/policies", strings.Replace(simplePolicy, "p:1", "p", 1), 201, true, full)
	check := func(counterparty string) string {
		return strings.NewReplacer(`"counterparty":"c"`, `"counterparty":"`+counterparty+`"`, `:7,`, `:5,`).Replace(matrixCheck)
	}
	freeze := func(scope, headers string, more ...string) string {
		t.Helper()
		return d.send("POST", "/v1/freezes", `{"scope":`+scope+`,"reason":"it loops"`+strings.Join(more, "")+`}`, 201, true, headers)
	}
	for _, bad := range []string{
		`{}`, `{"scope":{"all":true}}`, `{"scope":{"all":false},"reason":"r"}`, `{"scope":{},"reason":"r"}`, `{"scope":"all","reason":"r"}`,
		`{"scope":{"agent_id":""},"reason":"r"}`, `{"scope":{"x":"y"},"reason":"r"}`, `{"scope":{"all":true},"reason":" "}`,
		`{"scope":{"all":true},"reason":"` + strings.Repeat("r", 4097) + `"}`,
	} {
		refused("POST", "/v1/freezes", bad, 422, "validation_error", admin, keyless)
	}

	for _, bad := range []string{
		`{"scope":{"all":true},"reason":"r","until":"2020-01-01T00:00:00Z"}`,
		`{"scope":{"agent_id":"bot\u200b"},"reason":"r"}`, `{"scope":{"counterparty":" c"},"reason":"r"}`, // no action has it (S4)
	} {
		doAt(t, d.address, "POST", "/v1/freezes", bad, admin, keyless).is(t, bad, 422)
	}

	// An agent freezes itself, once.
	refused("POST", "/v1/freezes", `{"scope":{"principal":"ops"},"reason":"r"}`, 403, "forbidden", agent)
	refused("POST", "/v1/freezes", `{"scope":{"agent_id":"a"},"reason":"r"}`, 403, "forbidden", agent)
	own := field(t, freeze(`{"principal":"BOT"}`, agent), "freeze_id")
	refused("POST", "/v1/freezes", `{"scope":{"principal":"bot"},"reason":"again"}`, 409, "too_many_freezes", agent)
	got := d.send("POST", "/v1/checks", check("c"), 200, true, agent)
	if field(t, got, "reason_code") != "frozen" || field(t, got, "violated_rule_id") != "freeze" || strings.Contains(got, own) {
		t.Errorf("the agent: %s", got)
	}
	ann, bob, ann2 := key(`,"role":"approver","principal":"ann"`), key(`,"role":"approver","principal":"bob"`),
		key(`,"role":"approver","principal":"ANN"`)
	bots := key(`,"role":"approver","principal":"x","owner":"bot"`)
	release := "/v1/freezes/" + own + "/release"
	refused("POST", release, `{"note":" "}`, 422, "validation_error", ann)
	refused("POST", release, `{"note":"n"}`, 403, "forbidden", full)
	refused("POST", release, `{"note":"n"}`, 409, "freeze_own", bots)
	refused("POST", "/v1/freezes/frz_00000000000000000000000000000000/release", `{"note":"n"}`, 404, "freeze_not_found", ann)
	if got = d.send("POST", release, `{"note":"seen"}`, 200, true, ann); !strings.Contains(got, `"required":2,"missing":1`) {
		t.Errorf("released by one: %s", got)
	}
	d.send("POST", release, `{"note":"seen"}`, 200, true, ann2) // the same person
	d.releasesCount(admin, ann)
	if got = d.send("GET", "/v1/freezes/"+own, "", 200, true, bob); !strings.Contains(got, `"status":"active"`) ||
		strings.Count(got, `"note":`) != 1 {
		t.Errorf("by two keys of one person: %s", got)
	}
	if got = d.send("POST", release, `{"note":"seen"}`, 200, true, bob); !strings.Contains(got, `"status":"released"`) {
		t.Errorf("released by two: %s", got)
	}
	refused("POST", release, `{"note":"n"}`, 409, "freeze_not_active", admin, keyless)
	if got = d.send("POST", "/v1/checks", check("c"), 200, true, agent); field(t, got, "decision") != "allow" {
		t.Errorf("after the release: %s", got)
	}

	// Bindings, idempotency keys, and a time.
	bound := key(`,"role":"approver","principal":"cleo","policy_ids":["p"]`)
	refused("POST", "/v1/freezes", `{"scope":{"all":true},"reason":"r"}`, 403, "forbidden", bound)
	refused("POST", "/v1/freezes", `{"scope":{"policy_id":"q"},"reason":"r"}`, 403, "forbidden", bound)
	all := d.send("POST", "/v1/freezes", `{"scope":{"all":true},"reason":"drill"}`, 201, true, admin, keyless, "Idempotency-Key: drill-1")
	again := d.send("POST", "/v1/freezes", `{"scope":{"all":true},"reason":"drill"}`, 200, true, admin, keyless, "Idempotency-Key: drill-1")
	if field(t, all, "freeze_id") != field(t, again, "freeze_id") || !strings.Contains(all, `"reaches":{"checks":2,"principals":1}`) {
		t.Errorf("all: %s, again: %s", all, again)
	}
	doAt(t, d.address, "POST", "/v1/freezes", `{"scope":{"all":true},"reason":"other"}`, admin, keyless,
		"Idempotency-Key: drill-1").is(t, "another freeze under the same key", 422)
	path := "/v1/freezes/" + field(t, all, "freeze_id")
	d.send("GET", path, "", 200, true, bound) // it stops that key, too
	refused("POST", path+"/release", `{"note":"n"}`, 403, "forbidden", bound)
	if got = d.send("POST", "/v1/checks", check("d"), 200, true, full); !strings.Contains(got, field(t, all, "freeze_id")+": drill") {
		t.Errorf("who may read it: %s", got)
	}
	d.send("POST", path+"/release", `{"note":"over"}`, 200, true, admin, keyless)
	d.send("POST", path+"/release", `{"note":"over"}`, 200, true, admin, keyless)
	until := time.Now().Add(1500 * time.Millisecond).UTC().Format(time.RFC3339Nano)
	soon := field(t, freeze(`{"counterparty":"d"}`, full, `,"until":"`, until, `"`), "freeze_id")
	if got = d.send("POST", "/v1/checks", check("d"), 200, true, full); field(t, got, "reason_code") != "frozen" {
		t.Errorf("its time is not over: %s", got)
	}
	time.Sleep(1600 * time.Millisecond)
	if got = d.send("POST", "/v1/checks", check("d"), 200, true, full); field(t, got, "decision") != "allow" {
		t.Errorf("its time is over: %s", got)
	}
	if got = d.send("GET", "/v1/freezes/"+soon, "", 200, true, full); field(t, got, "status") != "over" {
		t.Error(got)
	}

	// Their rate limit is their own, and refusals count.
	noisy := key(`,"role":"auditor","principal":"noisy"`)
	for i := range 12 {
		want := http.StatusForbidden
		if i >= 10 {
			want = http.StatusTooManyRequests
		}
		d.send("POST", "/v1/freezes", fmt.Sprintf(`{"scope":{"agent_id":"%d"},"reason":"r"}`, i), want, true, noisy)
	}
	d.send("GET", "/v1/freezes", "", 200, true, noisy)
}
