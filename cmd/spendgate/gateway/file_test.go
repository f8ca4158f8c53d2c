package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// whole is a file with every member that there is.
const whole = `
spendgate: {url: "http://127.0.0.1:8080", key_file: gateway.key}
agent_id: support-bot
listen: 127.0.0.1:8090
default: read_only
shadow: false
agents: {support-bot: {token_file: a.token}}
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
        on_error: failed
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
        amount: {argument: order.total}
        currency: {value: USD}
        counterparty: {argument: to}
`

func TestFile(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"gateway.key": "svc_1\n", "a.token": "the-token-of-bot", "psp.key": " k\n", "token": "Bearer x\n",
	} {
		write(t, folder, name, text)
	}
	f, err := Load(write(t, folder, "gateway.yaml", whole))
	if err != nil {
		t.Fatal(err)
	}
	url, key, err := f.Service()
	if err != nil || url != "http://127.0.0.1:8080" || key != "svc_1" {
		t.Error(url, key, err)
	}
	psp, other := f.Upstreams["psp"], f.Upstreams["other"]
	refund, pay := psp.Tools["create_refund"], other.Tools["pay"]
	if strings.Join(f.order, " ") != "psp other" || psp.Env["PSP_KEY"].text != "k" || psp.Env["MODE"].text != "test" || psp.folder != folder ||
		other.Headers["Authorization"].text != "Bearer x" || f.Agents["support-bot"].token != "the-token-of-bot" {
		t.Errorf("%+v", f)
	}
	if !refund.Once || refund.OnError != onErrorFailed || *refund.WaitSeconds != 30 || !refund.Amount.MinorUnits ||
		refund.Reference.Result != "refund_id" ||
		*pay.WaitSeconds != defaultWait || pay.OnError != onErrorInDoubt || pay.Amount.Argument != "order.total" || pay.Same != nil {
		t.Errorf("%+v %+v", refund, pay)
	}
}

