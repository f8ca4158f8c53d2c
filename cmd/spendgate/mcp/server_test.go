package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"spendgate/bench/must"
)

// Every argument of every tool reaches the API, digit by digit.
func TestArgumentsReachTheAPI(t *testing.T) {
	policy := `{"policy_id":"p/1","name":"n","version":2,"rules":[{"rule_id":"r","rule_type":"max_amount","parameters":{"limit":1.50}}],` +
		`"metadata":null}`
	for _, test := range []struct{ tool, arguments, answer, want string }{
		{
			checkAction, `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":999999999999999.9001,"currency":"USD",` +
				`"counterparty":"c",` +
				`"payment_method":"card","merchant_or_vendor":"m","reason_text":"<why>","idempotency_key":"k","approval_id":"apr_1",` +
				`"metadata":{"discount_percent":12.345678901234567,"x":[1.10]}}`,
			"200 " + allowed,
			`POST /v1/checks ` + secret +
				` {"agent_id":"a","policy_id":"p","action_type":"refund","amount":999999999999999.9001,"currency":"USD","counterparty":"c",` +
				`"payment_method":"card","merchant_or_vendor":"m","reason_text":"<why>","idempotency_key":"k","approval_id":"apr_1",` +
				`"metadata":{"discount_percent":12.345678901234567,"x":[1.10]}}`,
		},
		{
			createPolicy, `{"policy_id":"p","name":"n","description":"d","rules":[{"rule_id":"r","rule_type":"max_amount","description":"d",` +
				`"parameters":{"limit":1.50}}],"metadata":{"k":1.0}}`, "201 " + policy,
			`POST /v1/policies ` + secret + ` {"policy_id":"p","name":"n","description":"d","rules":[{"rule_id":"r","rule_type":"max_amount",` +
				`"description":"d","parameters":{"limit":1.50}}],"metadata":{"k":1.0}}`,
		},
		{
			createPolicy, `{"rules":[{"rule_id":"r","rule_type":"x","parameters":{"limit":1.50}}],"replaces":2.0,"name":"n"}`, "201 " + policy,
			`POST /v1/policies ` + secret + ` If-Match: 2 {"name":"n","rules":[{"rule_id":"r","rule_type":"x","parameters":{"limit":1.50}}]}`,
		},
		{
			createPolicy, `{"replaces":0,"name":"n","rules":[]}`, "201 " + policy,
			`POST /v1/policies ` + secret + ` If-Match: 0 {"name":"n","rules":[]}`,
		},
		{
			createPolicy, `{"replaces":null,"name":"n","rules":[]}`, "201 " + policy,
			`POST /v1/policies ` + secret + ` {"name":"n","rules":[]}`,
		},
		{getPolicy, `{"policy_id":"p/1","version":2}`, "200 " + policy, `GET /v1/policies/p%2F1?version=2 ` + secret + ` `},
		{getPolicy, `{"policy_id":"p/1","version":null}`, "200 " + policy, `GET /v1/policies/p%2F1 ` + secret + ` `},
		{
			simulateActions, `{"policy_id":"p","actions":[{"agent_id":"a","amount":0.10,"currency":"USD","counterparty":"c","reason_text":"r",` +
				`"metadata":{"n":1.10}}]}`,
			`200 {"mode":"demo","policy_id":"p","policy_version":1,"results":[` + allowed +
				`],"summary":{"total":1,"allowed":1,"blocked":0,"escalated":0}}`,
			`POST /v1/simulate ` + secret + ` {"policy_id":"p","actions":[{"agent_id":"a","policy_id":"p","amount":0.1,"currency":"USD",` +
				`"counterparty":"c","reason_text":"r","metadata":{"n":1.10}}]}`,
		},
		{
			listViolations, `{"agent_id":"a","action_type":"spend","decision":"block","from":"2026-01-01","to":"2026-01-02","limit":7,"cursor":"x"}`,
			`200 {"data":[],"pagination":{"next_cursor":null,"has_more":false,"total_count":0}}`,
			`GET /v1/violations?action_type=spend&agent_id=a&cursor=x&decision=block&from=2026-01-01&limit=7&to=2026-01-02 ` + secret + ` `,
		},
		{
			listViolations, `{"limit":5.0}`, `200 {"data":[],"pagination":{"next_cursor":null,"has_more":false,"total_count":0}}`,
			`GET /v1/violations?limit=5 ` + secret + ` `,
		},
		{getPolicy, `{"policy_id":"p/1","version":2e0}`, "200 " + policy, `GET /v1/policies/p%2F1?version=2 ` + secret + ` `},
		{waitForApproval, `{"approval_id":"apr_1","wait_seconds":0}`, "200 " + approvalIs("pending"), `GET /v1/approvals/apr_1 ` + secret + ` `},
		{listViolations, `{}`, `200 {"data":[],"pagination":{"next_cursor":null,"has_more":false,"total_count":0}}`, `GET /v1/violations ` +
			secret + ` `},
	} {
		s := serve(t, test.answer)
		callTool(t, connect(t, newServer(t, s, io.Discard, nil)), test.tool, test.arguments).check(t, false)
		if len(s.requests) != 1 || s.requests[0] != test.want {
			t.Errorf("%s sent\n%s\nwant\n%s", test.tool, strings.Join(s.requests, "\n"), test.want)
		}
	}
}

