package policycmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/bench/must"
)

const (
	noPolicy = `404 {"error":{"code":"policy_not_found","message":"there is no such policy","request_id":"req_1"}}`
	stored3  = `200 {"policy_id":"desk","name":"Desk","version":3,"rules":[{"rule_id":"a","parameters":{"limit":0.10}}],` +
		`"created_at":"2026-01-02T03:04:05.000Z","updated_at":"2026-01-02T03:04:05.000Z","metadata":null}`
	same3 = "policy_id: desk\nname: Desk\ndescription: ''\nrules:\n- parameters: {limit: 0.10}\n  rule_id: a\n"
)

func TestPoliciesApply(t *testing.T) {
	n := newFakeNode(t, noPolicy, `201 {"policy_id":"refund-desk","version":1}`, `201 {"policy_id":"generated","version":1}`)
	n.Run(t, "policy_id: refund-desk\nlimit: 500.00\n---\nlimit: 0.1", "policies", "apply", "-f", "-").
		Check(t, 0, "refund-desk version 1\ngenerated version 1\n", "")
	n.Check(t, "GET /v1/policies/refund-desk svc ", `POST /v1/policies svc {"policy_id":"refund-desk","limit":500.00}`,
		`POST /v1/policies svc {"limit":0.1}`)
}

// A policy that is the same on the server and in the file makes no new version. The order of
// members, absent members and the spelling of numbers in rules do not matter.
func TestPoliciesApplyUnchanged(t *testing.T) {
	n := newFakeNode(t, stored3)
	n.Run(t, same3, "policies", "apply", "-f", "-").Check(t, 0, "desk version 3, unchanged\n", "")
	n.Check(t, "GET /v1/policies/desk svc ")
	n = newFakeNode(t, stored3)
	n.Run(t, strings.Replace(same3, "0.10", "0.1", 1), "policies", "apply", "-f", "-").Check(t, 0, "desk version 3, unchanged\n", "")
	for _, change := range [][2]string{
		{"0.10", "0.11"}, {"Desk", "desk"}, {"rule_id: a", "rule_id: b"}, {"rules", "metadata: {}\nrules"}, {"rules", "other: 1\nrules"},
	} {
		n := newFakeNode(t, stored3, `201 {"policy_id":"desk","version":4}`)
		n.Run(t, strings.Replace(same3, change[0], change[1], 1), "policies", "apply", "-f", "-").Check(t, 0, "desk version 4\n", "")
	}
	// A key that may not read policies gets an error, and nothing is stored.
	n = newFakeNode(t, `403 {"error":{"code":"forbidden","message":"needs policies:read","request_id":"req_1"}}`)
	n.Run(t, same3, "policies", "apply", "-f", "-").Check(t, 1, "", "needs policies:read")
	n = newFakeNode(t)
	n.Run(t, same3+"---\n"+same3, "policies", "apply", "-f", "-").
		Check(t, 1, "", `line 8: policy_id "desk" is also that of standard input, line 1`)
}

func TestPoliciesDiff(t *testing.T) {
	n := newFakeNode(t, stored3)
	n.Run(t, same3, "policies", "diff", "-f", "-").Check(t, 0, "", "")
	n = newFakeNode(t, stored3, noPolicy)
	r := n.Run(t, strings.Replace(same3, "0.10", "0.20", 1)+"---\npolicy_id: other", "policies", "diff", "-f", "-")
	want := "--- desk version 3\n+++ standard input (policy 1)\n"
	if r.Code != 1 || !strings.Contains(r.Stdout, want) ||
		!strings.Contains(r.Stdout, "\n-        \"limit\": 0.10\n+        \"limit\": 0.20\n") ||
		!strings.Contains(r.Stdout, "--- not on the server\n") || r.Stderr != "spendgate: 2 of 2 policies differ\n" {
		t.Errorf("%+v", r)
	}
	// A comparison that could not be made does not count as a difference.
	n = newFakeNode(t, "302 ")
	n.Run(t, same3, "policies", "diff", "-f", "-").Check(t, 2, "", "302 Found")
	runWith(t, nil, same3, "policies", "diff", "-f", "-").Check(t, 2, "", "SPENDGATE_API_KEY is not set")
}

