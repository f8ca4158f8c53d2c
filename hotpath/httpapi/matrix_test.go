package httpapi

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spendgate/bench/must"
)

const matrixCheck = `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":7,"currency":"usd","counterparty":"c"}`

// bodies returns the bodies of the requests that have one.
func bodies() map[string]string {
	return map[string]string{
		"POST /v1/checks": matrixCheck, "POST /v1/simulate": `{"policy_id":"p","actions":[` + matrixCheck + `]}`,
		"POST /v1/policies": strings.Replace(simplePolicy, "p:1", "p", 1), "POST /v1/keys": `{"name":"n"}`,
		"PATCH /v1/keys/{key_id}":                  `{"name":"n"}`,
		"POST /v1/webhooks":                        `{"url":"https://example.com/","event_types":["key.changed"]}`,
		"PATCH /v1/webhooks/{webhook_id}":          `{"status":"disabled"}`,
		"POST /v1/approvals/{approval_id}/approve": `{"action_hash":"00"}`, "POST /v1/approvals/{approval_id}/deny": `{"action_hash":"00"}`,
		"POST /v1/checks/{check_id}/outcome": `{"status":"voided"}`, "POST /v1/checks/{check_id}/redeem": matrixCheck,
		"POST /v1/backtests":                          `{"policy_id":"p","version":1,"from":"2026-01-01","to":"2026-01-02"}`,
		"POST /v1/grants":                             `{"policy_id":"p","rule_id":"r","until":"2100-01-01T00:00:00Z","note":"n","add_count":1}`,
		"POST /v1/freezes":                            `{"scope":{"counterparty":"nobody"},"reason":"r"}`,
		"POST /v1/grants/{grant_id}/approve":          `{}`,
		"POST /v1/grants/{grant_id}/revoke":           `{}`,
		"POST /v1/freezes/{freeze_id}/release":        `{"note":"n"}`,
		"POST /v1/policies/{policy_id}/draft/approve": `{"draft_hash":"00"}`,
		"POST /v1/policies/{policy_id}/draft/reject":  `{"draft_hash":"00"}`,
		"PUT /v1/policies/{policy_id}/draft":          `{"name":"n","rules":[{"rule_id":"r","rule_type":"max_amount","parameters":{"limit":5}}]}`,
	}
}

