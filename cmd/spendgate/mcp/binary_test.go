package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// program is the compiled tool server and a node for it.
type program struct{ node *fleet.Dev }

// environ returns the tool server's environment; more has further settings, NAME=value, without the
// prefix.
func (p *program) environ(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "SPENDGATE_") })
	for _, entry := range append([]string{"API_URL=" + p.node.API, "API_KEY=" + p.node.Key}, more...) {
		env = append(env, "SPENDGATE_"+entry)
	}
	return env
}

// stdio starts a tool server and returns a session over its standard streams.
func (p *program) stdio(t *testing.T, args ...string) *sdk.ClientSession {
	t.Helper()
	return p.stdioAs(t, p.node.Key, args...)
}

// stdioAs is stdio with another API key.
func (p *program) stdioAs(t *testing.T, key string, args ...string) *sdk.ClientSession {
	t.Helper()
	cmd := exec.Command(p.node.Binary, append([]string{"mcp"}, args...)...)
	cmd.Env = p.environ("API_KEY=" + key)
	return dial(t, &sdk.CommandTransport{Command: cmd})
}

// http starts a tool server and returns its URL. At the test's end it must stop
// cleanly on a signal and must not have logged a secret.
func (p *program) http(t *testing.T, token string) string {
	t.Helper()
	cmd := exec.Command(p.node.Binary, "mcp", "--listen", ":0")
	cmd.Env = p.environ("MCP_TOKEN=" + token)
	log := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	var said bytes.Buffer
	lines := bufio.NewScanner(log)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		for lines.Scan() {
			said.WriteString(lines.Text() + "\n")
		}
		if err := cmd.Wait(); err != nil || strings.Contains(said.String(), p.node.Key) || token != "" && strings.Contains(said.String(), token) {
			t.Errorf("%v\n%s", err, said.String())
		}
	})
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if found := regexp.MustCompile(`msg="serving tools" url=(\S+)`).FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatalf("the tool server does not start:\n%s", said.String())
	return ""
}

func dial(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	session := must.Get(sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil))(t)
	t.Cleanup(func() {
		must.Check(t, session.Close())
	})
	return session
}

// call returns a tool's texts and whether it is an error.
func call(t *testing.T, session *sdk.ClientSession, tool string, arguments any) (text string, isError bool) {
	t.Helper()
	r := must.Get(session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments}))(t)
	for _, c := range r.Content {
		text += c.(*sdk.TextContent).Text + "\n"
	}
	return text, r.IsError
}

func refund(amount, counterparty string) map[string]any {
	return map[string]any{
		"agent_id": "a", "policy_id": "refund-desk", "action_type": "refund", "amount": json.Number(amount), "currency": "USD",
		"counterparty": counterparty, "metadata": map[string]any{"days_since_purchase": 5},
	}
}

func TestProgram(t *testing.T) {
	p := &program{fleet.TestDev(t)}
	t.Run("stdio", func(t *testing.T) { everyTool(t, p.stdio(t), "stdio") })
	t.Run("http", func(t *testing.T) {
		everyTool(t, dial(t, &sdk.StreamableClientTransport{Endpoint: p.http(t, "")}), "http")
	})
	t.Run("approval", func(t *testing.T) { approved(t, p) })
	t.Run("reported", func(t *testing.T) { reported(t, p) })
	t.Run("no policy writes", func(t *testing.T) { withoutPolicyWrites(t, p) })
	t.Run("roles", func(t *testing.T) { toolsOfRoles(t, p) })
	t.Run("inspector", func(t *testing.T) { useInspector(t, p) })
	t.Run("killed node", func(t *testing.T) { nodeKilled(t, p) })
}

