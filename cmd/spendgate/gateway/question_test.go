package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestApprovalInClient: an agent that shows its user an address leads the user to the approval, and goes on when it is decided.
func TestApprovalInClient(t *testing.T) {
	for _, e := range eras() {
		for action, want := range map[string]string{"accept": stateExecuted, "decline": statePending} {
			t.Run(e.version+"/"+e.transport+"/"+action, func(t *testing.T) {
				t.Parallel()
				s, p := newService(t), newProvider(t)
				head := "console_url: https://console.example/\n"
				if e.transport == "http" {
					head += "listen: 127.0.0.1:0\n"
				}
				opened := make(chan string, 9)
				client := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, &sdk.ClientOptions{
					Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}},
					ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
						opened <- r.Params.URL
						if action == "accept" {
							time.AfterFunc(200*time.Millisecond, func() { s.approve(t, true) })
						}
						return &sdk.ElicitResult{Action: action}, nil
					},
				})
				a := e.reach(t, guarded(t, s, p, head, "        wait_seconds: 10\n"), client)
				wants(t, a, "ch_1", 45_000, want, "")
				if url := <-opened; !strings.HasPrefix(url, "https://console.example/#/approvals/apr_") || len(opened) != 0 {
					t.Error(url, len(opened))
				}
				wants(t, a, "ch_2", 1, stateExecuted, "")
			})
		}
	}
}

// TestQuestionBehindMoney: a server that asks instead of answering a call that moves money leaves it in doubt.
func TestQuestionBehindMoney(t *testing.T) {
	s, p := newService(t), newProvider(t)
	p.url = streamable(t, func() *sdk.Server {
		server := sdk.NewServer(&sdk.Implementation{Name: "psp", Version: "1"}, nil)
		server.AddTool(&sdk.Tool{Name: "refund", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				ask := &sdk.ElicitParams{Message: "how much?", RequestedSchema: sure()}
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"x": ask}}, nil
			})
		return server
	}, latestVersion)
	wants(t, agentOver(t, guarded(t, s, p, "", "")), "ch_1", 1, stateInDoubt, "asks a question")
	s.became(t, "in_doubt")
}
