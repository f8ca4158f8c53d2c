package httpapi

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
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

// TestRolesAndRoutes sends every request with a key of every role and compares the
// answers with testdata/roles.md, and the scope that a refusal names with the table of S31. A route
// that the first table does not have fails, and so does a row of a route that is not served.
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
	events, checks := key(`,"scopes":["events:read"]`), key(`,"scopes":["checks:read"]`)
	scopes := scopesOfRequests(t)
	var listed []string
	for _, row := range accessTable(t) {
		listed = append(listed, row.request)
		method, path, _ := strings.Cut(row.request, " ")
		lacksIt := events
		if scopes[row.request] == "events:read" {
			lacksIt = checks
		}
		a := doAt(t, address, method, paths.Replace(path), bodies()[row.request], lacksIt)
		if needs := scopes[row.request]; (a.status == http.StatusForbidden) != (needs != "") || !strings.Contains(a.body, needs) {
			t.Errorf("%s needs %q: %d %s", row.request, needs, a.status, a.body)
		}
		send := func(key, who string, want int) {
			t.Helper()
			if a := doAt(t, address, method, paths.Replace(path), bodies()[row.request], key); a.status != want {
				t.Errorf("%s as %s: %d %s, want %d", row.request, who, a.status, a.body, want)
			}
		}
		for i, role := range roles {
			send(unbound[i], role, row.want[i])
			want := row.want[i]
			if want != http.StatusForbidden {
				want = row.want[len(roles)]
			}
			send(bound[i], role+" bound elsewhere", want)
		}
	}
	var served []string // TestTheDocumentHasEveryRoute holds these to be all
	for path, item := range describe(t).doc.Paths.Map() {
		for method := range item.Operations() {
			served = append(served, method+" "+path)
		}
	}
	slices.Sort(listed)
	if slices.Sort(served); !slices.Equal(served, listed) {
		t.Errorf("served %v\nlisted %v", served, listed)
	}
}

// accessRow is one of the table: a request, and the statuses of its columns.
type accessRow struct {
	request string
	want    []int
}

func accessTable(t *testing.T) (rows []accessRow) {
	t.Helper()
	page, err := os.ReadFile("testdata/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`(?m)^\| ([^|]* /[^|]*) \|((?: \d+ \|){8})$`)
	for _, found := range form.FindAllStringSubmatch(string(page), -1) {
		var want []int
		for cell := range strings.FieldsSeq(strings.ReplaceAll(found[2], "|", "")) {
			status, err := strconv.Atoi(cell)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, status)
		}
		for request := range strings.SplitSeq(found[1], ", ") {
			rows = append(rows, accessRow{strings.Trim(request, "`"), want})
		}
	}
	return rows
}

// scopesOfRequests returns the scope of each request that needs one, from the table of S31.
func scopesOfRequests(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	scopes := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+:[a-z]+)` \\| (`[A-Z]+ /.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		for request := range strings.SplitSeq(row[2], ", ") {
			scopes[strings.Trim(request, "`")] = row[1]
		}
	}
	if len(scopes) < 30 {
		t.Errorf("only %d requests with a scope", len(scopes))
	}
	return scopes
}