func TestPoliciesList(t *testing.T) {
	n := newFakeNode(t, stored3, stored3, noPolicy)
	r := n.Run(t, same3+"---\npolicy_id: desk-2\n---\npolicy_id: other\n---\nname: x", "policies", "list", "-f", "-")
	r.Check(t, 0, "POLICY ID  VERSION  UPDATED                   STATE              FILE\n"+
		"desk       3        2026-01-02T03:04:05.000Z  unchanged          standard input (policy 1)\n"+
		"desk-2     3        2026-01-02T03:04:05.000Z  differs            standard input (policy 2)\n"+
		"other      -        -                         not on the server  standard input (policy 3)\n"+
		"-          -        -                         not on the server  standard input (policy 4)\n", "")
	n = newFakeNode(t, "302 ")
	n.Run(t, same3, "policies", "list", "-f", "-").Check(t, 1, "", "302 Found")
	n = newFakeNode(t, `200 {"data":[{"policy_id":"desk","version":3,"name":"Desk\u001b","rules":[{},{}],`+
		`"updated_at":"2026-01-02T03:04:05.000Z"}],"next_cursor":null}`)
	n.Run(t, "", "policies", "list").Check(t, 0, "POLICY ID  VERSION  UPDATED                   RULES  NAME\n"+
		`desk       3        2026-01-02T03:04:05.000Z  2      "Desk\x1b"`+"\n", "")
}

func TestPoliciesVersions(t *testing.T) {
	n := newFakeNode(t, `200 {"data":[{"policy_id":"desk","version":3,"updated_at":"2026-01-02T03:04:05.000Z",`+
		`"author":null,"note":"peak\u001b",`+
		`"drafted_by":{"principal":"ada","key_id":"k"},"approved_by":[{"principal":"bob"},{"principal":"cleo"}],"forced":true},`+
		`{"policy_id":"desk","version":2,"updated_at":"2026-01-01T03:04:05.000Z","author":{"principal":"ada","key_id":"k"},"note":null},`+
		`{"policy_id":"desk","version":1,"updated_at":"2026-01-01T00:00:00.000Z","author":null,"note":null}],"next_cursor":null}`)
	n.Run(t, "", "policies", "versions", "desk").Check(t, 0,
		"VERSION  CREATED                   AUTHOR     APPROVED BY                         NOTE\n"+
			`3        2026-01-02T03:04:05.000Z  ada        bob, cleo, forced by the admin key  "peak\x1b"`+"\n"+
			"2        2026-01-01T03:04:05.000Z  ada        -                                   \n"+
			"1        2026-01-01T00:00:00.000Z  admin key  -                                   \n", "")
}

func TestPoliciesLint(t *testing.T) {
	const legal = "policy_id: a\nname: a\nrules:\n- {rule_id: a, rule_type: max_amount, parameters: {limit: 5}}\n"
	runWith(t, nil, legal, "policies", "lint", "-f", "-").Check(t, 0, "", "")
	const warned = legal + "- {rule_id: b, rule_type: max_amount, parameters: {limit: 6}}"
	runWith(t, nil, warned, "policies", "lint", "-f", "-").Check(t, 0, "standard input:5: warning: rules[1] is never reported", "")
	for content, want := range map[string]string{
		"name: a": "standard input:1: rules is required\n", "a: [": "standard input:1: did not find",
	} {
		r := runWith(t, nil, content, "policies", "lint", "-f", "-")
		if r.Code != 1 || !strings.Contains(r.Stdout, want) || !strings.HasPrefix(r.Stderr, "spendgate: 1 faults") {
			t.Errorf("%+v", r)
		}
	}
	if r := runWith(t, nil, warned, "policies", "lint", "--strict", "-f", "-"); r.Code != 1 {
		t.Errorf("%+v", r)
	}
	runWith(t, nil, "", "policies", "lint", "-f", "none").Check(t, 1, "", "cannot read policies: ")
}

func TestPoliciesTest(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "deploy", "policies")
	runWith(t, nil, "", "policies", "test", "-f", folder, filepath.Join(folder, "cases")).Check(t, 0, " cases passed\n", "")
	page := must.Get(os.ReadFile("../../../docs/use/command-line.md"))(t)
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	runWith(t, nil, example, "policies", "test", "-f", folder, "-").Check(t, 0, "2 cases passed\n", "")
	const wrong = "policy_id: discounts\ncases:\n- {decision: allow}"
	r := runWith(t, nil, wrong, "policies", "test", "-f", folder, "-")
	if r.Code != 1 || !strings.Contains(r.Stdout, `standard input:3: "cases[0]": `) ||
		r.Stderr != "spendgate: 1 failures; 1 cases were judged\n" {
		t.Errorf("%+v", r)
	}
	runWith(t, nil, "", "policies", "test", "-f", folder, "none").Check(t, 1, "", "cannot read cases: ")
}

