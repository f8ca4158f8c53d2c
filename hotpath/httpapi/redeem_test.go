package httpapi

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/hotpath"
)

// redeeming is a node with a policy that requires redemption, and keys.
type redeeming struct {
	t                                 *testing.T
	address                           string
	agent, gateway, executor, another string
}

func newRedeeming(t *testing.T, settings ...func(*hotpath.Components)) *redeeming {
	r := &redeeming{t: t, address: serveOn(t, New(realOptions(t, settings...)))}
	r.agent, r.gateway, r.executor, r.another = r.key("agent"), r.key("gateway"), r.key("executor"), r.key("executor")
	full := r.key("full")
	r.do(201, "POST", "/v1/policies", `{"policy_id":"p","name":"n","redeem":"required","redeem_within_minutes":30,"rules":[`+
		`{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":100,"currency":"USD"}}]}`, full)
	return r
}

func (r *redeeming) key(role string) string {
	r.t.Helper()
	made := doAt(r.t, r.address, "POST", "/v1/keys", `{"name":"n","rate_limit_rpm":1000,"role":"`+role+`"}`, "X-Admin-Key: "+adminKey)
	return "X-API-Key: " + field(r.t, made.body, "api_key")
}

func (r *redeeming) do(want int, method, path, body string, headers ...string) answer {
	r.t.Helper()
	a := doAt(r.t, r.address, method, path, body, headers...)
	if a.status != want {
		r.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, a.status, a.body, want)
	}
	return a
}

const toRedeem = `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":7,"currency":"usd","counterparty":"c"}`

// check asks for an amount and returns the path of the check.
func (r *redeeming) check(amount string) string {
	r.t.Helper()
	a := r.do(200, "POST", "/v1/checks", strings.Replace(toRedeem, ":7,", ":"+amount+",", 1), r.agent)
	return "/v1/checks/" + field(r.t, a.body, "check_id")
}

func (r *redeeming) refused(code, path, body string, headers ...string) {
	r.t.Helper()
	if a := r.do(409, "POST", path, body, headers...); !strings.Contains(a.body, `"code":"`+code+`"`) {
		r.t.Errorf("%s %s: %s, want %s", path, body, a.body, code)
	}
}

// TestRedeem redeems over HTTP: once, for the action that was allowed, by who moves the money (F126, G14).
func TestRedeem(t *testing.T) {
	r := newRedeeming(t)
	path := r.check("7")
	body := `{"action_type":"refund","amount":7.0,"currency":"USD","counterparty":"c"}`
	if shown := r.do(200, "GET", path, "", r.agent); shown.header.Get("Redeem") != "required" {
		t.Errorf("shown: %v", shown.header)
	}
	r.refused("check_not_redeemed", path+"/outcome", `{"status":"executed"}`, r.agent)
	r.refused("action_mismatch", path+"/redeem", strings.Replace(body, "7.0", "8", 1), r.executor)
	redeemed := r.do(200, "POST", path+"/redeem", body, r.executor, `Idempotency-Key: "one"`)
	id := field(t, redeemed.body, "redemption_id")
	if !strings.HasPrefix(id, "rdm_") {
		t.Errorf("redeemed: %s", redeemed.body)
	}
	if again := r.do(200, "POST", path+"/redeem", body, r.executor, "Idempotency-Key: one"); again.header.Get("Idempotent-Replayed") !=
		"true" || again.body != redeemed.body {
		t.Errorf("again: %v %s", again.header, again.body)
	}
	r.refused("check_already_redeemed", path+"/redeem", body, r.executor, "Idempotency-Key: two")
	r.refused("check_already_redeemed", path+"/redeem", body, r.another, "Idempotency-Key: one")
	r.refused("check_already_redeemed", path+"/outcome", `{"status":"voided"}`, r.agent)
	r.refused("check_already_redeemed", path+"/outcome", `{"status":"voided"}`, r.another)
	if shown := r.do(200, "GET", path, "", r.agent); shown.header.Get("Redeemed") != id {
		t.Errorf("shown: %v", shown.header)
	}
	r.refused("check_already_redeemed", path+"/in-doubt", `{}`, r.another)
	r.do(201, "POST", path+"/in-doubt", `{"note":"timeout"}`, r.executor)
	r.do(200, "POST", path+"/in-doubt", ``, r.executor)
	r.refused("check_already_redeemed", path+"/outcome", `{"status":"failed","unless_in_doubt":true}`, r.executor)
	if shown := r.do(200, "GET", path, "", r.agent); shown.header.Get("Redeemed") != id+";in_doubt" {
		t.Errorf("in doubt: %v", shown.header)
	}
	if listed := r.do(200, "GET", "/v1/checks?outcome=in_doubt", "", r.executor); !strings.Contains(listed.body, id) {
		t.Errorf("in doubt: %s", listed.body)
	}
	r.refused("check_already_redeemed", path+"/redeem", body, r.executor, "Idempotency-Key: one")
	r.refused("check_already_redeemed", path+"/outcome", `{"status":"voided"}`, r.agent)
	r.do(201, "POST", path+"/outcome", `{"status":"executed"}`, r.another)
	if shown := r.do(200, "GET", path, "", r.agent); shown.header.Get("Redeemed") != id || shown.header.Get("Outcome") != "executed" {
		t.Errorf("executed: %v", shown.header)
	}
	r.refused("outcome_already_reported", path+"/in-doubt", `{}`, r.executor)
	r.refused("check_already_redeemed", path+"/redeem", body, r.executor, "Idempotency-Key: one")
}

