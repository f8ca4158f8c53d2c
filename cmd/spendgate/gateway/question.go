package gateway

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/hotpath/client"
)

// question is middleware that passes the questions of a server to the agent of the session.
func (s *session) question(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer survive(&err)
		s.mu.Lock()
		agent := s.agent
		s.mu.Unlock()
		if agent == nil {
			return next(ctx, method, r)
		}
		switch p := r.GetParams().(type) {
		case *mcp.CreateMessageWithToolsParams:
			result, err = agent.CreateMessageWithTools(s.within(ctx), p)
		case *mcp.ElicitParams:
			result, err = agent.Elicit(s.within(ctx), p)
		case *mcp.ListRootsParams:
			result, err = agent.ListRoots(s.within(ctx), p)
		default:
			return next(ctx, method, r)
		}
		return result, s.l.fault(err)
	}
}

// routed is a context that ends as one does, and has the values of another, which route a message to the agent.
type routed struct {
	context.Context
	values context.Context //nolint:containedctx // see above
}

// Value returns a value of the request that the message belongs to.
func (r routed) Value(key any) any { return r.values.Value(key) }

// within returns a context for a message to the agent that belongs to a request of the agent's, if there is one.
func (s *session) within(ctx context.Context) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.flight {
		return routed{ctx, of}
	}
	return ctx
}

// approvalAsked is the question to the agent's user that leads to an approval in the console.
const approvalAsked = "approval"

// canOpen reports whether the agent shows its user an address.
func (s *session) canOpen(r *mcp.CallToolRequest) bool {
	c := r.ClientCapabilities()
	return s.gw.file.Console != "" && c != nil && c.Elicitation != nil && c.Elicitation.URL != nil
}

// approvalOpened reports what the agent's user did with the address of the approval.
func approvalOpened(r *mcp.CallToolRequest) (opened, declined bool) {
	answer, asked := r.Params.InputResponses[approvalAsked].(*mcp.ElicitResult)
	opened = asked && answer.Action == "accept"
	return opened, asked && !opened
}

// approvalPage asks the agent's user to open the approval of a check in the console.
func (s *session) approvalPage(check *client.Result) mcp.InputRequestMap {
	if check.ApprovalID == "" {
		return nil
	}
	return mcp.InputRequestMap{approvalAsked: &mcp.ElicitParams{
		Mode: "url", URL: strings.TrimRight(s.gw.file.Console, "/") + "/#/approvals/" + check.ApprovalID, ElicitationID: check.ApprovalID,
		Message: "This payment waits for people to approve it: " + check.Message,
	}}
}