const (
	budgeted = `{"policy_id":"b","name":"B","version":7,"rules":[` +
		`{"rule_id":"day","rule_type":"budget","parameters":{"limit":100,"currency":"USD","per":["agent_id"],"window":"day"}},` +
		`{"rule_id":"ever","rule_type":"budget","parameters":{"max_count":5,"window":"lifetime"}}],` +
		`"created_at":"2026-01-02T03:04:05.000Z","updated_at":"2026-01-02T03:04:05.000Z","metadata":null}`
	counters = `200 {"data":[{"policy_id":"b","rule_id":"day","per":{"agent_id":"a"},"currency":"USD","used":40.5,"count":2}],` +
		`"pagination":{"next_cursor":null,"has_more":false}}`
	none = `200 {"data":[],"pagination":{"next_cursor":null,"has_more":false}}`
	used = `budget "day" of b is not continued; in use: 40.50 USD and count 2 of agent_id "a"; only --drop-budget day stores this` + "\n"
)

// Budgets that a version would empty are named first, and dropped only if that is asked for.
func TestPoliciesThatEmptyBudgets(t *testing.T) {
	body := strings.NewReplacer(`"day",`, `"Day",`, `"window":"lifetime"`, `"window":"lifetime","time_zone":"UTC"`).Replace(budgeted)
	sent := strings.NewReplacer(`"version":7,`, "", `"created_at":"2026-01-02T03:04:05.000Z","updated_at":"2026-01-02T03:04:05.000Z",`, "").
		Replace(body)
	const notSent = "standard input: not sent, since only the server says them: version, created_at, updated_at\n"
	n := newFakeNode(t, "200 "+budgeted, counters)
	r := n.Run(t, body, "policies", "diff", "-f", "-")
	if r.Code != 1 || !strings.HasSuffix(r.Stdout, "# "+used) || !strings.Contains(r.Stderr, notSent) {
		t.Errorf("%+v", r)
	}
	n = newFakeNode(t, "200 "+budgeted, none, `201 {"policy_id":"b","version":8}`)
	r = n.Run(t, body, "policies", "apply", "-f", "-", "--drop-budget", "day", "--drop-budget", "ever", "--note", "why")
	if r.Code != 0 || r.Stdout != "b version 8\n" ||
		r.Stderr != notSent+"budget \"day\" of b is not continued; nothing of it is used\n--drop-budget ever: no such budget ends\n" {
		t.Errorf("%+v", r)
	}
	n.Check(t, "GET /v1/policies/b svc ", "GET /v1/budgets?limit=100&policy_id=b&rule_id=day svc ",
		"POST /v1/policies svc "+strings.TrimSuffix(sent, "}")+`,"drop_budgets":["day"],"note":"why"}`)
	n = newFakeNode(t, "200 "+budgeted, counters, `201 {"policy_id":"b","version":8}`)
	r = n.Run(t, body, "policies", "apply", "-f", "-", "--drop-budget", "day")
	if r.Code != 0 || r.Stderr != notSent+strings.Replace(used, "; only --drop-budget day stores this", "", 1) {
		t.Errorf("%+v", r)
	}
	n = newFakeNode(t, "200 "+budgeted, `403 {"error":{"code":"forbidden","message":"m","request_id":"req_1"}}`,
		`409 {"error":{"code":"budget_in_use","message":"rule day","request_id":"req_1"}}`)
	n.Run(t, body, "policies", "apply", "-f", "-").Check(t, 1, "", "rule day")
}

func TestPoliciesRollback(t *testing.T) {
	old := strings.Replace(strings.Replace(budgeted, `"version":7`, `"version":2`, 1), `"day",`, `"Day",`, 1)
	n := newFakeNode(t, "200 "+old, "200 "+budgeted, counters, `201 {"policy_id":"b","version":8}`)
	r := n.Run(t, "", "policies", "rollback", "b", "--to", "2", "--drop-budget", "day")
	if r.Code != 0 || !strings.HasPrefix(r.Stdout, "diff b version 7 b version 2\n") || !strings.HasSuffix(r.Stdout, "\nb version 8\n") ||
		r.Stderr != strings.Replace(used, "; only --drop-budget day stores this", "", 1) {
		t.Errorf("%+v", r)
	}
	if last := n.Requests[len(n.Requests)-1]; !strings.HasSuffix(last,
		`,"metadata":null,"drop_budgets":["day"],"note":"rollback to version 2"} if 7`) || strings.Contains(last, "version\":") {
		t.Error(last)
	}
	n = newFakeNode(t, "200 "+budgeted, "200 "+budgeted)
	n.Run(t, "", "policies", "rollback", "b", "--to", "7").Check(t, 0, "b version 7, unchanged\n", "")
	runWith(t, nil, "", "policies", "rollback", "b").Check(t, 2, "", "--to N")
}

