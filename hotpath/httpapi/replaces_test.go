package httpapi

import (
	"strings"
	"testing"
)

// TestPolicyReplaces: with If-Match a version is stored only over the one that it names, and
// nothing is stored else; without it a version is always stored (S54).
func TestPolicyReplaces(t *testing.T) {
	d := describe(t)
	d.address = serveOn(t, New(realOptions(t)))
	key := keysAt(t, d.address)
	ann, bound := key(`,"principal":"ann"`), key(`,"policy_ids":["other"]`)
	const rest = `"name":"n","rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}]}`
	const body = `{"policy_id":"r",` + rest
	post := func(body string, status int, headers ...string) string {
		t.Helper()
		return d.send("POST", "/v1/policies", body, status, true, append([]string{ann}, headers...)...)
	}
	refused := func(says string, headers ...string) {
		t.Helper()
		got := post(body, 409, headers...)
		if message := field(t, got, "error", "message"); field(t, got, "error", "code") != "policy_version_mismatch" ||
			!strings.HasPrefix(message, says) {
			t.Errorf("%q: %s, want that %s", headers, got, says)
		}
	}
	made := func(version, body string, headers ...string) {
		t.Helper()
		if got := post(body, 201, headers...); !strings.Contains(got, `"version":`+version+`,`) {
			t.Errorf("%q: %s, want version %s", headers, got, version)
		}
	}
	refused("the policy has no version yet", "If-Match: 1")
	made("1", body, "If-Match: 0")
	refused("version 1 is in force, ", "If-Match: 0") // as the first maker of two hears
	made("2", body, `If-Match: "1"`)
	made("3", body, "If-None-Match: *") // which says nothing here
	for _, stale := range []string{"2", "1", `"0"`, "4", "4294967296", "99999999999999999999"} {
		refused("version 3 is in force, ", "If-Match: "+stale)
	}
	for _, bad := range []string{"", "*", "01", `W/"3"`, `"3`, "3, 4", "x"} {
		got := post(body, 422, "If-Match: "+bad)
		if message := field(t, got, "error", "message"); message != "If-Match must be one version, bare or quoted: 3" {
			t.Errorf("If-Match: %s: %s", bad, message)
		}
	}
	got := d.send("POST", "/v1/policies", `{"policy_id":"r","nope":1,`+rest, 422, false, ann, "If-Match: x")
	if message := field(t, got, "error", "message"); !strings.Contains(message, "nope") || !strings.Contains(message, "If-Match") {
		t.Errorf("faults of both are not named: %s", message)
	}
	// A key for other policies hears nothing of this one.
	if got := d.send("POST", "/v1/policies", body, 403, true, bound, "If-Match: 1"); strings.Contains(got, "version") {
		t.Error(got)
	}
	made("1", `{`+rest, "If-Match: 0") // of a policy_id that is generated
	post(`{`+rest, 409, "If-Match: 3")
	made("4", body, "If-Match: 3")
	made("5", body)
	// A refused version is nowhere on record.
	if versions := d.send("GET", "/v1/policies/r/versions", "", 200, true, ann); !strings.Contains(versions, `"total_count":5`) {
		t.Error(versions)
	}
}
