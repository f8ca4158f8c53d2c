package httpapi

import (
	"strings"
	"time"
)

const grantedPolicy = `{"policy_id":"g","name":"n","rules":[{"rule_id":"daily","rule_type":"budget","parameters":
	{"limit":100,"max_count":50,"currency":"USD","per":["agent_id"],"window":"day"}}]%}`

// grants is the part of the story about grants (S91).
func (d *described) grants(admin string) {
	d.t.Helper()
	key := keysAt(d.t, d.address)
	refused := func(method, path, body string, status int, code string, fits bool, headers ...string) {
		d.t.Helper()
		if got := field(d.t, d.send(method, path, body, status, fits, headers...), "error", "code"); got != code {
			d.t.Errorf("%s %s is refused as %s, want %s", method, path, got, code)
		}
	}
	ann, bo := key(`,"role":"approver","principal":"ann"`), key(`,"role":"approver","principal":"bo"`)
	d.send("POST", "/v1/policies", strings.Replace(grantedPolicy, "%", `,"changes":{"required":1}`, 1), 201, true)
	end := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Format(time.RFC3339)
	grant := func(more string) string {
		return `{"policy_id":"g","rule_id":"daily","per":{"agent_id":"a"},"until":"` + end + `","note":"a busy day"` + more + `}`
	}
	refused("POST", "/v1/grants", grant(`,"add_amount":50`), 403, "forbidden", true)
	for wrong, fits := range map[string]bool{
		"": true, `,"add_amount":5,"add_count":1`: true, `,"add_amount":0`: false, `,"add_count":0`: false,
	} {
		refused("POST", "/v1/grants", grant(wrong), 422, "validation_error", fits, ann)
	}
	for from, to := range map[string]string{`"daily"`: `"weekly"`, `"a"`: `7`, end: "2020-01-01T00:00:00Z", "agent_id": "counterparty"} {
		refused("POST", "/v1/grants", strings.Replace(grant(`,"add_count":5`), from, to, 1), 422, "validation_error", true, ann)
	}
	refused("POST", "/v1/grants", strings.Replace(grant(`,"add_count":5`), `"g"`, `"none"`, 1), 404, "policy_not_found", true, ann)
	made := d.send("POST", "/v1/grants", grant(`,"add_amount":50.5`), 201, true, ann, "Idempotency-Key: k")
	path := "/v1/grants/" + field(d.t, made, "grant_id")
	if again := d.send("POST", "/v1/grants", grant(`,"add_amount":50.5`), 200, true, ann, "Idempotency-Key: k"); again != made {
		d.t.Errorf("again %s, first %s", again, made)
	}
	if field(d.t, made, "status") != "pending" || !strings.Contains(made, `"required":1,"missing":1,"approvals":[],"revoked":null`) {
		d.t.Errorf("made %s", made)
	}
	if waits := d.send("GET", "/v1/approvals?waiting_for=me", "", 200, true, bo); !strings.Contains(waits, `"kind":"grant"`) {
		d.t.Errorf("it waits for nobody: %s", waits)
	}
	refused("POST", path+"/approve", "", 403, "not_an_approver", true, ann)
	if open := d.send("POST", path+"/approve", `{"note":"fine"}`, 200, true, bo); field(d.t, open, "status") != "open" {
		d.t.Errorf("approved: %s", open)
	}
	if got := d.send("GET", "/v1/budgets?policy_id=g&agent_id=a", "", 200, true); !strings.Contains(got,
		`"limit":100,"used":0,"remaining":150.5,"count":0,"max_count":50,"remaining_count":50,`) {
		d.t.Errorf("the budget: %s", got)
	}
	refused("POST", path+"/approve", "", 409, "grant_not_pending", true, key(`,"role":"approver","principal":"cy"`))
	d.send("POST", path+"/revoke", "", 200, true, admin, "X-API-Key: -")
	d.send("POST", path+"/revoke", `{"note":"enough"}`, 200, true, ann)
	refused("POST", path+"/approve", "", 409, "grant_not_active", true, bo)
	d.send("GET", path, "", 200, true)
	all := d.send("GET", "/v1/grants?policy_id=g&rule_id=daily&agent_id=a&status=revoked&limit=1", "", 200, true)
	if !strings.Contains(all, path[11:]) {
		d.t.Errorf("listed: %s", all)
	}
	refused("GET", "/v1/grants?status=over", "", 422, "validation_error", false)
	refused("GET", "/v1/grants/grt_00000000000000000000000000000000", "", 404, "grant_not_found", true)
	events := d.send("GET", "/v1/events?type=grant.created,grant.approved,grant.revoked", "", 200, true)
	for _, of := range []string{"created", "approved", "revoked"} {
		if !strings.Contains(events, `"grant.`+of+`"`) {
			d.t.Errorf("no event grant.%s: %s", of, events)
		}
	}
}