// With --if-match nothing is stored over a version that somebody else stored meanwhile (S54), and a
// policy that the server has already needs no new version.
func TestPoliciesApplyIfMatch(t *testing.T) {
	const other = `409 {"error":{"code":"policy_version_mismatch","message":"it is 3","request_id":"req_1"}}`
	changed := strings.Replace(same3, "0.10", "0.20", 1)
	const body = `{"policy_id":"desk","name":"Desk","description":"","rules":[{"parameters":{"limit":0.20},"rule_id":"a"}]}`
	n := newFakeNode(t, stored3, other)
	n.Run(t, changed, "policies", "apply", "-f", "-", "--if-match", "2").Check(t, 1, "",
		"policy_version_mismatch: it is 3 (409, req_1); nothing is stored: spendgate policies get desk prints what is in force")
	n.Check(t, "GET /v1/policies/desk svc ", "POST /v1/policies svc "+body+" if 2")
	n = newFakeNode(t, noPolicy, `201 {"policy_id":"desk","version":1}`)
	n.Run(t, changed, "policies", "apply", "-f", "-", "--if-match", "0").Check(t, 0, "desk version 1\n", "")
	n.Check(t, "GET /v1/policies/desk svc ", "POST /v1/policies svc "+body+" if 0")
	n = newFakeNode(t, stored3)
	n.Run(t, same3, "policies", "apply", "-f", "-", "--if-match", "2").Check(t, 0, "desk version 3, unchanged\n", "")
	n = newFakeNode(t)
	for _, input := range []string{same3 + "---\npolicy_id: other", "name: x"} {
		n.Run(t, input, "policies", "apply", "-f", "-", "--if-match", "2").Check(t, 2, "", "--if-match is for one policy, with its policy_id")
	}
	n.Run(t, same3, "policies", "apply", "-f", "-", "--if-match", "-1").Check(t, 2, "", "versions start at 1")
	n.Check(t)
}

func TestPoliciesApplyReadsAllBeforeItSends(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a.yaml": "name: a", "b.yaml": "name: [", "c.json": "{}"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	n := newFakeNode(t)
	n.Run(t, "", "policies", "apply", "-f", dir).Check(t, 1, "", "b.yaml")
	n.Check(t)
	n.Run(t, "", "policies", "apply", "-f", filepath.Join(dir, "none")).Check(t, 1, "", "cannot read policies: ")
}

func TestPoliciesApplyDryRun(t *testing.T) {
	runWith(t, nil, "limit: 500.00", "policies", "apply", "-f", "-", "--dry-run").Check(t, 0, "{\n  \"limit\": 500.00\n}\n", "")
}

func TestPoliciesApplyNamesTheFileThatIsRefused(t *testing.T) {
	n := newFakeNode(t, `201 {"policy_id":"a","version":1}`,
		`422 {"error":{"code":"validation_error","message":"rules[0].parameters.limit must be a number","request_id":"req_1"}}`)
	r := n.Run(t, "a: 1\n---\nb: 2\n---\nc: 3", "policies", "apply", "-f", "-")
	want := "spendgate: standard input (policy 2): validation_error: rules[0].parameters.limit must be a number (422, req_1)\n"
	if r.Code != 1 || r.Stdout != "a version 1\n" || r.Stderr != want {
		t.Errorf("%+v", r)
	}
}

func TestPoliciesGet(t *testing.T) {
	n := newFakeNode(t, `200 {"policy_id":"refund-desk","limit":0.10,"version":2,"name":"é`+"\u202e\u2800"+`"}`,
		`200 {"policy_id":"a/../b","version":1}`)
	n.Run(t, "", "policies", "get", "refund-desk", "--version", "2").
		Check(t, 0, "{\n  \"policy_id\": \"refund-desk\",\n  \"limit\": 0.10,\n  \"version\": 2,\n  \"name\": \"é\\u202e\\u2800\"\n}\n", "")
	n.Run(t, "", "policies", "get", "a/../b").Check(t, 0, `"policy_id": "a/../b"`, "")
	n.Check(t, "GET /v1/policies/refund-desk?version=2 svc ", "GET /v1/policies/a%2F..%2Fb svc ")
}
