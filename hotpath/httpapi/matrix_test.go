package httpapi

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRolesAndRoutes sends every request to a real node with a key of every role,
// bound and not, and expects what the table of S31 in CONTRACT.md says. A route
// that is not in the table fails, and so does a row of a route that is not served.
func TestRolesAndRoutes(t *testing.T) {
	page, err := os.ReadFile("../../deploy/CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	d := describe(t)
	d.address = serveOn(t, New(realOptions(t)))
	const admin = "X-Admin-Key: " + adminKey
	made := func(members string) string {
		return "X-API-Key: " + field(t, doAt(t, d.address, "POST", "/v1/keys", `{"name":"n","rate_limit_rpm":1000`+members+`}`, admin).body, "api_key")
	}
	const (
		rules = `"rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}]`
		check = `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":7,"currency":"usd","counterparty":"c"}`
	)
	writer := made(`,"principal":"team"`)
	if a := doAt(t, d.address, "POST", "/v1/policies", `{"policy_id":"p","name":"n",`+rules+`}`, writer); a.status != 201 {
		t.Fatal(a.body)
	}
	recorded := field(t, doAt(t, d.address, "POST", "/v1/checks", check, writer).body, "check_id")
	bodies := map[string]string{
		"POST /v1/checks": check, "POST /v1/simulate": `{"policy_id":"p","actions":[` + check + `]}`,
		"POST /v1/policies": `{"policy_id":"p","name":"n",` + rules + `}`, "POST /v1/keys": `{"name":"n"}`, "PATCH /v1/keys/{key_id}": `{"name":"n"}`,
	}
	paths := strings.NewReplacer("{check_id}", recorded, "{policy_id}", "p", "{key_id}", "key_00000000000000000000000000000000")
	roles := []string{"agent", "author", "approver", "executor", "auditor", "full"}
	unbound, bound := map[string]string{}, map[string]string{}
	for _, role := range roles {
		unbound[role] = made(`,"principal":"team","role":"` + role + `"`)
		bound[role] = made(`,"principal":"team","role":"` + role + `","policy_ids":["elsewhere"]`)
	}
	var listed []string
	row := regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|[^|]*\\|((?: \\d+ \\|){7})$")
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		request, cells := found[1], strings.Fields(strings.ReplaceAll(found[2], "|", ""))
		listed = append(listed, request)
		method, path, _ := strings.Cut(request, " ")
		for i, role := range roles {
			for kind, key := range map[string]string{"": unbound[role], " bound elsewhere": bound[role]} {
				want, _ := strconv.Atoi(cells[i])
				if kind != "" && want != 403 {
					want, _ = strconv.Atoi(cells[len(roles)])
				}
				if a := doAt(t, d.address, method, paths.Replace(path), bodies[request], key); a.status != want {
					t.Errorf("%s as %s%s: %d %s, want %d", request, role, kind, a.status, a.body, want)
				}
			}
		}
	}
	var served []string
	for path, item := range d.doc.Paths.Map() { // which has every route: TestTheDocumentHasEveryRoute
		for method := range item.Operations() {
			served = append(served, method+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(listed)
	if !slices.Equal(served, listed) {
		t.Errorf("served %v\nlisted %v", served, listed)
	}
}