// TestRedeemRefused redeems what may not be redeemed.
func TestRedeemRefused(t *testing.T) {
	r := newRedeeming(t)
	r.refused("check_not_allowed", r.check("101")+"/redeem", strings.Replace(toRedeem, ":7,", ":101,", 1), r.executor)
	voided := r.check("7")
	released := func(path, body, says string) {
		t.Helper()
		a := r.do(409, "POST", path+"/redeem", body, r.executor)
		if field(t, a.body, "error", "code") != "check_released" || !strings.Contains(a.body, says) {
			t.Errorf("%s, which does not say that %s", a.body, says)
		}
	}
	r.do(201, "POST", voided+"/outcome", `{"status":"voided"}`, r.agent)
	released(voided, toRedeem, "reported as voided, so it cannot be redeemed: a key with outcomes:release must report, too")
	r.do(201, "POST", voided+"/outcome", `{"status":"failed"}`, r.another)
	released(voided, toRedeem, "reported as failed, so it cannot be redeemed: check the action again, under another idempotency_key")
	r.do(201, "POST", "/v1/policies",
		`{"policy_id":"p","name":"n","rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":100}}]}`, r.key("author"))
	executed := r.check("6") // under a version that takes executed only for redeemed checks
	r.do(201, "POST", executed+"/outcome", `{"status":"executed"}`, r.agent)
	released(executed, strings.Replace(toRedeem, ":7,", ":6,", 1),
		"reported as executed, so it cannot be redeemed: its action counts as carried out")
	r.refused("check_not_redeemed", voided+"/in-doubt", `{}`, r.executor)

	nine := r.check("9")
	r.do(200, "POST", nine+"/redeem", strings.Replace(toRedeem, ":7,", ":9,", 1), r.another)
	r.do(201, "POST", nine+"/outcome", `{"status":"failed","unless_in_doubt":true}`, r.another)

	for body, path := range map[string]string{
		`{}`: "amount", `{"action_hash":"00","amount":1}`: "action_hash", `{"amount":"1","currency":"usd","counterparty":"c"}`: "amount",
		`{"action_hash":"00","x":1}`: "x", `{"action_hash":"00","once":"order"}`: "once",
	} {
		if a := r.do(422, "POST", nine+"/redeem", body, r.executor); !strings.Contains(a.body, path) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	if a := r.do(422, "POST", nine+"/redeem", `{"action_hash":"00","idempotency_key":"a"}`, r.executor,
		"Idempotency-Key: b"); !strings.Contains(a.body, "Idempotency-Key") {
		t.Errorf("two keys: %s", a.body)
	}
	r.do(http.StatusForbidden, "POST", nine+"/redeem", toRedeem, r.agent)
	blind := "X-API-Key: " + field(t, doAt(t, r.address, "POST", "/v1/keys", `{"name":"n","rate_limit_rpm":1000,"scopes":["checks:redeem"]}`,
		"X-Admin-Key: "+adminKey).body, "api_key")
	if a := r.do(409, "POST", r.check("10")+"/redeem", toRedeem, blind); strings.Contains(a.body, "amount") {
		t.Errorf("who may not read is told %s", a.body)
	}
	r.do(422, "POST", "/v1/keys", `{"name":"n","rate_limit_rpm":1000,"scopes":["checks:redeem","checks:write"]}`, "X-Admin-Key: "+adminKey)

	// Who asked for the check and redeemed it may give it back, if it was not carried out.
	asked := "/v1/checks/" + field(t, r.do(200, "POST", "/v1/checks", strings.Replace(toRedeem, ":7,", ":11,", 1), r.gateway).body, "check_id")
	r.do(200, "POST", asked+"/redeem", strings.Replace(toRedeem, ":7,", ":11,", 1), r.gateway)
	if a := r.do(201, "POST", asked+"/outcome", `{"status":"failed"}`, r.gateway); !strings.Contains(a.body, `"release":"done"`) {
		t.Errorf("failed: %s", a.body)
	}
}

// TestRedeemByHash redeems for the hash that identical actions have.
func TestRedeemByHash(t *testing.T) {
	r := newRedeeming(t)
	path := r.check("7")
	first := r.do(200, "POST", path+"/redeem", toRedeem, r.executor)
	r.do(201, "POST", path+"/outcome", `{"status":"failed"}`, r.executor) // which frees the action
	body := `{"action_hash":"` + field(t, first.body, "action_hash") + `"}`
	r.refused("action_mismatch", r.check("8")+"/redeem", body, r.executor)
	same := r.check("7")
	r.refused("action_mismatch", same+"/redeem", `{"action_hash":"`+strings.Repeat("0", 64)+`"}`, r.executor)
	r.do(200, "POST", same+"/redeem", body, r.executor)
	for _, none := range []string{"00", "what", strings.Repeat("g", 64)} {
		r.do(422, "POST", same+"/redeem", `{"action_hash":"`+none+`"}`, r.executor)
	}
}

// TestRedeemTooLate redeems before and behind the policy's 30 minutes, and replays behind them.
func TestRedeemTooLate(t *testing.T) {
	var ahead atomic.Int64
	r := newRedeeming(t, func(c *hotpath.Components) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	early, late := r.check("7"), r.check("8")
	ahead.Store(int64(29 * time.Minute))
	redeemed := r.do(200, "POST", early+"/redeem", toRedeem, r.executor, "Idempotency-Key: one")
	ahead.Store(int64(31 * time.Minute))
	r.refused("check_expired", late+"/redeem", strings.Replace(toRedeem, ":7,", ":8,", 1), r.executor)
	if again := r.do(200, "POST", early+"/redeem", toRedeem, r.executor, "Idempotency-Key: one"); again.body != redeemed.body {
		t.Errorf("again: %s", again.body)
	}
	r.do(201, "POST", late+"/outcome", `{"status":"voided"}`, r.agent)
}

// TestWhoAskedEndsNoDoubt: of a check in doubt neither who asked reports, by whatever
// right, nor who may not release.
func TestWhoAskedEndsNoDoubt(t *testing.T) {
	r := newRedeeming(t)
	path := "/v1/checks/" + field(t, r.do(200, "POST", "/v1/checks", toRedeem, r.gateway).body, "check_id")
	r.do(200, "POST", path+"/redeem", toRedeem, r.executor)
	r.do(201, "POST", path+"/in-doubt", ``, r.executor)
	r.refused("check_already_redeemed", path+"/outcome", `{"status":"failed"}`, r.gateway)
	r.refused("check_already_redeemed", path+"/outcome", `{"status":"executed"}`, r.gateway)
	r.do(201, "POST", path+"/outcome", `{"status":"failed"}`, r.another)
}

// TestRedeemOfPolicies: what a policy says of redemptions is required, or absent, also where it is
// blank (S4), and nothing else.
func TestRedeemOfPolicies(t *testing.T) {
	r := newRedeeming(t)
	author := r.key("author")
	with := func(redeem string) string {
		return `{"policy_id":"q","name":"n","redeem":` + redeem + `,"rules":[` +
			`{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":100,"currency":"USD"}}]}`
	}
	for redeem, want := range map[string]bool{`"required"`: true, `""`: false, `" "`: false, `null`: false} {
		made := r.do(201, "POST", "/v1/policies", with(redeem), author)
		if got := strings.Contains(made.body, `"redeem":"required"`); got != want || !want && strings.Contains(made.body, "redeem") {
			t.Errorf("%s: %s", redeem, made.body)
		}
	}
	for _, redeem := range []string{`"Required"`, `"optional"`, `"false"`, `true`, `[]`} {
		if a := r.do(422, "POST", "/v1/policies", with(redeem), author); !strings.Contains(a.body, "redeem") {
			t.Errorf("%s: %s", redeem, a.body)
		}
	}
}
