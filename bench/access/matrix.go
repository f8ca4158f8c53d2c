// Package access sends every request to a node with a key of every role, and
// compares the answers with the table of S31 in deploy/CONTRACT.md. It is for
// tests: of the HTTP interface within its package, and of the compiled service.
package access

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"spendgate/bench/fleet"
	"spendgate/hotpath/client"
)

const (
	rules = `"rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}]`
	check = `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":7,"currency":"usd","counterparty":"c"}`
)

// bodies returns those of the requests that have one.
func bodies() map[string]string {
	return map[string]string{
		"POST /v1/checks": check, "POST /v1/simulate": `{"policy_id":"p","actions":[` + check + `]}`,
		"POST /v1/policies": `{"policy_id":"p","name":"n",` + rules + `}`, "POST /v1/keys": `{"name":"n"}`, "PATCH /v1/keys/{key_id}": `{"name":"n"}`,
		"POST /v1/webhooks": `{"url":"https://example.com/","event_types":["key.changed"]}`, "PATCH /v1/webhooks/{webhook_id}": `{"status":"disabled"}`,
		"POST /v1/approvals/{approval_id}/approve": `{"action_hash":"00"}`, "POST /v1/approvals/{approval_id}/deny": `{"action_hash":"00"}`,
		"POST /v1/checks/{check_id}/outcome": `{"status":"voided"}`,
	}
}

// Compare tests the node at a base URL. A route that the table does not have
// fails, and so does a row of a route that the node does not serve.
func Compare(t *testing.T, base, adminKey string) {
	n := newNode(t, base, adminKey)
	c := n.client(n.key(client.Grants{Principal: "team"}))
	if _, err := c.CreatePolicyJSON(t.Context(), []byte(bodies()["POST /v1/policies"])); err != nil {
		t.Fatal(err)
	}
	check := func(money string) string {
		recorded, err := c.Check(t.Context(), client.Action{
			AgentID: "a", PolicyID: "p", ActionType: client.Refund, Amount: amount(t, money), Currency: "USD", Counterparty: "c",
		})
		if err != nil {
			t.Fatal(err)
		}
		return recorded.CheckID
	}
	paths := strings.NewReplacer("/v1/budgets", "/v1/budgets?policy_id=p", "{approval_id}", "apr_00000000000000000000000000000000",
		"{check_id}/outcome", check("5")+"/outcome", "{check_id}", check("7"), "{policy_id}", "p", "{key_id}", "key_00000000000000000000000000000000",
		"{webhook_id}", "whk_00000000000000000000000000000000", "{delivery_id}", "dlv_00000000000000000000000000000000")
	roles := []string{"agent", "author", "approver", "executor", "auditor", "full"}
	unbound, bound := map[string]string{}, map[string]string{}
	for _, role := range roles {
		unbound[role] = n.key(client.Grants{Role: role, Principal: "team"})
		bound[role] = n.key(client.Grants{Role: role, Principal: "team", PolicyIDs: []string{"elsewhere"}})
	}
	var listed []string
	for _, row := range table(t) {
		listed = append(listed, row.request)
		method, path, _ := strings.Cut(row.request, " ")
		for i, role := range roles {
			status, body := n.send(method, paths.Replace(path), bodies()[row.request], unbound[role])
			if status != row.want[i] {
				t.Errorf("%s as %s: %d %s, want %d", row.request, role, status, body, row.want[i])
			}
			want := row.want[i]
			if want != http.StatusForbidden {
				want = row.want[len(roles)]
			}
			status, body = n.send(method, paths.Replace(path), bodies()[row.request], bound[role])
			if status != want {
				t.Errorf("%s as %s bound elsewhere: %d %s, want %d", row.request, role, status, body, want)
			}
		}
	}
	slices.Sort(listed)
	if served := n.routes(); !slices.Equal(served, listed) {
		t.Errorf("served %v\nlisted %v", served, listed)
	}
}

// row is one of the table: a request, and the statuses of its columns.
type row struct {
	request string
	want    []int
}

func table(t *testing.T) (rows []row) {
	t.Helper()
	root, err := fleet.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "deploy", "CONTRACT.md"))
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`(?m)^\| ([^|]* /[^|]*) \|[^|]*\|((?: \d+ \|){7})$`)
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
			rows = append(rows, row{strings.Trim(request, "`"), want})
		}
	}
	return rows
}

// node is the node that is tested.
type node struct {
	t     *testing.T
	base  string
	admin *client.Client
}

func newNode(t *testing.T, base, adminKey string) *node {
	t.Helper()
	admin, err := client.New(client.Options{BaseURL: base, AdminKey: adminKey})
	if err != nil {
		t.Fatal(err)
	}
	return &node{t, base, admin}
}

// key makes an API key.
func (n *node) key(g client.Grants) string {
	n.t.Helper()
	k, err := n.admin.CreateKey(n.t.Context(), client.KeyRequest{Name: "n", RateLimitRPM: new(1000), Grants: g})
	if err != nil {
		n.t.Fatal(err)
	}
	return k.APIKey
}

func (n *node) client(key string) *client.Client {
	n.t.Helper()
	c, err := client.New(client.Options{BaseURL: n.base, APIKey: key})
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// send sends one request, whatever it is.
func (n *node) send(method, path, body, key string) (status int, answer string) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.base+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("X-API-Key", key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// routes returns what the node says that it serves, which TestTheDocumentHasEveryRoute
// holds to be all.
func (n *node) routes() (served []string) {
	n.t.Helper()
	_, text := n.send(http.MethodGet, "/openapi.yaml", "", "")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		n.t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			served = append(served, method+" "+path)
		}
	}
	slices.Sort(served)
	return served
}

func amount(t *testing.T, text string) client.Amount {
	t.Helper()
	a, err := client.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
