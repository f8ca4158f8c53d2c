package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// whole is a file with every member that there is.
const whole = `
spendgate: {url: "http://127.0.0.1:8080", key_file: gateway.key}
agent_id: support-bot
listen: 127.0.0.1:8090
default: read_only
shadow: false
tokens: agents.d
console_url: https://spendgate.example
upstreams:
  psp:
    command: [node, psp.mjs]
    env: {PSP_KEY: {file: psp.key}, MODE: test}
    tools:
      create_refund:
        policy_id: support-refunds
        action_type: refund
        amount: {argument: amount, minor_units: true}
        currency: {argument: currency}
        counterparty: {argument: charge}
        metadata: {order_id: {argument: order}, from: {value: gateway}}
        same: [charge, amount]
        once: true
        pass: [note]
        declined_if: {result: code, in: [card_declined, 17]}
        idempotency_argument: idempotency_key
        reference: {result: refund_id}
        wait_seconds: 30
  other:
    url: http://127.0.0.1:7000/mcp
    headers: {Authorization: {file: token}}
    tools:
      pay:
        policy_id: p
        action_type: spend
        amount: {argument: order.total, digits: 3}
        currency: {value: USD}
        counterparty: {argument: to}
        same: all
`

func TestFile(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"gateway.key": "svc_1\n", "psp.key": " k\n", "token": "Bearer x\n",
	} {
		write(t, folder, name, text)
	}
	f := must.Get(Load(write(t, folder, "gateway.yaml", whole)))(t)
	url, key, err := f.Service()
	if err != nil || url != "http://127.0.0.1:8080" || key != "svc_1" {
		t.Error(url, key, err)
	}
	psp, other := f.Upstreams["psp"], f.Upstreams["other"]
	refund, pay := psp.Tools["create_refund"], other.Tools["pay"]
	if strings.Join(f.order, " ") != "psp other" || psp.Env["PSP_KEY"].text != "k" || psp.Env["MODE"].text != "test" || psp.folder != folder ||
		other.Headers["Authorization"].text != "Bearer x" || f.Tokens != "agents.d" {
		t.Errorf("%+v", f)
	}
	if !refund.Once || *refund.WaitSeconds != 30 || !refund.Amount.MinorUnits || refund.Reference.Result != "refund_id" ||
		refund.DeclinedIf.Result != "code" || len(refund.DeclinedIf.In) != 2 || refund.Pass[0] != "note" || len(refund.Same.paths) != 2 ||
		*pay.WaitSeconds != defaultWait || pay.Amount.Argument != "order.total" || !pay.Same.all || *pay.Amount.Digits != 3 {
		t.Errorf("%+v %+v", refund, pay)
	}
}

