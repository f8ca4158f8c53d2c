package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// provider is a payment provider with a tool, and a ledger of its payments.
type provider struct {
	mu     sync.Mutex
	ledger []string
	keys   map[string]bool
	// behave returns whether a call pays, and how it ends: with that error, with a result that has that code, or well.
	behave func(number int) (pays bool, code string, err error)
	calls  int
	slow   time.Duration // before and after it pays
	url    string
	schema map[string]any
}

func newProvider(t *testing.T) *provider {
	p := &provider{keys: make(map[string]bool), schema: map[string]any{"type": "object", "properties": map[string]any{
		"charge": map[string]any{"type": "string"}, "note": map[string]any{"type": "string"},
		"amount": map[string]any{"type": "integer"}, "idempotency_key": map[string]any{"type": "string"},
	}, "required": []string{"amount"}}}
	p.url = streamable(t, func() *sdk.Server {
		server := sdk.NewServer(&sdk.Implementation{Name: "psp", Version: "1"}, nil)
		p.mu.Lock() // a session that ends asks, too
		schema := p.schema
		p.mu.Unlock()
		server.AddTool(&sdk.Tool{Name: "refund", InputSchema: schema}, p.refund)
		server.AddTool(&sdk.Tool{Name: "wipe", InputSchema: map[string]any{"type": "object"}}, p.refund)
		server.AddTool(&sdk.Tool{
			Name: "look", InputSchema: map[string]any{"type": "object"}, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
		},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{}, nil
			})
		return server
	}, legacyVersion)
	return p
}

func (p *provider) refund(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var arguments struct {
		Charge string `json:"charge"`
		Amount int    `json:"amount"`
		Key    string `json:"idempotency_key"`
	}
	_ = json.Unmarshal(r.Params.Arguments, &arguments)
	time.Sleep(p.slow)
	defer time.Sleep(p.slow)
	p.mu.Lock()
	p.calls++
	pays, code, err := true, "", error(nil)
	if p.behave != nil {
		pays, code, err = p.behave(p.calls)
	}
	id := fmt.Sprintf("re_%d", len(p.ledger)+1)
	if pays && (arguments.Key == "" || !p.keys[arguments.Key]) {
		p.keys[arguments.Key] = true
		p.ledger = append(p.ledger, fmt.Sprintf("%s %d", arguments.Charge, arguments.Amount))
	}
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if code != "" {
		return &sdk.CallToolResult{
			IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no luck"}}, StructuredContent: map[string]any{"code": code},
		}, nil
	}
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: "paid"}},
		StructuredContent: map[string]any{"id": id},
	}, nil
}

func (p *provider) paid() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.ledger...)
}

const refundMapping = `
      refund:
        policy_id: POLICY
        action_type: refund
        amount: {argument: amount, minor_units: true}
        currency: {value: USD}
        counterparty: {argument: charge}
        same: [charge]
        pass: [note]
        reference: {result: id}
        declined_if: {result: code, in: [card_declined, 7]}
        wait_seconds: 1
`

const withKey = "        idempotency_argument: idempotency_key\n"

// service is the service with a policy, and the key of a gateway.
type service struct {
	*fleet.Dev
	api    *client.Client // reads all
	own    *client.Client // of the gateway
	key    string
	policy string
	shares *Shares

	mu     sync.Mutex
	broken func(r *http.Request) (before, after bool) // whether a request does not arrive, or its answer does not
}

var numbers atomic.Int32

func newService(t *testing.T) *service {
	t.Helper()
	dev := must.Get(startNode())(t)
	return newServiceOn(t, dev)
}

func newServiceOn(t *testing.T, dev *fleet.Dev) *service {
	t.Helper()
	var err error
	s := &service{Dev: dev, policy: fmt.Sprintf("p-%d-%d", os.Getpid(), numbers.Add(1))}
	if s.api, err = client.New(client.Options{BaseURL: dev.API, APIKey: dev.Key, AdminKey: dev.AdminKey}); err != nil {
		t.Fatal(err)
	}
	s.rules(t, `{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":500,"currency":"USD"}}`,
		`{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":400,"approval":{}}}`)
	key := must.Get(s.api.CreateKey(t.Context(), client.KeyRequest{
		Name: "gateway", RateLimitRPM: new(10_000), Grants: client.Grants{Role: "gateway", Principal: s.policy},
	}))(t)
	s.key, s.shares = key.APIKey, &Shares{Base: s}
	s.own = must.Get(client.New(client.Options{BaseURL: dev.API, APIKey: s.key, HTTPClient: &http.Client{Transport: s.shares}}))(t)
	return s
}

// rules makes a new version of the policy.
func (s *service) rules(t *testing.T, rules ...string) {
	t.Helper()
	p := client.NewPolicy{PolicyID: s.policy, Name: "p"}
	for _, text := range rules {
		var r client.Rule
		must.Do(t, json.Unmarshal([]byte(text), &r))
		p.Rules = append(p.Rules, r)
	}
	must.Get(s.api.CreatePolicy(t.Context(), p))(t)
}

var errBroken = errors.New("broken")