// Faults name the line and the member.
func TestFileFaults(t *testing.T) {
	const upstream = "upstreams: {u: {command: [x], tools: {}}}\n"
	const tool = "agent_id: a\nupstreams:\n u:\n  command: [x]\n  tools:\n   pay:\n" +
		"    policy_id: p\n    action_type: spend\n    currency: {value: USD}\n"
	const minor = "    amount: {argument: a, minor_units: true}\n"
	const amount, to, filled = "    amount: {argument: amount}\n", "    counterparty: {argument: to}\n", "    idempotency_argument: k\n"
	for content, want := range map[string]string{
		"agent_id: a\nshadows: true\n" + upstream: `line 2: the member "shadows" is not known`,
		tool + amount + to + "    sames: [x]\n":   `line 12: the member "upstreams.u.tools.pay.sames" is not known`,
		tool + "    amount: {argument: a, minor: true}\n" +
			to: `line 10: the member "upstreams.u.tools.pay.amount.minor" is not known`,
		"agent_id: {headers: X}\n" + upstream:                                "line 1",
		"agent_id: 7\n" + upstream:                                           "line 1",
		upstream:                                                             "agent_id is required",
		"agent_id: a\n":                                                      "upstreams must name at least one",
		"agent_id: a\nmetrics: here\n" + upstream:                            "line 2: metrics must be host:port",
		strings.Replace(tool, "USD", "USDX", 1) + amount + to:                "currency.value must be three letters",
		strings.Replace(tool, "USD", "XXX", 1) + minor + to:                  "currency.value has no minor unit",
		"agent_id: a\ndefault: passes\n" + upstream:                          "line 2: default must be pass, deny or read_only",
		"agent_id: a\nlisten: 0.0.0.0:1\n" + upstream:                        "line 2: listen can be reached from other machines",
		"agent_id: a\nlisten: 8090\n" + upstream:                             "line 2",
		"agent_id: a\nagents: {b: {token_file: t}}\n" + upstream:             "have tokens only where listen is given",
		"agent_id: {header: X-Agent-Id}\n" + upstream:                        "can come from a header only where listen is given",
		"agent_id: a\nupstreams:\n  a__b: {command: [x]}\n":                  "must be a name of",
		"agent_id: a\nupstreams:\n  a:\n":                                    "must have a command or a url",
		"agent_id: a\nupstreams:\n  a: {command: [x], url: http://x}\n":      "must have a command or a url, one of them",
		"agent_id: a\nupstreams:\n  a: {url: ftp://x}\n":                     "must be http://",
		"agent_id: a\nupstreams:\n  a: {url: http://x, env: {A: b}}\n":       "env is for a command",
		"a: 1\n---\nb: 1\n":                                                  "must be one document",
		"agent_id: a\nagent_id: b\n":                                         `line 2: the key "agent_id" is given twice`,
		tool + to:                                                            "amount is required",
		tool + amount:                                                        "counterparty is required",
		tool + amount + "    counterparty: {value: me}\n":                    "is read from the call",
		tool + amount + to + "    once: true\n":                              "line 12: upstreams.u.tools.pay.once needs same",
		tool + amount + to + "    same: []\n":                                "same must name arguments",
		tool + amount + to + "    same: [a..b]\n":                            "must name an argument",
		tool + amount + to + "    wait_seconds: -1\n":                        "wait_seconds must be 0 to",
		tool + amount + to + "    on_error: retry\n":                         "on_error must be in_doubt or failed",
		tool + amount + to + "    metadata: {x: {}}\n":                       "must be {argument: NAME} or {value: ...}",
		tool + amount + to + "    metadata: {x: {argument: a, value: b}}\n":  "must be {argument: NAME} or {value: ...}",
		tool + amount + to + filled + "    same: [k]\n":                      "same[0] cannot be the idempotency_argument",
		tool + minor + to + "    idempotency_argument: A\n":                  "line 10: upstreams.u.tools.pay.amount cannot be the idempotency",
		tool + amount + to + filled + "    metadata: {x: {argument: k.b}}\n": "metadata.x cannot be the idempotency_argument",
		"agent_id: ' '\n" + upstream:                                         "line 1: agent_id must not be blank",
	} {
		_, err := Load(write(t, t.TempDir(), "g.yaml", content))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", content, err, want)
		}
	}
	// The files of secrets must exist.
	_, err := Load(write(t, t.TempDir(), "g.yaml", whole))
	if err == nil || !strings.Contains(err.Error(), "a.token") || !strings.Contains(err.Error(), "psp.key") {
		t.Error(err)
	}
	folder := t.TempDir()
	two := write(t, folder, "g.yaml", "listen: 127.0.0.1:1\nagents: {a: {token_file: a.token}, b: {token_file: b.token}}\n"+upstream)
	for want, tokens := range map[string][2]string{
		"agents a and b have the same token":                                     {"0123456789abcdef", "0123456789abcdef\n"},
		"agents.b.token_file: b.token must have at least 16 characters":          {"0123456789abcdef", "0123456789abcde\n"},
		"agents.a.token_file: a.token has a key with a character other than pri": {"0123456789 abcdef", "0123456789abcdef"},
	} {
		write(t, folder, "a.token", tokens[0])
		write(t, folder, "b.token", tokens[1])
		if _, err := Load(two); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123") {
			t.Errorf("%q: %v, want %s", tokens, err, want)
		}
	}
	if _, err := Load("none.yaml"); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// Without a lock only a shadow starts.