// Faults name the line and the member.
func TestFileFaults(t *testing.T) {
	const upstream = "upstreams: {u: {command: [x], tools: {}}}\n"
	const tool = "agent_id: a\nupstreams:\n u:\n  command: [x]\n  tools:\n   pay:\n" +
		"    policy_id: p\n    action_type: spend\n    currency: {value: USD}\n"
	const minor = "    amount: {argument: a, minor_units: true}\n"
	const amount, to = "    amount: {argument: amount}\n", "    counterparty: {argument: to}\n    same: [to]\n"
	const filled = "    idempotency_argument: k\n"
	const unnamed = "    counterparty: {argument: to}\n"
	for content, want := range map[string]string{
		"agent_id: a\nshadows: true\n" + upstream: `line 2: the member "shadows" is not known`,
		tool + amount + to + "    sames: [x]\n":   `line 13: the member "upstreams.u.tools.pay.sames" is not known`,
		tool + "    amount: {argument: a, minor: true}\n" +
			to: `line 10: the member "upstreams.u.tools.pay.amount.minor" is not known`,
		"agent_id: {headers: X}\n" + upstream:                 "line 1",
		"agent_id: 7\n" + upstream:                            "line 1",
		upstream:                                              "agent_id is required",
		"agent_id: a\n":                                       "upstreams must name at least one",
		"agent_id: a\nmetrics: here\n" + upstream:             "line 2: metrics must be host:port",
		strings.Replace(tool, "USD", "USDX", 1) + amount + to: "currency.value must be three letters",
		strings.Replace(tool, "USD", "XXX", 1) + minor + to:   "currency.value has no minor unit",
		"agent_id: a\ndefault: passes\n" + upstream:           "line 2: default must be pass, deny or read_only",
		"agent_id: a\nlisten: 0.0.0.0:1\n" + upstream:         "line 2: listen can be reached from other machines",
		"agent_id: a\nlisten: 8090\n" + upstream:              "line 2",
		"agent_id: a\ntokens: t\n" + upstream:                 "and issuers are for agents over HTTP",
		"listen: 127.0.0.1:1\nissuers: [{url: http://idp, audience: https://g}]\n" + upstream: "issuers[0].url must be https://host/path",
		"listen: 127.0.0.1:1\nissuers: [{url: https://idp}]\n" + upstream:                     "issuers[0].audience must be https://host/path",
		"listen: 127.0.0.1:1\nissuers: [{url: https://a, audience: https://g}, {url: https://b, audience: https://g, agent_prefix: ''}]\n" +
			upstream: "issuers[1] has the url or the agent_prefix of another one",
		"listen: 127.0.0.1:1\ntokens: t\nissuers: [{url: https://a, audience: https://g}]\n" + upstream: "agent_prefix is required beside tokens",
		"listen: 127.0.0.1:1\nissuers: [{url: https://a, audience: https://g, agent_prefix: e\u0301}, " +
			"{url: https://b, audience: https://g, agent_prefix: \u00e9}]\n" + upstream: "issuers[1] has the url or the agent_prefix of another one",
		"agent_id: a\nconsole_url: there\n" + upstream:                          "line 2: console_url must be https://host",
		tool + amount + unnamed:                                                 "line 6: upstreams.u.tools.pay.same is required to enforce",
		"shadow: true\n" + tool + amount + unnamed + "    once: true\n":         "same is required with once",
		tool + amount + unnamed + "    same: any\n":                             "must be a list of arguments, or all",
		tool + "    amount: {argument: a, digits: 19}\n" + to:                   "amount.digits must be 0 to 18",
		tool + "    amount: {argument: a, digits: 2, minor_units: true}\n" + to: "has minor_units or digits, one of them",
		tool + amount + to + "    declined_if: {result: a, in: []}\n":           "declined_if.in must have the values",
		tool + amount + to + "    declined_if: {result: a, in: [true]}\n":       "declined_if.in[0] must be text or a number",
		"agent_id: {header: X-Agent-Id}\n" + upstream:                           "can come from a header only where listen is given",
		"agent_id: a\nupstreams:\n  a/b: {command: [x]}\n":                      "must be a name of",
		"agent_id: a\nupstreams:\n  a:\n":                                       "must have a command or a url",
		"agent_id: a\nupstreams:\n  a: {command: [x], url: http://x}\n":         "must have a command or a url, one of them",
		"agent_id: a\nupstreams:\n  a: {url: ftp://x}\n":                        "must be http://",
		"agent_id: a\nupstreams:\n  a: {url: \"http://x/?key=y\"}\n":            "without user, password and query",
		"agent_id: a\nupstreams:\n  a: {url: http://x, env: {A: b}}\n":          "env is for a command",
		"a: 1\n---\nb: 1\n":          "must be one document",
		"agent_id: a\nagent_id: b\n": `line 2: the key "agent_id" is given twice`,
		tool + to:                    "amount is required",
		tool + amount:                "counterparty is required",
		tool + amount + "    counterparty: {value: me}\n":                    "is read from the call",
		tool + amount + unnamed + "    same: []\n":                           "same must name arguments",
		tool + amount + unnamed + "    same: [a..b]\n":                       "must name an argument",
		tool + amount + to + "    wait_seconds: -1\n":                        "wait_seconds must be 0 to",
		tool + amount + to + "    metadata: {x: {}}\n":                       "must be {argument: NAME} or {value: ...}",
		tool + amount + to + "    metadata: {x: {argument: a, value: b}}\n":  "must be {argument: NAME} or {value: ...}",
		tool + amount + unnamed + filled + "    same: [k]\n":                 "same[0] cannot be the idempotency_argument",
		tool + minor + to + "    idempotency_argument: A\n":                  "line 10: upstreams.u.tools.pay.amount cannot be the",
		tool + amount + to + filled + "    metadata: {x: {argument: k.b}}\n": "metadata.x cannot be the idempotency_argument",
		"agent_id: a\nupstreams:\n '7':\n  command: x\n":                     "line 4: upstreams.7.command cannot be text",
		"agent_id: ' '\n" + upstream:                                         "line 1: agent_id must not be blank",
	} {
		_, err := Load(write(t, t.TempDir(), "g.yaml", content))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", content, err, want)
		}
	}
	// The files of secrets must exist.
	_, err := Load(write(t, t.TempDir(), "g.yaml", whole))
	if err == nil || !strings.Contains(err.Error(), "psp.key") {
		t.Error(err)
	}
	if _, err := Load("none.yaml"); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// Without a lock only a shadow starts.
func TestNeedsLock(t *testing.T) {
	for content, starts := range map[string]bool{"": false, "shadow: true\n": true} {
		f := must.Get(Load(write(t, t.TempDir(), "g.yaml", content+"agent_id: a\nupstreams: {u: {command: [x]}}\n")))(t)
		if _, err := New(Options{File: f, Logger: quiet()}); (err == nil) != starts {
			t.Error(content, err)
		}
	}
}