// RoundTrip loses requests and answers of the gateway.
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	before, after := false, false
	if broken != nil {
		before, after = broken(r)
	}
	if before {
		return nil, errBroken
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if after && err == nil {
		_ = response.Body.Close()
		return nil, errBroken
	}
	return response, err
}

func (s *service) breaks(how func(r *http.Request) (before, after bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = how
}

// approve has a person approve or deny the only call that waits for people.
func (s *service) approve(t *testing.T, approve bool) {
	t.Helper()
	grants := client.Grants{Role: "approver", PolicyIDs: []string{s.policy}}
	person := must.Get(s.api.CreateKey(t.Context(), client.KeyRequest{Name: "ann", Grants: grants}))(t)
	ann := must.Get(client.New(client.Options{BaseURL: s.API, APIKey: person.APIKey}))(t)
	decide, decided := ann.Deny, 0
	if approve {
		decide = ann.Approve
	}
	for waiting, err := range ann.Waiting(t.Context(), client.ApprovalQuery{}) {
		must.Do(t, err)
		must.Get(decide(t.Context(), waiting.Approval.ApprovalID, waiting.Approval.ActionHash, ""))(t)
		decided++
	}
	if decided != 1 {
		t.Fatal(decided)
	}
}

// outcomes returns what became of the checks of the policy, the newest last.
func (s *service) outcomes(t *testing.T) (all []string) {
	t.Helper()
	for c, err := range s.api.AllChecks(context.Background(), client.CheckQuery{PolicyID: s.policy}) {
		must.Do(t, err)
		became := c.Decision.String()
		switch {
		case c.Outcome != nil:
			became = c.Outcome.Status
		case c.Redemption != nil && c.Redemption.InDoubtAt != nil:
			became = "in_doubt"
		case c.Redemption != nil:
			became = "redeemed"
		}
		all = append([]string{became}, all...)
	}
	return all
}

func (s *service) became(t *testing.T, want ...string) {
	t.Helper()
	if got := s.outcomes(t); !slices.Equal(got, want) {
		t.Errorf("%v became of the checks, want %v", got, want)
	}
}

// guarded makes a gateway before a provider, with a lock of its tools.
func guarded(t *testing.T, s *service, p *provider, head, more string) *Gateway {
	t.Helper()
	path := write(t, t.TempDir(), "g.yaml", gatewayFile(s, p, head, more))
	file := must.Get(Load(path))(t)
	if !strings.Contains(head, "unlocked") {
		accept(t, file)
	}
	g := must.Get(New(Options{
		File: file, Client: s.own, Shares: s.shares, Version: "test", Environ: os.Environ(), Logger: testLog(t),
		Registerer: prometheus.NewPedanticRegistry(),
	}))(t)
	t.Cleanup(g.stop)
	return g
}

// accept writes the lock of a file, as agents without capabilities see the tools.
func accept(t *testing.T, file *File) {
	t.Helper()
	pins := &lock{Upstreams: make(map[string]map[string]pin)}
	for name, u := range file.Upstreams {
		l := Looker{Version: "test", Environ: os.Environ(), Logger: quiet()}.link(u, true, new(sdk.ClientCapabilities))
		tools, _, err := l.definitions(t.Context(), 0)
		if l.close(); err != nil {
			t.Fatal(err)
		}
		pins.Upstreams[name] = tools.pins()
	}
	must.Do(t, pins.write(file.path))
}

// gatewayFile returns the file of a gateway; more of it replaces members of the mapping.
func gatewayFile(s *service, p *provider, head, more string) string {
	mapping := strings.ReplaceAll(refundMapping, "POLICY", s.policy)
	for line := range strings.Lines(more) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		kept := strings.SplitAfter(mapping, "\n")
		mapping = strings.Join(slices.DeleteFunc(kept, func(l string) bool { return strings.HasPrefix(l, "        "+name+":") }), "")
	}
	if !strings.Contains(head, "agent_id") && !strings.Contains(head, "tokens") {
		head += "agent_id: bot-" + s.policy + "\n"
	}
	return head + "upstreams:\n  psp:\n    url: " + p.url + "\n    tools:" + mapping + more
}

func agentOver(t *testing.T, g *Gateway) *sdk.ClientSession {
	return era{latestVersion, "stdio"}.reach(t, g, sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil))
}

// refund calls the tool and returns the state and the text.
func refund(t *testing.T, s *sdk.ClientSession, charge string, amount any, more ...any) (state, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	arguments := map[string]any{"charge": charge, "amount": amount}
	for i := 0; i < len(more); i += 2 {
		arguments[more[i].(string)] = more[i+1]
	}
	r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "refund", Arguments: arguments})
	if err != nil {
		return "failed", err.Error()
	}
	state, _ = r.Meta[metaState].(string)
	if good := state == stateExecuted || state == stateAlready; good == r.IsError {
		t.Errorf("%s is an error: %v", state, r.IsError)
	}
	return state, textIn(r)
}

func wants(t *testing.T, s *sdk.ClientSession, charge string, amount any, state, text string, more ...any) {
	t.Helper()
	if got, said := refund(t, s, charge, amount, more...); got != state || !strings.Contains(said, text) {
		t.Errorf("%s %v: %s %q, want %s %q", charge, amount, got, said, state, text)
	}
}
