package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// toolsOfRoles checks for each role that the tools offered are those that the service permits,
// before and after the key is changed.
func toolsOfRoles(t *testing.T, p *program) {
	admin := must.Get(client.New(client.Options{BaseURL: p.node.API, AdminKey: p.node.AdminKey}))(t)
	made := must.Get(admin.CreateKey(t.Context(), client.KeyRequest{Name: "roles", RateLimitRPM: new(1000)}))(t)
	session := p.stdioAs(t, made.APIKey)
	approvalID := escalated(t, session, "roles")
	calls := map[string]map[string]any{
		"check_financial_action": refund("1", "roles"),
		"create_policy": {"policy_id": "roles", "name": "n", "rules": []any{
			map[string]any{"rule_id": "r", "rule_type": "max_amount", "parameters": map[string]any{"limit": json.Number("1")}},
		}},
		"get_policy":        {"policy_id": "refund-desk"},
		"list_violations":   {},
		"simulate_actions":  {"policy_id": "refund-desk", "actions": []any{refund("1", "roles")}},
		"wait_for_approval": {"approval_id": approvalID, "wait_seconds": 0},
	}
	for role, count := range map[string]int{"agent": 6, "author": 4, "approver": 4, "executor": 2, "auditor": 4, "full": 7} {
		must.Get(admin.UpdateKey(t.Context(), made.KeyID, client.KeyChange{Grants: client.Grants{Role: role}}))(t)
		offered := outputSchemas(t, session)
		if len(offered) != count {
			t.Errorf("%s is offered %d tools, not %d", role, len(offered), count)
		}
		for tool, arguments := range calls {
			text, isError := call(t, session, tool, arguments)
			if _, listed := offered[tool]; listed == isError ||
				isError != strings.Contains(text, "Error forbidden (HTTP 403): the key lacks the scope ") {
				t.Errorf("%s, %s: offered %v, %s", role, tool, listed, text)
			}
		}
	}
}