// Arguments that do not fit are refused by name, before anything is sent.
func TestArgumentsAreRefused(t *testing.T) {
	s := serve(t, "200 "+allowed)
	session := connect(t, newServer(t, s, io.Discard, nil))
	for _, test := range []struct{ tool, arguments, want string }{
		{checkAction, `{"agent_id":"a","amuont":1}`, "amuont is not known: there are agent_id, policy_id, action_type, amount,"},
		{
			checkAction, `{"agent_id":"a","amount":null}`,
			"policy_id is required; amount is required; currency is required; counterparty is required",
		},
		{checkAction, fmt.Sprintf(arguments, `"42.50"`), "amount must be a number"},
		{checkAction, fmt.Sprintf(arguments, `-1`), "amount must be 0 or more"},
		{checkAction, fmt.Sprintf(arguments, `1.0000000001`), "amount must have at most 18 integer and 9 fraction digits"},
		{checkAction, fmt.Sprintf(arguments, `1,"amount":2`), "no name twice"},
		{checkAction, `{"metadata":[]}`, "metadata must be an object"},
		{checkAction, `{"metadata":{"country":1}}`, "metadata.country must be a string"},
		{checkAction, `[]`, "arguments must be an object"},
		{simulateActions, `{"policy_id":"p","actions":[{},{"amount":true,"nope":1}]}`, "actions[1].amount must be a number"},
		{simulateActions, `{"policy_id":"p","actions":{}}`, "actions must be an array"},
		{getPolicy, `{"policy_id":"p","version":0}`, "version must be 1 or more"},
		{getPolicy, `{"policy_id":"p","version":"2"}`, "version must be an integer"},
		{getPolicy, `{"policy_id":"p","version":1.5}`, "version must be an integer"},
		{getPolicy, `{"policy_id":"p","version":1e30}`, "version must be an integer"},
		{getPolicy, `{"policy_id":" "}`, "policy_id is required"},
		{waitForApproval, `{"wait_seconds":50.1}`, "wait_seconds must be 50 or less; approval_id is required"},
		{listViolations, `{"decision":"allowed"}`, `decision unknown decision "allowed"`},
		{createPolicy, `{"name":"n","rules":[{"rule_id":"r","type":"x"}]}`, "rules[0].type is not known"},
		{createPolicy, `{"name":"n","rules":[],"replaces":-1}`, "replaces must be 0 or more"},
		{createPolicy, `{"name":"n","rules":[],"replaces":"2"}`, "replaces must be an integer"},
		{createPolicy, `{"name":"n","rules":[],"replaces":1.5}`, "replaces must be an integer"},
	} {
		callTool(t, session, test.tool, test.arguments).check(t, true, test.want)
	}
	if len(s.requests) != 0 {
		t.Errorf("sent %v", s.requests)
	}
}