// everyTool has the real program answer by each tool that it lists, as the tool's schema says.
func everyTool(t *testing.T, session *sdk.ClientSession, run string) {
	if v := session.InitializeResult().ServerInfo; v.Name != "spendgate" || v.Version != "dev" {
		t.Errorf("%+v", v)
	}
	unanswered := outputSchemas(t, session)
	schemas := maps.Clone(unanswered)
	ask := func(tool string, arguments map[string]any, want string, wantError bool) (text string) {
		t.Helper()
		text, isError := call(t, session, tool, arguments)
		if !strings.Contains(text, want) || isError != wantError {
			t.Errorf("%s %v: %v, %s", tool, arguments, isError, text)
		}
		if isError {
			return text
		}
		// The first text is the endpoint's answer with all its members.
		var answer any
		body, _, _ := strings.Cut(text, "\n")
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("%s: %v in %s", tool, err, text)
		}
		if err := schemas[tool].Validate(answer); err != nil {
			t.Errorf("%s: %v: %s", tool, err, body)
		}
		delete(unanswered, tool)
		return text
	}
	limited := []any{
		map[string]any{"rule_id": "r", "rule_type": "max_amount", "parameters": map[string]any{"limit": json.Number("1.50")}},
	}
	allowed := ask("check_financial_action", refund("12.50", run), "Decision: allow.", false)
	ask("check_financial_action", refund("12.50", run), "Reason: duplicate_action_detected", false)
	ask("check_financial_action", refund("999999999999999.9001", run), "999999999999999.9001 USD exceeds the limit", false)
	ask("check_financial_action", map[string]any{"policy_id": "none"}, "agent_id is required", true)
	id := regexp.MustCompile(`chk_[0-9a-f]{32}`).FindString(allowed)
	ask("report_outcome", map[string]any{"check_id": id, "status": "executed"}, "Recorded: check "+id+" was executed.", false)
	ask("wait_for_approval", map[string]any{"approval_id": escalated(t, session, run), "wait_seconds": 0},
		" is pending. Pending is not approved: do not carry the action out.", false)
	ask("create_policy", map[string]any{"policy_id": run, "name": "n", "rules": limited}, "Stored policy "+run+", version 1", false)
	ask("create_policy", map[string]any{"name": "n", "rules": []any{}}, "Error validation_error (HTTP 422)", true)
	ask("create_policy", map[string]any{"policy_id": run, "name": "n", "replaces": 0, "rules": limited},
		"Error policy_version_mismatch (HTTP 409)", true)
	ask("get_policy", map[string]any{"policy_id": run, "version": 1}, `{"limit":1.50}`, false)
	ask("get_policy", map[string]any{"policy_id": run, "version": 2}, "Error policy_not_found (HTTP 404)", true)
	ask("simulate_actions", map[string]any{"policy_id": run, "actions": []any{
		map[string]any{"agent_id": "a", "action_type": "spend", "amount": json.Number("1.51"), "currency": "USD", "counterparty": "c"},
	}}, "0 would be allowed, 1 blocked", false)
	ask("list_violations", map[string]any{"agent_id": "a", "decision": "block", "limit": 1}, `"amount":999999999999999.9001`, false)
	for tool := range unanswered {
		t.Errorf("no answer of %s was compared with its schema", tool)
	}
}

// reported repeats calls for which an outcome was reported: with the same key they are not carried
// out again, without a key the service judges them afresh.
func reported(t *testing.T, p *program) {
	session := p.stdio(t)
	checkID := regexp.MustCompile(`chk_[0-9a-f]{32}`)
	// Who asked for the check cannot give anything back.
	for status, pending := range map[string]bool{"executed": false, "failed": true, "voided": true} {
		action := refund("21", status)
		action["idempotency_key"] = status
		ask := func(want, begins string) string {
			t.Helper()
			text, isError := call(t, session, "check_financial_action", action)
			if isError || !strings.Contains(text, want) || !strings.HasPrefix(text, begins) {
				t.Errorf("%s: %s", status, text)
			}
			return checkID.FindString(text)
		}
		first := ask("\nDecision: allow.\n", `{"proceed":true,"outcome":null,"release_pending":false,"replayed":false,`)
		ask("\nDecision: allow. An earlier call was answered so", `{"proceed":false,"outcome":null,"release_pending":false,"replayed":true,`)
		if text, isError := call(t, session, "report_outcome", map[string]any{"check_id": first, "status": status}); isError {
			t.Fatal(text)
		}
		over := fmt.Sprintf(`{"proceed":false,"outcome":%q,"release_pending":%t,"replayed":true,`, status, pending)
		if again := ask("\nOutcome: "+status+". This check is over: do not carry the action out.\n", over); again != first {
			t.Errorf("%s: %s was repeated by %s", status, first, again)
		}
		delete(action, "idempotency_key")
		ask("Reason: duplicate_action_detected", `{"proceed":false,"outcome":null,`)
	}
}

func outputSchemas(t *testing.T, session *sdk.ClientSession) map[string]*jsonschema.Resolved {
	t.Helper()
	tools := must.Get(session.ListTools(t.Context(), nil))(t)
	schemas := make(map[string]*jsonschema.Resolved)
	for _, tool := range tools.Tools {
		text, err := json.Marshal(tool.OutputSchema)
		must.Do(t, err)
		s := new(jsonschema.Schema)
		must.Do(t, json.Unmarshal(text, s))
		if schemas[tool.Name], err = s.Resolve(nil); err != nil {
			t.Fatal(err)
		}
	}
	return schemas
}

func withoutPolicyWrites(t *testing.T, p *program) {
	session := p.stdio(t, "--no-policy-writes")
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 6 {
		t.Error(tools, err)
	}
	if _, err := session.CallTool(t.Context(),
		&sdk.CallToolParams{Name: "create_policy", Arguments: map[string]any{"name": "n"}}); err == nil {
		t.Error("create_policy can be called")
	}
}

