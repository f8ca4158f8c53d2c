package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"spendgate/cmd/spendgate/cli/clitest"
)

// TestGrantCommands: somebody raises a budget for a day, another approves it, and it ends (S91).
func TestGrantCommands(t *testing.T) {
	s := &story{devNode: startDev(t), checks: make(map[string]string)}
	const policy = `{"policy_id":"g","name":"g","changes":{"required":1},"rules":[
		{"rule_id":"daily","rule_type":"budget","parameters":{"limit":100,"currency":"USD","per":["agent_id"],"window":"lifetime"}}]}`
	s.call(t, s.newKey(t, `"role": "full", "principal": "eve"`), "POST", "/v1/policies", policy, 201)
	cli := func(key string, args ...string) clitest.Result {
		return runWith(t, []string{"SPENDGATE_API_URL=" + s.url, "SPENDGATE_API_KEY=" + key, "HOME=" + s.folder}, "", args...)
	}
	ann, bo := s.newKey(t, `"role": "approver", "principal": "ann"`), s.newKey(t, `"role": "approver", "principal": "bo"`)
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	made := cli(ann, "grants", "create", "--policy", "g", "--rule", "daily", "--per", "agent_id=bot", "--add-amount", "50.5", "--until", until,
		"--note", "a busy day")
	made.Has(t, 0, " pending: 1 of 1 people are missing", "WARNING: nothing is counted for agent_id=bot in this window")
	id := regexp.MustCompile("grt_[0-9a-f]{32}").FindString(made.Stdout)
	cli(bo, "approvals", "list", "--mine").Has(t, 0, id, "grant", "50.50 USD", "agent_id=bot", "1 missing")
	cli(bo, "grants", "approve", id, "--note", "fine").Check(t, 0, id+" open", "")
	cli(bo, "budgets", "--policy-id", "g", "--agent-id", "bot").Has(t, 0, "100.00 USD + 50.50 USD", "150.50 USD")
	cli(ann, "grants", "list", "--status", "open").Has(t, 0, id, "agent_id=bot", "50.50 USD", "ann", "a busy day")
	cli(ann, "grants", "revoke", id).Check(t, 0, id+" revoked", "")
	s.call(t, s.newKey(t, `"role": "full", "principal": "eve"`), "POST", "/v1/policies", strings.Replace(
		strings.Replace(policy, `"changes":{"required":1},`, "", 1), `"g"`, `"full"`, 1), 201)
	s.call(t, s.newKey(t, `"role": "agent", "principal": "bot"`), "POST", "/v1/checks", `{
		"agent_id":"bot","policy_id":"full","action_type":"refund","amount":100,"currency":"USD",
		"counterparty":"c","idempotency_key":"all"}`, 200)
	s.call(t, s.newKey(t, `"role": "full", "principal": "eve"`), "POST", "/v1/policies", strings.Replace(strings.Replace(
		strings.Replace(policy, `"changes":{"required":1},`, "", 1), `"g"`, `"full"`, 1), `"limit":100`, `"limit":50`, 1), 201)
	cli(ann, "grants", "create", "--policy", "full", "--rule", "daily", "--per", "agent_id=bot", "--add-amount", "50", "--until", until,
		"--note", "n").Has(t, 0, " open", "WARNING: the counter is still full")
	cli(ann, "grants", "create", "--policy", "g", "--add-count", "5").Check(t, 2, "", "needs --rule, --until, --note\n")
	for _, wrong := range []string{
		"grants create", "grants create --policy g --rule daily --note n --until " + until, "grants approve", "grants revoke a b",
	} {
		cli(ann, strings.Fields(wrong)...).Check(t, 2, "", "Try: spendgate ")
	}
}