// A renewed token counts from the next request on. A token file that cannot be read changes
// nothing.
func TestRenewedToken(t *testing.T) {
	folder := t.TempDir()
	token := write(t, folder, "token", "Bearer first\n")
	got := ""
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	defer web.Close()
	file := must.Get(Load(write(t, folder, "g.yaml", "agent_id: bot\nupstreams:\n  psp:\n    url: "+web.URL+
		"\n    headers: {Authorization: {file: token}}\n    tools: {}\n")))(t)
	r := newRemote(&link{u: file.Upstreams["psp"]}).HTTPClient
	wants := func(want string) {
		t.Helper()
		response, err := r.Get(web.URL)
		must.Do(t, err)
		if _ = response.Body.Close(); got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	wants("Bearer first")
	write(t, folder, "token", "Bearer second")
	wants("Bearer second")
	must.Do(t, os.Remove(token))
	wants("Bearer second")
}

// A pipe is read only once, since nobody writes to it again.
func TestSecretOfPipe(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "token")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("first"), 0o600) }() // waits for who reads
	file := must.Get(Load(write(t, folder, "g.yaml", "agent_id: bot\nupstreams:\n  psp:\n    url: http://127.0.0.1:1\n"+
		"    headers: {Authorization: {file: token}}\n    tools: {}\n")))(t)
	got := make(chan string, 1)
	go func() { got <- file.Upstreams["psp"].Headers["Authorization"].now() }()
	select {
	case token := <-got:
		if token != "first" {
			t.Error(token)
		}
	case <-time.After(time.Minute):
		t.Error("the pipe is waited for")
	}
}

// TestFormsOfTools: if a server defines a tool differently for agents with fewer capabilities, both forms are accepted, and no
// third one. What it offers only to some agents, a moment later, is found.
func TestFormsOfTools(t *testing.T) {
	f, p := newService(t), newProvider(t)
	var words atomic.Value
	words.Store("plain")
	p.url = streamable(t, func() *sdk.Server {
		define := func(server *sdk.Server, form string) {
			server.AddTool(&sdk.Tool{Name: "refund", Description: form, InputSchema: map[string]any{"type": "object"}}, p.refund)
		}
		var server *sdk.Server
		server = sdk.NewServer(&sdk.Implementation{Name: "psp", Version: "1"}, &sdk.ServerOptions{
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}},
			InitializedHandler: func(_ context.Context, r *sdk.InitializedRequest) {
				if r.Session.InitializeParams().Capabilities.Elicitation != nil {
					define(server, "asks")
				}
			},
		})
		define(server, fmt.Sprint(words.Load()))
		return server
	}, legacyVersion)
	g := guarded(t, f, p, "", "")
	must.Do(t, Looker{Logger: quiet(), Out: t.Output()}.Check(t.Context(), g.File, true))
	wants(t, agentOver(t, g), "ch_1", 1, stateExecuted, "")
	able := func() *sdk.ClientSession {
		return era{legacyVersion, "stdio"}.reach(t, g, sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, &sdk.ClientOptions{
			ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				return &sdk.ElicitResult{Action: "decline"}, nil
			},
		}))
	}
	wants(t, able(), "ch_2", 1, stateExecuted, "")
	var out strings.Builder
	o := Looker{Logger: quiet(), Out: &out}
	if err := o.Check(t.Context(), g.File, false); err != nil {
		t.Error(err, out.String())
	}
	words.Store("sends it to me")
	err := o.Check(t.Context(), g.File, false)
	if !errors.Is(err, errDiffers) || !strings.Contains(out.String(), "psp: refund changed (mapped, and another") {
		t.Error(err, out.String())
	}
	wants(t, agentOver(t, g), "ch_3", 1, stateRefused, "changed")
	wants(t, able(), "ch_4", 1, stateExecuted, "")
	words.Store("asks") // one form for all agents
	out.Reset()
	err = o.Check(t.Context(), g.File, false)
	if err != nil || !strings.Contains(out.String(), "note: psp: refund has another definition that was accepted") {
		t.Error(err, out.String())
	}
}

// TestKeyWithoutPrincipal: the service says what is wrong with a key, and so the gateway does.
func TestKeyWithoutPrincipal(t *testing.T) {
	s, p := newService(t), newProvider(t)
	key := must.Get(s.api.CreateKey(t.Context(), client.KeyRequest{Name: "g", Grants: client.Grants{Role: "gateway"}}))(t)
	s.own = must.Get(client.New(client.Options{BaseURL: s.API, APIKey: key.APIKey}))(t)
	wants(t, agentOver(t, guarded(t, s, p, "", "")), "ch_1", 1, stateError, "principal_required")
}
