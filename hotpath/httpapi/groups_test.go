package httpapi

import (
	"fmt"
	"strings"
	"testing"
)

// A refund waits for somebody of support and somebody of finance, and for neither who
// wrote the policy; every answer fits the document (S79).
func TestGroupsDecide(t *testing.T) {
	d := describe(t)
	d.address = serveOn(t, New(realOptions(t)))
	admin := "X-Admin-Key: " + adminKey
	key := func(members string) (header, path string) {
		made := d.send("POST", "/v1/keys", `{"name":"n"`+members+`}`, 201, true, admin)
		return "X-API-Key: " + field(t, made, "api_key"), "/v1/keys/" + field(t, made, "key_id")
	}
	agent, _ := key("")
	author, _ := key(`,"role":"author","principal":"anita"`)
	sue, suePath := key(`,"role":"approver","principal":"sue","groups":["Support"]`)
	sam, _ := key(`,"role":"approver","principal":"sam","groups":["support"]`)
	ben, _ := key(`,"role":"approver","principal":"ben","groups":["support","finance"]`)
	marc, _ := key(`,"role":"approver","principal":"marc"`)
	anita, _ := key(`,"role":"approver","principal":"Anita","groups":["finance"]`)
	d.send("POST", "/v1/keys", `{"name":"n","groups":[]}`, 422, false, admin)
	if self := d.send("GET", "/v1/keys/self", "", 200, true, sue); !strings.Contains(self, `"groups":["Support"]`) {
		t.Errorf("its own record: %s", self)
	}
	policy := func(approval string) string {
		return `{"policy_id":"p","name":"n","rules":[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":50,"approval":` +
			approval + `}}]}`
	}
	for _, bad := range []string{`{"from":[]}`, `{"from":[{"group":"a"}],"required":1}`} {
		doAt(t, d.address, "POST", "/v1/policies", policy(bad), author).is(t, bad, 422)
	}
	d.send("POST", "/v1/policies", policy(`{"from":[{"group":"support"},{"group":"finance","required":1}],"exclude_author":true}`), 201, true,
		author)
	asked := 0
	ask := func() (path, decision string) {
		asked++
		check := d.send("POST", "/v1/checks",
			fmt.Sprintf(`{"agent_id":"a","policy_id":"p","action_type":"refund","amount":60,"currency":"usd","counterparty":"c%d"}`, asked), 200,
			true, agent)
		if want := "by 1 of support and 1 of finance: pending is not approved"; !strings.Contains(check, want) {
			t.Errorf("its next step is not %s: %s", want, check)
		}
		path = "/v1/approvals/" + field(t, check, "approval_id")
		return path, `{"action_hash":"` + field(t, d.send("GET", path, "", 200, true, sue), "action_hash") + `"}`
	}
	waiting := func(want string, keys ...string) {
		t.Helper()
		for i, k := range keys {
			got := strings.Count(d.send("GET", "/v1/approvals?waiting_for=me", "", 200, true, k), `"approval_id"`)
			if got != int(want[i]-'0') {
				t.Errorf("%d wait for %d, want %c", got, i, want[i])
			}
		}
	}
	everybody := []string{sue, sam, ben, marc, anita}
	path, decision := ask()
	waiting("11100", everybody...)
	for _, k := range []string{marc, anita} {
		for _, verb := range []string{"/approve", "/deny"} {
			if got := d.send("POST", path+verb, decision, 403, true, k); !strings.Contains(got, `"code":"not_an_approver"`) {
				t.Errorf("refused with %s", got)
			}
		}
	}
	got := d.send("POST", path+"/approve", decision, 200, true, ben)
	for _, want := range []string{
		`"status":"pending"`, `"required":2,"missing":1,"from":[{"group":"support","required":1,"missing":1},{"group":"finance","required":1,` +
			`"missing":1}],"exclude_author":true,`,
		`"groups":["support","finance"]}]`, `"next_step":"Pending is not approved: missing are 1 of support or finance. Ask again in 5 s."`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s: %s", want, got)
		}
	}
	waiting("11000", everybody...)
	if got = d.send("POST", path+"/approve", decision, 200, true, sue); !strings.Contains(got, `"status":"approved"`) ||
		!strings.Contains(got, `"missing":0,`) {
		t.Errorf("decided: %s", got)
	}
	d.send("PATCH", suePath, `{"groups":null}`, 200, true, admin)
	if got = d.send("GET", path, "", 200, true, sam); !strings.Contains(got, `"status":"approved"`) {
		t.Errorf("after a key changed: %s", got)
	}
	path, decision = ask()
	d.send("POST", path+"/approve", decision, 403, true, sue)
	d.send("POST", path+"/approve", decision, 200, true, sam)
	if got = d.send("POST", path+"/deny", decision, 200, true, ben); !strings.Contains(got, `"status":"denied"`) {
		t.Errorf("denied: %s", got)
	}
	events := d.send("GET", "/v1/events?limit=100", "", 200, true, agent)
	if n := strings.Count(events, `"type":"approval.approved"`); n != 1 ||
		!strings.Contains(events, `"from":[{"group":"support","required":1},{"group":"finance","required":1}],"exclude_author":true`) {
		t.Errorf("%d were approved: %s", n, events)
	}
}
