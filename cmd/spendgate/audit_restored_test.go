package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/cli/clitest"
)

// TestRestoredDev: in a copied folder no check is redeemed and no approval is used, since that may
// have happened already after the copy was made (G13, G14, G16).
func TestRestoredDev(t *testing.T) {
	s := &story{devNode: startDev(t), checks: make(map[string]string)}
	s.agent = s.newKey(t, `"role": "agent", "principal": "bot-1", "owner": "team-a"`)
	s.gateway = s.newKey(t, `"role": "gateway", "principal": "till"`)
	ann := s.newKey(t, `"role": "approver", "principal": "ann", "groups": ["support"]`)
	s.call(t, s.newKey(t, `"role": "full", "principal": "eve"`), "POST", "/v1/policies", storyPolicy, 201)
	s.call(t, "", "POST", "/v1/webhooks", `{"url": "https://93.184.216.34/", "event_types": ["violation.recorded"]}`, 201)
	s.ask(t, "c-allowed", "30", "")
	s.ask(t, "c-approved", "60", "")
	approval := strings.Replace(s.checks["c-approved"], "chk_", "apr_", 1)
	hash := s.call(t, ann, "GET", "/v1/approvals/"+approval, "", 200)["action_hash"]
	s.call(t, ann, "POST", "/v1/approvals/"+approval+"/approve", fmt.Sprintf(`{"action_hash": %q}`, hash), 200)

	const of = `{"agent_id": "bot", "policy_id": "p", "action_type": "refund", "currency": "USD", `
	payment := func(name, more string) string {
		return of + fmt.Sprintf(`"amount": 10, "counterparty": %q, "payment_key": %[1]q%s}`, name, more)
	}
	s.call(t, s.gateway, "POST", "/v1/checks", payment("open", ""), 200)

	copied := t.TempDir()
	db := must.Get(sql.Open("sqlite", filepath.Join(s.folder, cli.StoreFile)))(t)
	defer db.Close() //nolint:errcheck // of the test
	must.Get(db.ExecContext(t.Context(), "VACUUM INTO ?", filepath.Join(copied, cli.StoreFile)))(t)
	for _, name := range []string{"open", "later"} { // which is not in the copy
		s.call(t, s.gateway, "POST", "/v1/checks", payment(name, `, "redeem": "nonce-0123456789"`), 200)
	}
	restored := func(folder string) clitest.Result {
		return runWith(t, nil, "", "audit", "restored", "--data-dir", folder)
	}
	if r := restored(s.folder); r.Code == 0 {
		t.Errorf("beside a node: %+v", r)
	}
	if r := restored(t.TempDir()); r.Code == 0 {
		t.Errorf("of nothing: %+v", r)
	}
	first, second := restored(copied), restored(copied)
	first.Has(t, 0, "the record ends with chk_", "open approvals expired: 1", "webhooks disabled: 1", "payments")
	frozen := freezeID(t, first.Stdout)
	second.Has(t, 0, "open approvals expired: 0", "webhooks disabled: 0", frozen)

	restored(damaged(t, copied)).Has(t, 1, "the file is damaged")

	n := startDevIn(t, copied)
	code := func(key, path, body string) any {
		failed, _ := n.call(t, key, "POST", path, body, 409)["error"].(map[string]any)
		return failed["code"]
	}
	if got := code(s.gateway, "/v1/checks", payment("open", `, "redeem": "nonce-9876543210"`)); got != "frozen" {
		t.Errorf("a payment that is open in the copy: %v", got)
	}
	later := n.call(t, s.gateway, "POST", "/v1/checks", payment("later", `, "redeem": "nonce-9876543210"`), 200)
	if later["reason_code"] != "frozen" {
		t.Errorf("a payment that was redeemed after the copy: %v", later)
	}
	n.call(t, "", "POST", "/v1/freezes/"+frozen+"/release", `{"note": "compared with the ledger"}`, 200)
	got := code(s.gateway, "/v1/checks/"+s.checks["c-allowed"]+"/redeem", of+`"amount": 30, "counterparty": "c-allowed"}`)
	if got != "check_expired" {
		t.Errorf("a check from before the copy is redeemed: %v", got)
	}
	got = code(s.agent, "/v1/checks", of+fmt.Sprintf(`"amount": 60, "counterparty": "c-approved", "approval_id": %q}`, approval))
	if got != "approval_expired" {
		t.Errorf("an approval from before the copy is used: %v", got)
	}
	n.verify(t).Has(t, 0, "clean as far as it can be told")
}

// damaged returns a copy of a folder in whose store the page of idempotency keys is lost.
func damaged(t *testing.T, folder string) string {
	t.Helper()
	copied := t.TempDir()
	must.Do(t, os.CopyFS(copied, os.DirFS(folder)))
	path := filepath.Join(copied, cli.StoreFile)
	db := must.Get(sql.Open("sqlite", path))(t)
	var page, size int64
	const root = "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'idempotency_keys'"
	must.Do(t, errors.Join(db.QueryRowContext(t.Context(), root).Scan(&page, &size), db.Close()))
	file := must.Get(os.OpenFile(path, os.O_WRONLY, 0))(t)
	defer file.Close() //nolint:errcheck // of the test
	must.Get(file.WriteAt(make([]byte, size), (page-1)*size))(t)
	return copied
}