// A refusal by the API, or no response, is a tool error that says what to do; no part of it reads
// like an allow.
func TestErrorsOfTheAPI(t *testing.T) {
	body := func(code string) string {
		return fmt.Sprintf(`{"error":{"code":%q,"message":"because of this","request_id":"req_1"}}`, code)
	}
	for answer, wants := range map[string][]string{
		"404 " + body("policy_not_found"): {
			"Error policy_not_found (HTTP 404): because of this", "req_1", "Do not carry the action out.",
		},
		"422 " + body("validation_error"):    {"Error validation_error (HTTP 422): because of this"},
		"401 " + body("api_key_inactive"):    {"Error api_key_inactive (HTTP 401)"},
		"429 " + body("rate_limit_exceeded"): {"Error rate_limit_exceeded (HTTP 429)", "Retry after: 17 seconds"},
		"500 " + body("internal_error"): {
			"Error internal_error (HTTP 500)", "call again with exactly the same arguments", "idempotency_key go-",
		},
		"lost":       {"no answer from the service", "call again with exactly the same arguments"},
		"200 <html>": {"cannot be understood", "There is no decision"},
		"200 " + strings.Replace(allowed, "allow", "maybe", 1): {"unknown decision", "There is no decision"},
	} {
		log := new(bytes.Buffer)
		got := callTool(t, connect(t, newServer(t, serve(t, answer), log, nil)), checkAction, fmt.Sprintf(arguments, "1"))
		got.check(t, true, wants...)
		if strings.Contains(got.text+log.String(), secret) || strings.Contains(got.text, "Decision: allow") {
			t.Errorf("%s\n%s", got.text, log)
		}
	}
}

func TestDecisions(t *testing.T) {
	blocked := strings.NewReplacer(`"allow"`, `"block"`, `"reason_code":null`, `"reason_code":"max_amount_exceeded"`,
		`"violated_rule_id":null`, `"violated_rule_id":"cap"`).Replace(allowed)
	got := callTool(t, connect(t, newServer(t, serve(t, "200 "+allowed), io.Discard, nil)), checkAction, fmt.Sprintf(arguments, "1"))
	got.check(t, false, "Decision: allow.", "Next step: Proceed.", "Check: chk_1")
	want := strings.Replace(allowed, "{", `{"proceed":true,"outcome":null,"release_pending":false,"replayed":false,`, 1)
	if text, _, _ := strings.Cut(got.text, "\n"); sortedMembers(t, text) != sortedMembers(t, want) ||
		sortedMembers(t, got.structured) != sortedMembers(t, want) {
		t.Errorf("%s\n%s", text, got.structured)
	}
	got = callTool(t, connect(t, newServer(t, serve(t, "200 "+blocked), io.Discard, nil)), checkAction, fmt.Sprintf(arguments, "1"))
	got.check(t, false, "Decision: block.", "Rule: cap", "Reason: max_amount_exceeded")
}

func sortedMembers(t *testing.T, object string) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatal(err, object)
	}
	return fmt.Sprint(members)
}

// Without a key only the simulation works; the other tools say why they do not.
func TestWithoutAKey(t *testing.T) {
	s := serve(t, `404 {"error":{"code":"policy_not_found","message":"none","request_id":"req_1"}}`)
	session := connect(t, newServer(t, s, io.Discard, func(o *Options) { o.HasKey = false }))
	for _, tool := range []string{checkAction, createPolicy, getPolicy, listViolations, waitForApproval} {
		callTool(t, session, tool, `{}`).check(t, true, "SPENDGATE_API_KEY")
	}
	if len(s.requests) != 0 {
		t.Error(s.requests)
	}
	callTool(t, session, simulateActions, `{"policy_id":"p","actions":[]}`).check(t, true, "policy_not_found")
}

