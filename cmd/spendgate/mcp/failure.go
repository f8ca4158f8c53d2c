package mcp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/hotpath/client"
)

// errNoKey is the answer of tools that need an API key if there is none.
var errNoKey = errors.New("this tool server has no API key: whoever runs it has to set SPENDGATE_API_KEY or SPENDGATE_API_KEY_FILE " +
	"and start it again. Only simulate_actions works without one, in demo mode")

// argumentError is a call that does not fit the tool's schema.
type argumentError struct{ faults []string }

func (e *argumentError) Error() string {
	return "the arguments do not fit: " + strings.Join(e.faults, "; ")
}

// failure returns a tool error (isError), with the text for the model.
func failure(t tool, err error) *sdk.CallToolResult {
	text := explain(err)
	if t.onError != "" {
		text += "\n" + t.onError
	}
	if undecided, ok := errors.AsType[*client.UndecidedError](err); ok {
		text += "\nIt may still have been decided. To find out, call again with exactly the same arguments; " +
			"from elsewhere, add idempotency_key " + undecided.IdempotencyKey + "."
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// explain returns code, message and when to retry.
func explain(err error) string {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok || refused.Code == "" {
		return "Error: " + err.Error()
	}
	text := fmt.Sprintf("Error %s (HTTP %d): %s", refused.Code, refused.Status, refused.Message)
	if refused.RetryAfter > 0 {
		text += fmt.Sprintf("\nRetry after: %d seconds", refused.RetryAfter/time.Second)
	}
	return text + "\nRequest: " + refused.RequestID
}

// endOf names an error in the log.
func endOf(err error) string {
	refused, ok := errors.AsType[*client.Error](err)
	_, misfit := errors.AsType[*argumentError](err)
	switch {
	case ok && refused.Code != "":
		return refused.Code
	case misfit:
		return "arguments refused"
	case errors.Is(err, errNoKey):
		return "no API key"
	default:
		return "no answer"
	}
}
