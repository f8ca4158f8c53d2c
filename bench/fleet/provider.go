package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Provide is a payment provider to try the gateway with: an MCP server over standard input and output. Its tool refund takes that
// long, and notes each charge in a ledger.
func Provide(ctx context.Context, ledger string, takes time.Duration) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "psp", Version: "1"}, nil)
	schema := map[string]any{"type": "object", "properties": map[string]any{
		"charge": map[string]any{"type": "string"}, "amount": map[string]any{"type": "integer"},
	}, "required": []string{"charge", "amount"}}
	server.AddTool(&mcp.Tool{Name: "refund", Description: "Refunds cents of a charge.", InputSchema: schema},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var asked struct{ Charge string }
			if err := json.Unmarshal(r.Params.Arguments, &asked); err != nil {
				return nil, err
			}
			file, err := os.OpenFile(ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			_, err = fmt.Fprintln(file, asked.Charge)
			time.Sleep(takes)
			return &mcp.CallToolResult{
				Content:           []mcp.Content{&mcp.TextContent{Text: "refunded"}},
				StructuredContent: map[string]any{"id": "re-" + asked.Charge},
			}, errors.Join(err, file.Close())
		})
	return server.Run(ctx, &mcp.StdioTransport{})
}