// A call repeated after a failure asks for the same check; repeated after an answer it asks for a
// new one.
func TestIdempotencyKeys(t *testing.T) {
	failed := `500 {"error":{"code":"internal_error","message":"m","request_id":"req_1"}}`
	s := serve(t, failed, "lost", "200 "+allowed, "200 "+allowed, failed, "200 "+allowed)
	session := connect(t, newServer(t, s, io.Discard, nil))
	other := strings.Replace(fmt.Sprintf(arguments, "42.50"), `"c"`, `"d"`, 1)
	spelt := `{"counterparty":"c","currency":"USD","amount":4250e-2,"action_type":"refund","policy_id":"p","agent_id":"a",` +
		`"payment_method":null}`
	for _, arguments := range []string{
		fmt.Sprintf(arguments, "42.50"), // fails
		spelt,                           // fails again: the same call, spelt differently
		other,                           // another call in between
		fmt.Sprintf(arguments, "42.5"),  // is answered
		fmt.Sprintf(arguments, "42.5"),  // a new check; fails
		fmt.Sprintf(arguments, `42.5,"idempotency_key":" "`),
	} {
		callTool(t, session, checkAction, arguments)
	}
	k := s.keys(t)
	if k[0] != k[1] || k[0] != k[3] || k[2] == k[0] || k[4] == k[0] || k[5] != k[4] {
		t.Errorf("keys %v", k)
	}
}

// A refusal because of the rate limit or the API key leaves the outcome of an earlier call unknown,
// so the next call is still the same check.
func TestKeyOutlastsRefusals(t *testing.T) {
	refused := func(code string) string {
		return fmt.Sprintf(`%s {"error":{"code":"c","message":"m","request_id":"req_1"}}`, code)
	}
	s := serve(t, "lost", refused("429"), refused("401"), refused("403"), "200 "+allowed, "lost", refused("422"), "200 "+allowed)
	session := connect(t, newServer(t, s, io.Discard, nil))
	for range 8 {
		callTool(t, session, checkAction, fmt.Sprintf(arguments, "1"))
	}
	k := s.keys(t)
	if k[1] != k[0] || k[2] != k[0] || k[3] != k[0] || k[4] != k[0] || k[5] == k[0] || k[6] != k[5] || k[7] == k[5] {
		t.Errorf("keys %v", k)
	}
}

// A key that an error named is used up once a call has asked with it.
func TestNamedKeyIsUsedUp(t *testing.T) {
	s := serve(t, "lost", "200 "+allowed, "200 "+allowed)
	session := connect(t, newServer(t, s, io.Discard, nil))
	callTool(t, session, checkAction, fmt.Sprintf(arguments, "1"))
	named := s.keys(t)[0]
	callTool(t, session, checkAction, fmt.Sprintf(arguments, `1,"idempotency_key":"`+named+`"`))
	callTool(t, session, checkAction, fmt.Sprintf(arguments, "1"))
	if k := s.keys(t); k[1] != named || k[2] == named {
		t.Errorf("keys %v", k)
	}
}

// An idempotency key that a caller chose belongs to that caller: the same call of another caller,
// without a key, does not get its answer.
func TestNamedKeyIsNotGivenAway(t *testing.T) {
	s := serve(t, "lost", "200 "+allowed)
	session := connect(t, newServer(t, s, io.Discard, nil))
	callTool(t, session, checkAction, fmt.Sprintf(arguments, `1,"idempotency_key":"mine"`))
	callTool(t, session, checkAction, fmt.Sprintf(arguments, "1"))
	if k := s.keys(t); k[0] != "mine" || k[1] == "mine" {
		t.Errorf("keys %v", k)
	}
}

