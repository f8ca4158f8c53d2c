package mcp_test

import (
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// escalated stores a policy that asks for approvals, has it escalate an action, and returns the
// approval.
func escalated(t *testing.T, session *sdk.ClientSession, counterparty string) string {
	t.Helper()
	call(t, session, "create_policy", map[string]any{"policy_id": "ask", "name": "n", "rules": []any{
		map[string]any{
			"rule_id": "review", "rule_type": "escalate_if", "parameters": map[string]any{"amount_above": 200, "approval": map[string]any{}},
		},
		map[string]any{"rule_id": "day", "rule_type": "budget", "parameters": map[string]any{"limit": 1000, "currency": "USD", "window": "day"}},
	}})
	text, isError := call(t, session, "check_financial_action", asking(counterparty, ""))
	id := regexp.MustCompile(`Approval: (apr_[0-9a-f]+) is pending. Pending is not approved`).FindStringSubmatch(text)
	if isError || id == nil {
		t.Fatal(text)
	}
	return id[1]
}

func asking(counterparty, approvalID string) map[string]any {
	a := map[string]any{
		"agent_id": "a", "policy_id": "ask", "action_type": "refund", "amount": 300, "currency": "USD", "counterparty": counterparty,
	}
	if approvalID != "" {
		a["approval_id"] = approvalID
	}
	return a
}

// approved has a person approve the agent's action, and the agent carry it out once.
func approved(t *testing.T, p *program) {
	session := p.stdio(t)
	approvalID := escalated(t, session, "asked")
	if text, isError := call(t, session, "check_financial_action", asking("asked", approvalID)); !isError ||
		!strings.Contains(text, "Error approval_not_approved (HTTP 409)") {
		t.Error(text)
	}

	admin := must.Get(client.New(client.Options{BaseURL: p.node.API, AdminKey: p.node.AdminKey}))(t)
	made := must.Get(admin.CreateKey(t.Context(), client.KeyRequest{Name: "person", Grants: client.Grants{Role: "approver"}}))(t)
	person := must.Get(client.New(client.Options{BaseURL: p.node.API, APIKey: made.APIKey}))(t)
	pending := must.Get(person.Approval(t.Context(), approvalID, 0))(t)
	go func() {
		if _, err := person.Approve(t.Context(), approvalID, pending.ActionHash, "fine"); err != nil {
			t.Error(err)
		}
	}()
	for _, step := range []struct {
		tool      string
		arguments map[string]any
		want      string
	}{
		{"wait_for_approval", map[string]any{"approval_id": approvalID}, "is approved.\n"},
		{"check_financial_action", asking("asked", approvalID), "Decision: allow."},
		{"check_financial_action", asking("asked", approvalID), "Error approval_already_used (HTTP 409): the approval was used by check chk_"},
		{"wait_for_approval", map[string]any{"approval_id": approvalID}, "is used.\n"},
	} {
		if text, _ := call(t, session, step.tool, step.arguments); !strings.Contains(text, step.want) {
			t.Errorf("%s: no %q in %s", step.tool, step.want, text)
		}
	}
}
