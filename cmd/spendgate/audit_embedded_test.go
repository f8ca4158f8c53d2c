package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to tamper with a record

	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/cli/clitest"
)

// call sends a request and returns the answer, which has that status.
func (n devNode) call(t *testing.T, key, method, path, body string, status int) map[string]any {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, n.url+path, strings.NewReader(body)))(t)
	if key == "" {
		request.Header.Set("X-Admin-Key", n.admin)
	} else {
		request.Header.Set("X-API-Key", key)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // only read
	text := must.Get(io.ReadAll(response.Body))(t)
	var answer map[string]any
	if response.StatusCode != status || json.Unmarshal(text, &answer) != nil {
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return answer
}

// newKey makes an API key of a role.
func (n devNode) newKey(t *testing.T, members string) string {
	t.Helper()
	key, _ := n.call(t, "", "POST", "/v1/keys", `{"name": "k", `+members+`}`, 201)["api_key"].(string)
	return key
}

// story is what happened on a node: an agent asked, people decided, a gateway paid.
type story struct {
	devNode
	agent, gateway string
	checks         map[string]string // check_id by counterparty
}

const storyPolicy = `{"policy_id": "p", "name": "P", "rules": [
	{"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 500, "currency": "USD"}},
	{"rule_id": "ask", "rule_type": "escalate_if",
		 "parameters": {"amount_above": 50, "approval": {"from": [{"group": "support", "required": 1}]}}},
	{"rule_id": "day", "rule_type": "budget", "parameters": {"limit": 100, "currency": "USD", "window": "day", "per": ["agent_id"],
		"on_exceed": "escalate", "approval": {}}}]}`

func (s *story) ask(t *testing.T, counterparty, amount, more string) map[string]any {
	t.Helper()
	answer := s.call(t, s.agent, "POST", "/v1/checks", fmt.Sprintf(`{"agent_id": "bot", "policy_id": "p", "action_type": "refund",
		 "amount": %s,
		"currency": "USD", "counterparty": %q%s}`, amount, counterparty, more), 200)
	s.checks[counterparty+more], _ = answer["check_id"].(string)
	return answer
}

func (s *story) report(t *testing.T, key, counterparty, body string) {
	t.Helper()
	s.call(t, key, "POST", "/v1/checks/"+s.checks[counterparty]+"/outcome", body, 201)
}

// tell makes everything happen that a record can contain.
func tell(t *testing.T) *story {
	t.Helper()
	s := &story{devNode: startDev(t), checks: make(map[string]string)}
	s.agent = s.newKey(t, `"role": "agent", "principal": "bot-1", "owner": "team-a"`)
	s.gateway = s.newKey(t, `"role": "gateway", "principal": "till"`)
	var people []string
	for _, name := range []string{"ann", "bea"} {
		people = append(people, s.newKey(t, fmt.Sprintf(`"role": "approver", "principal": %q, "groups": ["support"]`, name)))
	}
	author := s.newKey(t, `"role": "full", "principal": "eve"`)
	s.call(t, author, "POST", "/v1/policies", storyPolicy, 201)
	s.call(t, author, "PUT", "/v1/policies/p/draft",
		`{"name": "P2", "rules": [{"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 5, "currency": "USD"}}]}`, 200)
	twice := s.newKey(t, `"role": "author", "principal": "max"`)
	s.call(t, twice, "POST", "/v1/policies", `{"policy_id": "q", "name": "Q", "changes": {"required": 1}, "rules": [{"rule_id": "cap", `+
		`"rule_type": "max_amount", "parameters": {"limit": 5}}]}`, 201)
	draft := s.call(t, twice, "PUT", "/v1/policies/q/draft",
		`{"name": "Q2", "changes": {"required": 1}, "rules": [{"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 4}}]}`, 200)
	s.call(t, people[0], "POST", "/v1/policies/q/draft/approve", fmt.Sprintf(`{"draft_hash": %q}`, draft["draft_hash"]), 200)
	s.call(t, "", "POST", "/v1/policies",
		`{"policy_id": "q", "name": "Q3", "rules": [{"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 3}}]}`, 201)
	s.call(t, "", "POST", "/v1/webhooks", `{"url": "https://93.184.216.34/", "event_types": ["violation.recorded"]}`, 201)

	s.ask(t, `=HYPERLINK("http://x","y")`, "40.10",
		`, "reason_text": "-1+cmd|' /C calc'!A0", "metadata": {"order": "=1+1"}, "idempotency_key": "one"`)
	s.ask(t, "c-redeemed", "30", "")
	s.call(t, s.gateway, "POST", "/v1/checks/"+s.checks["c-redeemed"]+"/redeem",
		`{"agent_id": "bot", "policy_id": "p", "action_type": "refund", "amount": 30, "currency": "USD", "counterparty": "c-redeemed"}`, 200)
	s.call(t, s.gateway, "POST", "/v1/checks/"+s.checks["c-redeemed"]+"/in-doubt", `{"note": "no answer"}`, 201)
	s.report(t, s.gateway, "c-redeemed", `{"status": "executed", "amount": 25.5, "reference": "+49"}`)
	s.ask(t, "c-void", "20", "")
	s.report(t, s.gateway, "c-void", `{"status": "voided"}`)
	s.report(t, s.gateway, "c-void", `{"status": "executed", "supersedes": 1, "amount": 20}`)
	s.ask(t, "c-blocked", "501", "")
	for i, one := range []string{"60", "49"} { // by the rule and the budget, and by the budget alone
		s.ask(t, "c-approved-"+one, one, "")
		id := strings.Replace(s.checks["c-approved-"+one], "chk_", "apr_", 1)
		hash := s.call(t, people[0], "GET", "/v1/approvals/"+id, "", 200)["action_hash"]
		for _, person := range people[i:] {
			s.call(t, person, "POST", "/v1/approvals/"+id+"/approve", fmt.Sprintf(`{"action_hash": %q, "note": "=seen"}`, hash), 200)
		}
		s.ask(t, "c-approved-"+one, one, fmt.Sprintf(`, "approval_id": %q`, id))
	}
	return s
}

// verify runs audit verify on the node's folder.
func (n devNode) verify(t *testing.T) clitest.Result {
	t.Helper()
	return runWith(t, nil, "", "audit", "verify", "--data-dir", n.folder)
}

// An embedded record is verified like a fleet's, while its node runs. Changes that somebody made
// in the file are named.
func TestVerifyEmbedded(t *testing.T) {
	s := tell(t)
	eve := s.newKey(t, `"role": "full", "principal": "eve"`)
	s.call(t, eve, "POST", "/v1/policies", `{"policy_id": "e", "name": "E", "rules": [
		{"rule_id": "ask", "rule_type": "escalate_if", "parameters": {"amount_above": 10}},
		{"rule_id": "day", "rule_type": "budget", "parameters": {"limit": 1000, "currency": "USD", "window": "day"}}]}`, 201)
	// takes nothing
	s.call(t, eve, "POST", "/v1/checks",
		`{"agent_id": "e", "policy_id": "e", "action_type": "refund", "amount": 20, "currency": "USD", "counterparty": "c"}`, 200)
	s.verify(t).Has(t, 0, "verified 9 checks, 5 outcomes and 4 violations", "clean as far as it can be told")

	db, err := sql.Open("sqlite", filepath.Join(s.folder, cli.StoreFile)+"?_pragma=busy_timeout(20000)") // the node writes, too
	must.Do(t, err)
	defer db.Close() //nolint:errcheck // of the test
	db.SetMaxOpenConns(1)
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	blob := func(counterparty string) string {
		return "x'" + strings.TrimPrefix(s.checks[counterparty], "chk_") + "'"
	}
	for _, c := range []struct{ table, tamper, finds string }{
		{"checks", "UPDATE checks SET amount = '40.1000' WHERE counterparty LIKE '=%'", "altered check chk_"},
		{"checks", "UPDATE checks SET action_type = 'redeemed' WHERE check_id = " + blob("c-void"), "altered check " + s.checks["c-void"]},
		{"checks", "UPDATE checks SET agent_id = 'other' WHERE check_id = " + blob("c-blocked"), "altered check " + s.checks["c-blocked"]},
		{"checks", "DELETE FROM checks WHERE check_id = " + blob("c-void"), "removed check " + s.checks["c-void"]},
		{"violations", "DELETE FROM violations WHERE counterparty = 'c-blocked'", "removed violation viol_"},
		{"outcomes", "UPDATE outcomes SET amount = '25' WHERE amount = '25.5'", "altered outcome "},
		{"outcomes", "UPDATE outcomes SET may_release = 1 - may_release WHERE status = 'redeemed'", "altered outcome "},
		{"outcomes", "DELETE FROM outcomes WHERE status = 'in_doubt'", "removed outcome "},
		{"batches", "DELETE FROM batches WHERE seq = 1", "removed batch 1 of chain"},
		{"batches", "UPDATE batches SET head = zeroblob(32) WHERE seq = 2", "altered batch 2 of chain"},
		{
			"changes", "UPDATE changes SET actor = 'system' WHERE kind = 'policy.created' AND subject = 'p'",
			"of the configuration: its head does not follow",
		},
		{"policies", "UPDATE policies SET rules = replace(rules, '500', '5000') WHERE policy_id = 'p'", `altered policy "p" version 1`},
		{"drafts", "UPDATE drafts SET rules = replace(rules, '5', '6')", "altered draft"},
		{"keys", `UPDATE keys SET grants = replace(grants, '"agent"', '"full"')`, "altered key key_"},
		{"webhooks", "UPDATE webhooks SET url = 'http://evil/'", "altered webhook"},
		{"budget_counters", "UPDATE budget_counters SET used = '1'", "altered counter of budget \"day\""},
		{"budget_principals", "DELETE FROM budget_principals", "removed principal of budget"},
		{"approvals", "UPDATE approvals SET agent_id = 'other'", "altered approval apr_"},
		{"approval_uses", "DELETE FROM approval_uses", "approval apr_"},
		{"events", "DELETE FROM events WHERE type = 'approval.used'", "removed event"},
		{"events", "UPDATE events SET policy_id = 'q' WHERE type = 'violation.recorded'", "altered event"},
		{"idempotency_keys", "DELETE FROM idempotency_keys", "removed idempotency key"},
	} {
		undo := s.open(t, db, c.table)
		exec(c.tamper)
		r := s.verify(t)
		if r.Code != 1 || !strings.Contains(r.Stdout, c.finds) {
			t.Errorf("%s: exit %d\n%s%s", c.tamper, r.Code, r.Stdout, r.Stderr)
		}
		undo()
	}
	exec("DROP TRIGGER checks_update")
	s.verify(t).Has(t, 1, "removed trigger checks_update on checks")
}

// open removes the triggers of a table, and returns a function that restores them and the table.
func (n devNode) open(t *testing.T, db *sql.DB, table string) (undo func()) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?", table)
	must.Do(t, err)
	defer rows.Close() //nolint:errcheck // of the test
	var drop, create []string
	for rows.Next() {
		var name, text string
		must.Do(t, rows.Scan(&name, &text))
		drop, create = append(drop, "DROP TRIGGER "+name), append(create, text)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil { // there is one connection
		t.Fatal(err)
	}
	exec := func(statements ...string) {
		for _, statement := range statements {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	exec(append(drop, "CREATE TEMP TABLE kept AS SELECT * FROM "+table)...)
	return func() {
		exec("DELETE FROM "+table, "INSERT INTO "+table+" SELECT * FROM kept", "DROP TABLE kept")
		exec(create...)
	}
}
