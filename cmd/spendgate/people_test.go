package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/cli/clitest"
	"spendgate/hotpath/client"
)

// devNode is a node in this process, with the keys that it made.
type devNode struct {
	url, admin, sample string
	folder             string
}

func startDev(t *testing.T, more ...string) devNode {
	t.Helper()
	return startDevIn(t, t.TempDir(), more...)
}

func startDevIn(t *testing.T, folder string, more ...string) devNode {
	t.Helper()
	log, ended := new(clitest.Log), make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		environ := append(slices.Clip(more), "SPENDGATE_DATA_DIR="+folder, "SPENDGATE_LISTEN_ADDR=127.0.0.1:0", "SPENDGATE_OPS_ADDR=127.0.0.1:0")
		ended <- run(ctx, cli.Process{Stdout: new(bytes.Buffer), Stderr: log, Environ: environ}, []string{"dev"})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	var found []string
	for until := time.Now().Add(time.Minute); found == nil; time.Sleep(20 * time.Millisecond) {
		if found = log.Find(`listening.*(?:api"?[=:]"?)(127\.0\.0\.1:\d+)`); time.Now().After(until) {
			t.Fatal(log.String())
		}
	}
	read := func(name string) string {
		for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			text, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // the node's own
			if err == nil && len(text) > 0 {
				return strings.TrimSpace(string(text))
			}
			if time.Now().After(until) {
				t.Fatal(err)
			}
		}
	}
	return devNode{"http://" + found[1], read(adminKeyFile), read(sampleKeyFile), folder}
}

