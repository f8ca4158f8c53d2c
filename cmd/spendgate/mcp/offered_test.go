package mcp

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// listed returns the names of the tools that a session is offered.
func listed(t *testing.T, session *sdk.ClientSession) string {
	t.Helper()
	tools := must.Get(session.ListTools(t.Context(), nil))(t)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

const allTools = "check_financial_action create_policy get_policy list_violations report_outcome simulate_actions wait_for_approval"

// The list of tools follows the key's rights without a restart. If these cannot be found out, every
// tool is listed, the log says why, and the service decides about each call.
func TestToolsFollowTheKey(t *testing.T) {
	key := func(members string) string { return `200 {"key_id":"key_1","name":"n","active":true` + members + `}` }
	for _, c := range []struct {
		answer, want string
		doubt        bool
	}{
		{key(""), allTools, false},
		{key(`,"policy_ids":["p"],"principal":"till"`), allTools, false},
		{key(`,"role":"full"`), allTools, false},
		{key(`,"role":"agent"`), "check_financial_action get_policy list_violations report_outcome simulate_actions wait_for_approval", false},
		{key(`,"role":"author"`), "create_policy get_policy list_violations simulate_actions", false},
		{key(`,"role":"auditor"`), "get_policy list_violations simulate_actions wait_for_approval", false},
		{key(`,"role":"executor"`), "list_violations report_outcome", false},
		{key(`,"scopes":["checks:write"]`), "check_financial_action", false},
		{key(`,"scopes":["budgets:read"]`), "", false},
		{key(`,"scopes":["approvals:read"]`), "wait_for_approval", false},
		{key(`,"role":"treasurer"`), allTools, true},
		{key(`,"scopes":["checks:read","gifts:write"]`), allTools, true},
		{key(`,"scopes":"checks:read"`), allTools, true},
		{"200 {}", allTools, true},
		{"200 <html>", allTools, true},
		{`401 {"error":{"code":"api_key_inactive","message":"m","request_id":"req_1"}}`, allTools, true},
		{`404 {"error":{"code":"not_found","message":"m","request_id":"req_1"}}`, allTools, true},
		{`429 {"error":{"code":"rate_limit_exceeded","message":"m","request_id":"req_1"}}`, allTools, true},
		{`500 {"error":{"code":"internal_error","message":"m","request_id":"req_1"}}`, allTools, true},
		{"lost", allTools, true},
	} {
		var log bytes.Buffer
		s := serve(t, c.answer, key(`,"role":"agent","scopes":null`), "200 "+allowed)
		session := connect(t, newServer(t, s, &log, nil))
		if got := listed(t, session); got != c.want || strings.Contains(log.String(), "all tools are listed") != c.doubt {
			t.Errorf("%s: %s\n%s", c.answer, got, log.String())
		}
		if got := listed(t, session); strings.Contains(got, createPolicy) {
			t.Errorf("after the key was changed: %s", got)
		}
		callTool(t, session, checkAction,
			`{"agent_id":"a","policy_id":"p","action_type":"refund","amount":1,"currency":"USD","counterparty":"c"}`).
			check(t, false, "Decision: allow.")
		if s.requests[0] != "GET /v1/keys/self "+secret+" " || strings.Contains(log.String(), secret) {
			t.Errorf("%s\n%s", s.requests, log.String())
		}
	}
}

// Without a key the service is not asked about rights. PolicyWrites false hides create_policy from
// a key that may write policies.
func TestToolsFollowTheOptions(t *testing.T) {
	s := serve(t, `200 {"key_id":"key_1","role":"author"}`)
	if got := listed(t, connect(t, newServer(t, s, t.Output(), func(o *Options) { o.HasKey = false }))); got != allTools ||
		len(s.requests) != 0 {
		t.Error(got, s.requests)
	}
	if got := listed(t, connect(t, newServer(t, s, t.Output(), func(o *Options) { o.PolicyWrites = false }))); got !=
		"get_policy list_violations simulate_actions" {
		t.Error(got)
	}
}

// A service that hangs delays the list of tools but does not prevent it.
func TestToolsOfAServiceThatHangs(t *testing.T) {
	t.Parallel() // it waits for the timeout
	s := newBlockedService(t)
	server := newServer(t, &service{Server: s.Server}, io.Discard, func(o *Options) {
		api := must.Get(client.New(client.Options{BaseURL: s.URL, APIKey: secret, AttemptTimeout: time.Hour}))(t)
		o.Client = api
	})
	if got := listed(t, connect(t, server)); got != allTools {
		t.Error(got)
	}
}
