// Package gateway measures what a gateway costs: processor time and memory, by calls, agents, sessions and upstreams.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/procfs"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
	"spendgate/hotpath/client"
)

const (
	calls, agents, sessions, upstreams = 1000, 20_000, 1000, 10

	atOnce = 16
	era    = "2026-07-28"
)

// measured is a gateway that is a process, and whom it asks.
type measured struct {
	address, policy string
	process         *exec.Cmd
	out             io.Writer
	http            *http.Client
}

// Run starts a single node, a gateway and a provider, and measures the gateway.
func Run(ctx context.Context, call *load.Call) (err error) {
	if err := call.Parse(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "measure-gateway")
	if err != nil {
		return fmt.Errorf("cannot make a folder: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	dev, err := fleet.StartDev(ctx, dir, fleet.Settings{"MAX_RATE_LIMIT_RPM": "1000000"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Kill()) }()
	m := &measured{policy: "refunds", out: call.Out, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}}
	provider := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newProvider() },
		&mcp.StreamableHTTPOptions{Stateless: true}))
	defer provider.Close()
	if err := m.start(ctx, dir, dev, provider.URL); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.process.Process.Kill()) }()
	return m.measure(ctx)
}

func newProvider() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "psp", Version: "1"}, nil)
	done := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{
		"charge": map[string]any{"type": "string"}, "amount": map[string]any{"type": "number"},
	}}
	s.AddTool(&mcp.Tool{Name: "refund", InputSchema: schema}, done)
	s.AddTool(&mcp.Tool{Name: "look", InputSchema: schema, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, done)
	return s
}

// start makes a policy, a key, tokens and the gateway's file, and starts the gateway.
func (m *measured) start(ctx context.Context, dir string, dev *fleet.Dev, provider string) error {
	api, err := client.New(client.Options{BaseURL: dev.API, APIKey: dev.Key, AdminKey: dev.AdminKey})
	if err != nil {
		return err
	}
	if _, err := dev.Client(dev.Key).Do(ctx, http.MethodPost, "/v1/policies", fleet.Policy{
		PolicyID: m.policy, Name: m.policy,
		Rules: []fleet.Rule{{RuleID: "cap", RuleType: "max_amount", Parameters: map[string]any{"limit": 500, "currency": "USD"}}},
	}); err != nil {
		return err
	}
	key, err := api.CreateKey(ctx, client.KeyRequest{
		Name: "gateway", RateLimitRPM: new(1_000_000), Grants: client.Grants{Role: "gateway", Principal: "gateways"},
	})
	if err != nil {
		return err
	}
	tokens := filepath.Join(dir, "agents")
	failed := os.Mkdir(tokens, 0o700)
	for i := range agents {
		failed = errors.Join(failed, os.WriteFile(filepath.Join(tokens, fmt.Sprint("agent-", i)), []byte(tokenOf(i)), 0o600))
	}
	listen, err := fleet.FreeAddr()
	m.address = listen
	file := filepath.Join(dir, "gateway.yaml")
	var text strings.Builder
	fmt.Fprintf(&text, "spendgate: {url: %q, key_file: key}\nlisten: %s\ntokens: agents\nupstreams:\n", dev.API, listen)
	for i := range upstreams {
		fmt.Fprintf(&text, "  u%d:\n    url: %q\n    tools:\n      refund: {policy_id: %s, action_type: refund, amount: {argument: amount}, "+
			"currency: {value: USD}, counterparty: {argument: charge}, same: [charge]}\n", i, provider, m.policy)
	}
	failed = errors.Join(failed, err, os.WriteFile(filepath.Join(dir, "key"), []byte(key.APIKey), 0o600),
		os.WriteFile(file, []byte(text.String()), 0o600))
	if failed != nil {
		return failed
	}
	if out, err := exec.CommandContext(ctx, dev.Binary, "gateway", "check", "--accept", file).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	m.process = exec.CommandContext(ctx, dev.Binary, "gateway", file)
	if err := m.process.Start(); err != nil {
		return err
	}
	for range 200 {
		if m.begin(ctx, 0) == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the gateway does not start")
}

func tokenOf(agent int) string { return fmt.Sprintf("token-of-agent-%06d", agent) }

func (m *measured) measure(ctx context.Context) error {
	m.say("started, with %d tokens: %.0f MB", agents, m.memory())
	if err := m.call(ctx, 0, 0, "look", "x"); err != nil {
		return err
	}
	before := m.memory()
	for i := range upstreams {
		if err := m.call(ctx, 0, i, "look", "x"); err != nil {
			return err
		}
	}
	m.say("an upstream: %.2f MB", (m.memory()-before)/(upstreams-1))
	before = m.memory()
	for i := range sessions {
		if err := m.begin(ctx, i); err != nil {
			return err
		}
	}
	m.say("an agent with a session: %.2f MB", (m.memory()-before)/sessions)
	for _, tool := range []string{"look", "refund"} {
		if err := m.rate(ctx, tool, calls, 100); err != nil {
			return err
		}
	}
	if err := m.rate(ctx, "look", agents, agents); err != nil {
		return err
	}
	m.say("after %d agents: %.0f MB", agents, m.memory())
	return nil
}

// rate makes n calls of so many agents, each a payment of its own.
func (m *measured) rate(ctx context.Context, tool string, n, of int) error {
	began := time.Now()
	_, cpu := m.used()
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range n {
			next <- i
		}
	}()
	failures := make([]error, atOnce)
	var group sync.WaitGroup
	for worker := range atOnce {
		group.Go(func() {
			for i := range next {
				failures[worker] = cmp.Or(failures[worker], m.call(ctx, i%of, 0, tool, fmt.Sprintf("ch_%d_%d", of, i)))
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	_, now := m.used()
	m.say("%s, %d agents: %.0f calls a second, %.2f ms of a core each", tool, of, float64(n)/took.Seconds(), (now-cpu)*1000/float64(n))
	return errors.Join(failures...)
}

// call calls a tool once, in the era without sessions.
func (m *measured) call(ctx context.Context, agent, upstream int, tool, charge string) error {
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"charge":%q,"amount":1},"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`, tool, charge, era)
	answer, err := m.post(ctx, agent, upstream, text, map[string]string{
		"Mcp-Protocol-Version": era, "Mcp-Method": "tools/call", "Mcp-Name": tool,
	})
	if err == nil && !strings.Contains(answer, `"text":"done"`) {
		err = fmt.Errorf("the call of %s ends with %s", tool, answer)
	}
	return err
}

// begin begins a session of the other era.
func (m *measured) begin(ctx context.Context, agent int) error {
	_, err := m.post(ctx, agent, 0, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`, nil)
	return err
}

func (m *measured) post(ctx context.Context, agent, upstream int, text string, headers map[string]string) (string, error) {
	address := fmt.Sprintf("http://%s/mcp/u%d", m.address, upstream)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(text))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+tokenOf(agent))
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := m.http.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

// used returns how much memory the gateway has, in MB, and the processor time that it has used, in seconds.
func (m *measured) used() (memory, processor float64) {
	of, err := procfs.NewProc(m.process.Process.Pid)
	if err != nil {
		return 0, 0
	}
	stat, _ := of.Stat() // zero of one that has ended
	return float64(stat.ResidentMemory()) / (1 << 20), stat.CPUTime()
}

func (m *measured) say(format string, values ...any) {
	_, _ = fmt.Fprintf(m.out, format+"\n", values...) // whoever reads it sees that it is missing
}

func (m *measured) memory() float64 {
	memory, _ := m.used()
	return memory
}