func TestToolsAreDescribed(t *testing.T) {
	tools, err := connect(t, newServer(t, serve(t, ""), io.Discard, nil)).ListTools(t.Context(), nil)
	must.Do(t, err)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		for i, s := range []any{tool.InputSchema, tool.OutputSchema} {
			text := must.Get(json.Marshal(s))(t)
			var schema jsonschema.Schema
			if err := json.Unmarshal(text, &schema); err != nil || schema.Type != "object" {
				t.Fatal(err, string(text))
			}
			plain(t, tool.Name, &schema, i == 1)
		}
		hints := tool.Annotations
		reads := tool.Name != checkAction && tool.Name != createPolicy && tool.Name != reportOutcome
		if hints.ReadOnlyHint != reads || hints.IdempotentHint != reads || *hints.DestructiveHint != (tool.Name == createPolicy) ||
			*hints.OpenWorldHint {
			t.Errorf("%s: %+v", tool.Name, hints)
		}
		if len(tool.Description) < 100 || tool.Title == "" {
			t.Errorf("%s is not described", tool.Name)
		}
		const guess = `never report a guess as "failed", and do not pay again`
		if tool.Name == reportOutcome && !strings.Contains(tool.Description, guess) {
			t.Error("a model that does not know whether the money moved may report a guess, and pay again")
		}
	}
	if strings.Join(names, " ") != allTools {
		t.Error(names)
	}
	for page, form := range map[string]string{"../../../docs/use/tool-server.md": "| `%s` | `%s` | ", "../mcp.go": "%[1]s"} {
		text := must.Get(os.ReadFile(page))(t)
		for _, tool := range new(Server).tools() {
			if row := fmt.Sprintf(form, tool.name, tool.scope); !strings.Contains(string(text), row) {
				t.Errorf("%s does not have %q", page, row)
			}
		}
	}
	tools, err = connect(t, newServer(t, serve(t, ""), io.Discard, func(o *Options) { o.PolicyWrites = false })).ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != len(names)-1 {
		t.Fatal(tools, err)
	}
	for _, tool := range tools.Tools {
		if tool.Name == createPolicy {
			t.Error("create_policy is listed")
		}
	}
}

// Only the description of a check says that the action may be carried out.
func TestOnlyAChecksAllowPermits(t *testing.T) {
	tools := must.Get(connect(t, newServer(t, serve(t, ""), io.Discard, nil)).ListTools(t.Context(), nil))(t)
	for _, tool := range tools.Tools {
		text := must.Get(json.Marshal(tool.OutputSchema))(t)
		if permits := strings.Contains(string(text), "carry out exactly this action"); permits != (tool.Name == checkAction) {
			t.Errorf("%s permits: %v", tool.Name, permits)
		}
	}
}

// plain checks that every property has a description and one type, no union. Properties of answers
// may also be null.
func plain(t *testing.T, path string, s *jsonschema.Schema, answer bool) {
	t.Helper()
	if answer && len(s.Types) == 2 && s.Types[1] == "null" {
		s.Type, s.Types = s.Types[0], nil
	}
	if s.Type == "" || len(s.Types) > 0 || len(s.AnyOf)+len(s.OneOf)+len(s.AllOf) > 0 {
		t.Errorf("%s has no single type: %v", path, s)
	}
	for name, property := range s.Properties {
		if property.Description == "" {
			t.Errorf("%s.%s is not described", path, name)
		}
		plain(t, path+"."+name, property, answer)
	}
	if s.Items != nil {
		plain(t, path+"[]", s.Items, answer)
	}
}

// A client that writes its calls and closes the stream gets all answers.
func TestInputThatEnds(t *testing.T) {
	var out bytes.Buffer
	in := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"check_financial_action","arguments":` + fmt.Sprintf(arguments, "1") + `}}
`
	s := newServer(t, serve(t, "200 "+allowed), io.Discard, nil)
	if err := s.ServeStdio(t.Context(), strings.NewReader(in), &out); err != nil || !strings.Contains(out.String(), "Decision: allow.") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A server that is stopped finishes the call in flight.
func TestStopFinishesCalls(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stop()
		time.Sleep(50 * time.Millisecond) // the stop comes first
		w.Header().Set("X-Request-Id", "req_1")
		io.WriteString(w, allowed) //nolint:errcheck // the client would notice
	}))
	defer api.Close()
	in, feed := io.Pipe()
	defer feed.Close() //nolint:errcheck // never fails
	var out bytes.Buffer
	ended := make(chan error)
	server := newServer(t, &service{Server: api}, io.Discard, nil)
	go func() { ended <- server.ServeStdio(ctx, in, &out) }()
	messages := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"check_financial_action","arguments":` + fmt.Sprintf(arguments, "1") + "}}\n"
	if _, err := io.WriteString(feed, messages); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil || !strings.Contains(out.String(), "Decision: allow.") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
