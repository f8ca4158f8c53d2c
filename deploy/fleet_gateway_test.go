package deploy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
)

// bearer sends an agent's token.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// paysThroughGateway: an agent pays once, whatever it repeats, and Prometheus sees the gateway.
func (f *localFleet) paysThroughGateway(t *testing.T) {
	web := &http.Client{Transport: bearer(strings.TrimSpace(f.read(t, "agents/support-bot")))}
	agent := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := agent.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: f.urls["gateway"] + "/mcp", HTTPClient: web}, nil)
	must.Do(t, err)
	defer session.Close() //nolint:errcheck // it asks for nothing more
	for _, want := range []string{"executed", "already_executed"} {
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": "ch_1", "amount": 1_250}})
		if err != nil || r.Meta["spendgate/state"] != want {
			t.Errorf("not %s: %+v, %v", want, r, err)
		}
	}
	if paid := f.read(t, "ledger"); paid != "ch_1\n" {
		t.Errorf("the provider paid %q", paid)
	}
	eventually(t, "Prometheus scrapes the gateway", func() bool { return len(f.ask(t, `up{job="spendgate-gateway"} == 1`)) == 1 })
}