// nodeKilled checks that a call fails while the API is down, and that repeating it later asks for
// the same check, under the key that the error named.
func nodeKilled(t *testing.T, p *program) {
	session := p.stdio(t)
	must.Do(t, p.node.Kill())
	var keys []string
	for range 2 {
		text, isError := call(t, session, "check_financial_action", refund("33", "killed"))
		key := regexp.MustCompile(`idempotency_key (\S+)\.`).FindStringSubmatch(text)
		if !isError || key == nil {
			t.Fatal(text)
		}
		keys = append(keys, key[1])
	}
	if keys[0] != keys[1] {
		t.Errorf("one call, two keys: %v", keys)
	}
	must.Do(t, p.node.Start(t.Context()))
	first, _ := call(t, session, "check_financial_action", refund("33.0", "killed"))
	named := refund("33", "killed")
	named["idempotency_key"] = keys[0]
	again, _ := call(t, session, "check_financial_action", named)
	check := regexp.MustCompile(`Check: \S+`)
	if !strings.Contains(first, "Decision: allow.") || check.FindString(again) != check.FindString(first) ||
		!strings.Contains(again, "earlier request") {
		t.Errorf("%s\n%s", first, again)
	}
}

// useInspector calls the tools with the MCP inspector, which also validates the
// schemas.
func useInspector(t *testing.T, p *program) {
	modules := os.Getenv("TEST_NODE_MODULES")
	if modules == "" {
		t.Skip("TEST_NODE_MODULES is not set; deploy/npm/install.sh installs the MCP inspector and prints its value")
	}
	inspector := filepath.Join(modules, "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	url := p.http(t, "hush-hush-hush-hush")
	targets := map[string][]string{
		"stdio": {"-e", "SPENDGATE_API_URL=" + p.node.API, "-e", "SPENDGATE_API_KEY=" + p.node.Key, "--", p.node.Binary, "mcp"},
		"http":  {"--transport", "http", "--header", "Authorization: Bearer hush-hush-hush-hush", "--", url},
	}
	for name, target := range targets {
		ask := func(want string, code int, args ...string) string {
			t.Helper()
			cmd := exec.Command("node", slices.Concat([]string{inspector, "--cli"}, args, target)...)
			// It writes files to the home folder.
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			out, _ := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), want) {
				t.Errorf("%s %v: exit %d\n%s", name, args, cmd.ProcessState.ExitCode(), out)
			}
			return string(out)
		}
		ask(`"name": "simulate_actions"`, 0, "--method", "tools/list", "--strict")
		tool := func(name string, pairs ...string) []string {
			return slices.Concat([]string{"--method", "tools/call", "--tool-name", name, "--tool-arg"}, pairs)
		}
		action := []string{"agent_id=a", "policy_id=refund-desk", "action_type=refund", "currency=USD", "counterparty=inspector-" + name}
		ask("Decision: allow.", 0, tool("check_financial_action", append(action, "amount=12.5", `metadata={"days_since_purchase":5}`)...)...)
		keyed := tool("check_financial_action", append(action, "amount=12.75", `metadata={"days_since_purchase":5}`, "idempotency_key="+name)...)
		made := regexp.MustCompile(`chk_[0-9a-f]{32}`).FindString(ask(`"proceed": true`, 0, keyed...))
		ask(`"status": "executed"`, 0, tool("report_outcome", "check_id="+made, "status=executed")...)
		ask(`"proceed": false`, 0, keyed...)
		ask("Decision: block.", 0, tool("check_financial_action", append(action, "amount=600", `metadata={"days_since_purchase":5}`)...)...)
		ask("Decision: escalate.", 0, tool("check_financial_action", append(action, "amount=13")...)...)
		ask("is not known", 5, tool("check_financial_action", append(action, "amuont=12.5")...)...)
		ask("policy_not_found", 5, tool("get_policy", "policy_id=none")...)
		ask(`"limit": 500`, 0, tool("get_policy", "policy_id=refund-desk", "version=1")...)
		ask("would be allowed", 0, tool("simulate_actions", "policy_id=refund-desk",
			`actions=[{"agent_id":"a","action_type":"refund","amount":1.5,"currency":"USD","counterparty":"c"}]`)...)
		ask("Stored policy "+name+"-p, version 1", 0, tool("create_policy", "policy_id="+name+"-p", "name=n",
			`rules=[{"rule_id":"r","rule_type":"max_amount","parameters":{"limit":5}}]`)...)
		ask(fmt.Sprintf("inspector-%s", name), 0, tool("list_violations", "decision=block", "limit=1")...)
	}
}