func TestNeedsLock(t *testing.T) {
	for content, starts := range map[string]bool{"": false, "shadow: true\n": true} {
		f, err := Load(write(t, t.TempDir(), "g.yaml", content+"agent_id: a\nupstreams: {u: {command: [x]}}\n"))
		if err != nil {
			t.Fatal(err)
		}
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
	var mu sync.Mutex
	got := ""
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = r.Header.Get("Authorization")
	}))
	defer web.Close()
	file, err := Load(write(t, folder, "g.yaml", "agent_id: bot\nupstreams:\n  psp:\n    url: "+web.URL+
		"\n    headers: {Authorization: {file: token}}\n    tools: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRemote(file.Upstreams["psp"])
	defer r.close()
	wants := func(want string) {
		t.Helper()
		if err := r.tell(message{Method: "notifications/x"}); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	wants("Bearer first")
	write(t, folder, "token", "Bearer second")
	wants("Bearer second")
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
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
	file, err := Load(write(t, folder, "g.yaml", "agent_id: bot\nupstreams:\n  psp:\n    url: http://127.0.0.1:1\n"+
		"    headers: {Authorization: {file: token}}\n    tools: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
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

// The look finds tools that a server offers only to agents with certain capabilities, and adds a
// moment later.
func TestConditionalTools(t *testing.T) {
	url := streamable(t, func() *sdk.Server {
		var server *sdk.Server
		server = sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}},
			InitializedHandler: func(_ context.Context, r *sdk.InitializedRequest) {
				if r.Session.InitializeParams().Capabilities.Sampling == nil {
					return
				}
				if _, err := r.Session.ListRoots(context.Background(), nil); err == nil {
					t.Error("somebody has roots")
				}
				server.AddTool(&sdk.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, nil)
			},
		})
		return server
	})
	file, err := Load(write(t, t.TempDir(), "g.yaml", "agent_id: bot\nupstreams:\n  one:\n    url: "+url+"\n    tools: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := looker{log: quiet(), version: "test"}.look(t.Context(), file.Upstreams["one"])
	if err != nil || len(seen.tools) != 1 {
		t.Error(seen, err)
	}
}

// If a server defines a tool differently for agents with fewer capabilities, both forms are accepted,
// and no third one.
func TestFormsOfTools(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
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
	})
	g := guarded(t, f, p, "", "")
	plainAgent := agentOf(t, g)
	wants(t, plainAgent, "ch_1", 1, stateExecuted, "")
	able := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "decline"}, nil
		},
	})
	wants(t, overStdio(t, g, able), "ch_2", 1, stateExecuted, "")
	var out strings.Builder
	o := CheckOptions{File: g.file, Logger: quiet(), Out: &out}
	if err := Check(t.Context(), o); err != nil {
		t.Error(err, out.String())
	}
	words.Store("sends it to me")
	err := Check(t.Context(), o)
	if !errors.Is(err, errDiffers) || !strings.Contains(out.String(), "psp: refund changed (mapped, and another") {
		t.Error(err, out.String())
	}
	wants(t, agentOf(t, g), "ch_3", 1, stateRefused, "changed")
	wants(t, overStdio(t, g, able), "ch_4", 1, stateExecuted, "")
	words.Store("asks") // one form for all agents
	out.Reset()
	err = Check(t.Context(), o)
	if err != nil || !strings.Contains(out.String(), "note: psp: refund has another definition that was accepted") {
		t.Error(err, out.String())
	}
	if got := fmt.Sprint(p.paid()); got != "[ch_1 1 ch_2 1 ch_4 1]" {
		t.Error(got)
	}
}

// A key without a principal, whose namespace ends with the key, is reported at the start and by check.
func TestKeyWithoutPrincipal(t *testing.T) {
	for apiKey, told := range map[string]bool{"#1": true, "team#1": false} {
		f, p := newFakeService(t), newProvider(t)
		g := guardedAs(t, f, p, apiKey, "", "")
		var log, out strings.Builder
		g.log = slog.New(slog.NewTextHandler(&log, nil))
		g.AdviseOnKey(t.Context())
		if err := Check(t.Context(), CheckOptions{File: g.file, Client: g.api, Logger: quiet(), Out: &out}); err != nil {
			t.Error(err)
		}
		const advice = "the key has no principal of its own: a call carried out under another key is not recognised"
		if strings.Contains(log.String(), advice) != told || strings.Contains(out.String(), advice) != told {
			t.Error(apiKey, log.String(), out.String())
		}
	}
	f, p := newFakeService(t), newProvider(t)
	g := guarded(t, f, p, "", "")
	f.Close()
	var out strings.Builder
	if err := Check(t.Context(), CheckOptions{File: g.file, Client: g.api, Logger: quiet(), Out: &out}); err != nil ||
		!strings.Contains(out.String(), "does not say whose key") {
		t.Error(err, out.String())
	}
}
