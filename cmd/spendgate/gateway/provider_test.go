package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
)

// provider is a payment provider with a tool, and a ledger of its payments.
type provider struct {
	mu     sync.Mutex
	ledger []string
	keys   map[string]bool
	// behave returns whether a call pays, and how it ends.
	behave func(number int) (pays bool, err error)
	calls  int
	slow   time.Duration // before and after it pays
	url    string
	schema map[string]any
}

func newProvider(t *testing.T) *provider {
	p := &provider{keys: make(map[string]bool), schema: map[string]any{"type": "object", "properties": map[string]any{
		"amount": map[string]any{"type": "integer"}, "idempotency_key": map[string]any{"type": "string"},
	}, "required": []string{"amount", "idempotency_key"}}}
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
	})
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
	pays, err := true, error(nil)
	if p.behave != nil {
		pays, err = p.behave(p.calls)
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
	if !pays {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "declined"}}}, nil
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
        policy_id: p
        action_type: refund
        amount: {argument: amount, minor_units: true}
        currency: {value: USD}
        counterparty: {argument: charge}
        same: [charge, amount]
        reference: {result: id}
        wait_seconds: 1
`

// guarded makes a gateway before a provider, with a lock of its tools.
func guarded(t *testing.T, f *fakeService, p *provider, head, more string) *Gateway {
	t.Helper()
	return guardedAs(t, f, p, "k", head, more)
}

// guardedAs makes a gateway with another API key.
func guardedAs(t *testing.T, f *fakeService, p *provider, apiKey, head, more string) *Gateway {
	t.Helper()
	path := write(t, t.TempDir(), "g.yaml", "agent_id: bot\n"+head+"upstreams:\n  psp:\n    url: "+p.url+"\n    tools:"+refundMapping+more)
	file, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(head, "unlocked") {
		err := Check(t.Context(), CheckOptions{File: file, Accept: true, Logger: quiet(), Out: t.Output()})
		if err != nil && !strings.Contains(head, "ambiguous") {
			t.Fatal(err)
		}
	}
	api := f.client(t, apiKey)
	g, err := New(Options{
		File: file, Client: api, Version: "test", Environ: os.Environ(), Logger: testLog(t), Registerer: prometheus.NewPedanticRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stop)
	return g
}

func agentOf(t *testing.T, g *Gateway) *sdk.ClientSession {
	return overStdio(t, g, sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil))
}

// refund calls the tool and returns the state and the text.
func refund(t *testing.T, s *sdk.ClientSession, charge string, amount any) (state, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": charge, "amount": amount}})
	if err != nil {
		return "failed", err.Error()
	}
	state, _ = r.Meta[metaState].(string)
	if good := state == stateExecuted || state == stateAlready; good == r.IsError {
		t.Errorf("%s is an error: %v", state, r.IsError)
	}
	return state, textIn(r)
}

func wants(t *testing.T, s *sdk.ClientSession, charge string, amount any, state, text string) {
	t.Helper()
	if got, said := refund(t, s, charge, amount); got != state || !strings.Contains(said, text) {
		t.Errorf("%s %v: %s %q, want %s %q", charge, amount, got, said, state, text)
	}
}