// as runs the program with a key. With terminal, somebody can answer questions.
func (n devNode) as(t *testing.T, key string, terminal bool, stdin string, args ...string) clitest.Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	environ := []string{"SPENDGATE_API_URL=" + n.url, "SPENDGATE_ADMIN_KEY=" + n.admin, "SPENDGATE_API_KEY=" + key}
	p := cli.Process{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Environ: environ, Terminal: terminal}
	code := run(t.Context(), p, args)
	return clitest.Result{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// TestCommandsOfPeople: a person at a terminal looks at what happened on a node, and decides (S82).
func TestCommandsOfPeople(t *testing.T) {
	n := startDev(t)
	file := filepath.Join(t.TempDir(), "p.json")
	policy := `{"policy_id": "p", "name": "P", "rules": [
		{"rule_id": "ask", "rule_type": "escalate_if", "parameters": {"amount_above": 50, "approval": {}}},
		{"rule_id": "day", "rule_type": "budget", "parameters": {"limit": 1000, "currency": "USD", "window": "day", "per": ["agent_id"]}}]}`
	must.Do(t, os.WriteFile(file, []byte(policy), 0o600))
	n.as(t, n.sample, false, "", "policies", "apply", "-f", file).Has(t, 0, "p version 1")
	made := n.as(t, "", false, "", "keys", "create", "--name", "ann", "--role", "approver", "--principal", "ann", "--group", "support")
	made.Has(t, 0, "groups:      support")
	person := strings.Fields(made.Stdout[strings.Index(made.Stdout, "API key:"):])[2]
	checkIDs := make(map[string]string) // by counterparty
	for counterparty, amount := range map[string]string{"c-allowed": "10", "c-first": "60", "c-second": "70"} {
		checkIDs[counterparty] = n.check(t, counterparty, amount)
	}

	n.as(t, n.sample, false, "", "checks", "list", "--policy-id", "p").Has(t, 0, "CHECK ID", checkIDs["c-first"], "60.00 USD", "escalate",
		"c-second")
	if got := n.as(t, n.sample, false, "", "checks", "list", "--policy-id", "p", "--decision", "allow", "--output",
		"json"); strings.Count(got.Stdout, `"check_id"`) != 1 || !strings.Contains(got.Stdout, checkIDs["c-allowed"]) {
		t.Errorf("allowed: %+v", got)
	}
	if got := n.as(t, n.sample, false, "", "checks", "list", "--limit", "2", "--json"); strings.Count(got.Stdout, `"check_id"`) != 2 {
		t.Errorf("two: %+v", got)
	}
	n.as(t, n.sample, false, "", "checks", "list", "--limit", "-1").Has(t, 2, "must be a whole number of 0 or more")
	got := n.as(t, n.sample, false, "", "checks", "list", "--action-type", "refund", "--reason-code", "escalation_threshold_exceeded")
	if got.Has(t, 0, checkIDs["c-first"], checkIDs["c-second"]); strings.Contains(got.Stdout, checkIDs["c-allowed"]) {
		t.Errorf("by reason code: %+v", got)
	}
	n.as(t, n.sample, false, "", "checks", "list", "--decision", "allow", "--json").Has(t, 0, `"violated_rule_id": null`, `"metadata": null`)
	n.as(t, n.sample, false, "", "checks", "show", checkIDs["c-first"]).Has(t, 0, "counterparty:", "c-first", "decision:", "escalate",
		"rule:", "ask")
	n.as(t, n.sample, false, "", "checks", "show", checkIDs["c-first"], "--output", "json").Has(t, 0, `"counterparty": "c-first"`)
	n.as(t, n.sample, false, "", "budgets").Has(t, 0, "agent_id=a", "10.00 USD", "990.00 USD")
	n.as(t, n.sample, false, "", "budgets", "--policy-id", "p", "--output", "json").
		Has(t, 0, `"used": 10`, `"max_count": null`, `"remaining_count": null`)
	n.as(t, n.sample, false, "", "events", "tail", "--no-follow").Has(t, 0, "approval.requested", "approval_id=apr_", "policy_id=p")
	n.as(t, n.sample, false, "", "events", "tail", "--no-follow", "--type", "approval.requested", "--output", "json").
		Has(t, 0, `"type":"approval.requested"`)
	n.as(t, "", false, "", "webhooks").Has(t, 0, "WEBHOOK ID")
	n.as(t, "", false, "", "webhooks", "--output", "json").Has(t, 0, "[]")
	n.as(t, n.sample, false, "", "checks", "list", "--output", "xml").Has(t, 2, "--output cannot be \"xml\": must be json or table")

	// Without a terminal nothing is chosen.
	n.as(t, person, false, "1\nyes\n", "approvals", "approve").Has(t, 2, "needs one APPROVAL_ID")
	n.as(t, person, true, "3\nyes\n", "approvals", "approve").Has(t, 1, "no number of the list")
	n.as(t, person, true, "2\nno\n", "approvals", "approve").Has(t, 1, "nothing was decided")
	listed := n.as(t, person, false, "", "approvals", "list", "--mine")
	listed.Has(t, 0, "c-first", "c-second")
	second := regexp.MustCompile(`(?m)^2  a .*(c-\w+)`).FindStringSubmatch(n.as(t, person, true, "x\n", "approvals", "approve").Stderr)
	if second == nil {
		t.Fatal("no list")
	}
	// A script that names the approval is not asked; a person is.
	third := regexp.MustCompile("apr_[0-9a-f]+").FindString(n.as(t, person, false, "", "approvals", "list", "--mine").Stdout)
	n.as(t, person, true, "no\n", "approvals", "approve", third).Has(t, 1, "nothing was decided")
	n.as(t, person, true, "", "approvals", "approve", third).Has(t, 1, "nothing was decided")
	n.as(t, person, false, "apr_1\n", "approvals", "approve", third).Has(t, 1, "nothing was decided")
	n.as(t, person, true, "2\nyes\n", "approvals", "approve", "--note", "seen").Has(t, 0, "status:              approved", second[1],
		"Type 1 to 2:")
	n.as(t, person, true, "1\nyes\n", "approvals", "deny", "--output", "json").Has(t, 0, `"status": "denied"`, "Deny exactly this action?")
	n.as(t, person, true, "1\nyes\n", "approvals", "deny").Has(t, 1, "no approval waits for this key")
	n.check(t, "c-third", "80")
	last := regexp.MustCompile("apr_[0-9a-f]+").FindString(n.as(t, person, false, "", "approvals", "list", "--mine").Stdout)
	n.as(t, person, false, "", "approvals", "approve", last, "--output", "json").Has(t, 0, `"status": "approved"`)
	n.as(t, n.sample, false, "", "events", "tail", "--no-follow", "--type", "approval.denied,approval.approved").
		Has(t, 0, "approval.denied", "approval.approved")
	n.follows(t)
}

// check asks, and returns the check_id.
func (n devNode) check(t *testing.T, counterparty, amount string) string {
	t.Helper()
	api := must.Get(cli.KeyAPI(cli.Process{Environ: []string{"SPENDGATE_API_URL=" + n.url, "SPENDGATE_API_KEY=" + n.sample}}))(t)
	a := client.Action{AgentID: "a", PolicyID: "p", ActionType: client.Refund, Currency: "USD", Counterparty: counterparty}
	must.Do(t, a.Amount.UnmarshalJSON([]byte(amount)))
	asked := must.Get(api.Check(t.Context(), a))(t)
	return asked.CheckID
}

// follows: events that happen meanwhile are printed, until an interrupt.
func (n devNode) follows(t *testing.T) {
	t.Helper()
	out, ended := new(clitest.Log), make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		environ := []string{"SPENDGATE_API_URL=" + n.url, "SPENDGATE_API_KEY=" + n.sample}
		ended <- run(ctx, cli.Process{Stdout: out, Stderr: out, Environ: environ},
			[]string{"events", "tail", "--from", time.Now().UTC().Format(time.RFC3339), "--type", "approval.requested"})
	}()
	for until := time.Now().Add(time.Minute); out.Find(`approval\.requested +approval_id`) == nil; time.Sleep(50 * time.Millisecond) {
		n.check(t, "c-"+time.Now().String(), "80")
		if time.Now().After(until) {
			t.Fatal(out.String())
		}
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d: %s", code, out.String())
	}
}