// TestRolesAndRoutes sends every request with a key of every role, and compares with the table of S30 who may send it
// and which scope a refusal names. Keys that are bound to another policy get what S31 says. A request that the
// table lacks fails, and so does one that is not served.
func TestRolesAndRoutes(t *testing.T) {
	address := serveOn(t, New(realOptions(t)))
	key := func(grants string) string {
		t.Helper()
		principal := "team"
		if strings.Contains(grants, "executor") {
			principal = "psp" // who asked gives nothing back
		}
		made := doAt(t, address, "POST", "/v1/keys", `{"name":"n","rate_limit_rpm":1000,"principal":"`+principal+`"`+grants+`}`, "X-Admin-Key: "+
			adminKey)
		return "X-API-Key: " + field(t, made.body, "api_key")
	}
	full := key("")
	doAt(t, address, "POST", "/v1/policies", bodies()["POST /v1/policies"], full)
	recorded := func(amount string) (id string) {
		return field(t, doAt(t, address, "POST", "/v1/checks", strings.Replace(matrixCheck, ":7,", ":"+amount+",", 1), full).body, "check_id")
	}
	backtest := field(t, doAt(t, address, "POST", "/v1/backtests", bodies()["POST /v1/backtests"], full).body, "backtest_id")
	paths := strings.NewReplacer("{backtest_id}", backtest, "/v1/budgets", "/v1/budgets?policy_id=p", "/v1/stats",
		"/v1/stats?from=2026-01-31&to=2026-01-31&step=day", "{approval_id}", "apr_00000000000000000000000000000000",
		"{check_id}/outcome", recorded("5")+"/outcome", "{check_id}", recorded("7"), "{policy_id}", "p",
		"{freeze_id}", "frz_00000000000000000000000000000000", "{grant_id}", "grt_00000000000000000000000000000000", "{key_id}",
		"key_00000000000000000000000000000000",
		"{webhook_id}", "whk_00000000000000000000000000000000", "{delivery_id}", "dlv_00000000000000000000000000000000")
	roles := []string{"agent", "author", "approver", "executor", "gateway", "auditor", "full"}
	var unbound, bound []string
	for _, role := range roles {
		unbound = append(unbound, key(`,"role":"`+role+`"`))
		bound = append(bound, key(`,"role":"`+role+`","policy_ids":["elsewhere"]`))
	}
	send := func(request, key string) answer {
		t.Helper()
		method, path, _ := strings.Cut(request, " ")
		return doAt(t, address, method, paths.Replace(path), bodies()[request], key)
	}
	events, checks := key(`,"scopes":["events:read"]`), key(`,"scopes":["checks:read"]`)
	var listed []string
	table := accessTable(t)
	for _, request := range slices.Sorted(maps.Keys(table)) {
		access := table[request]
		listed = append(listed, request)
		lacksIt := events
		if access.scope == "events:read" {
			lacksIt = checks
		}
		send(request, lacksIt).is(t, request, http.StatusForbidden, access.scope)
		for i, role := range roles {
			may := access.all || slices.Contains(access.roles, role)
			if role == "agent" && (request == "POST /v1/freezes" || request == "GET /v1/policies/{policy_id}/draft/report") {
				may = false // an agent freezes only itself (S30), and sees no report (S54)
			}
			refused := []int{http.StatusUnauthorized, http.StatusForbidden}
			if a := send(request, unbound[i]); slices.Contains(refused, a.status) == may || a.status >= 500 || a.status == 405 {
				t.Errorf("%s as %s: %d %s, should be permitted: %v", request, role, a.status, a.body, may)
			}
			if a := send(request, bound[i]); may && a.status != statusElsewhere(request) {
				t.Errorf("%s as %s bound elsewhere: %d %s, want %d", request, role, a.status, a.body, statusElsewhere(request))
			}
		}
	}
	for request, want := range withoutScope(t, listed) {
		send(request, full).is(t, request, want)
	}
}

// withoutScope returns what a key gets for each request that is not listed.
func withoutScope(t *testing.T, listed []string) map[string]int {
	t.Helper()
	statuses := make(map[string]int)
	for path, item := range describe(t).doc.Paths.Map() {
		for method := range item.Operations() {
			switch request := method + " " + path; {
			case slices.Contains(listed, request):
			case request == "GET /v1/keys/self" || !strings.HasPrefix(path, "/v1/"):
				statuses[request] = http.StatusOK
			default:
				statuses[request] = http.StatusUnauthorized
			}
		}
	}
	return statuses
}

// statusElsewhere returns what a key gets that is bound to another policy.
func statusElsewhere(request string) int {
	switch {
	case strings.Contains(request, "{") || request == "GET /v1/budgets":
		return http.StatusNotFound
	case strings.HasPrefix(request, "GET "):
		return http.StatusOK
	}
	return http.StatusForbidden
}

// access is who may send a request.
type access struct {
	scope string
	roles []string
	all   bool
}

// accessTable returns the requests of the table of S30.
func accessTable(t *testing.T) map[string]access {
	t.Helper()
	page := must.Get(os.ReadFile("../../docs/reference/contract.md"))(t)
	requests := make(map[string]access)
	form := regexp.MustCompile("(?m)^\\| `([a-z]+:[a-z]+)` \\| ([a-z, ]+) \\| (`[A-Z]+ /.*) \\|$")
	for _, row := range form.FindAllStringSubmatch(string(page), -1) {
		for request := range strings.SplitSeq(row[3], ", ") {
			request = strings.Replace(strings.Trim(request, "`"), " /", " /v1/", 1)
			requests[request] = access{scope: row[1], roles: strings.Split(row[2], ", "), all: row[2] == "all"}
		}
	}
	if len(requests) < 30 {
		t.Errorf("only %d requests with a scope", len(requests))
	}
	return requests
}
