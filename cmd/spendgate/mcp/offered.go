package mcp

import (
	"context"
	"fmt"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/audit/spend"
)

// selfTimeout bounds how long a list of tools waits for the service, which
// answers within 2 s even when it is in trouble (G7).
const selfTimeout = 3 * time.Second

// offered removes from a list of tools those that the API key may not use at this moment. This helps a
// model and protects nothing: the service refuses every call that the key does not permit. So without
// an answer, or after one that this program does not understand, all tools are listed: an agent that
// does not find check_financial_action might act without asking.
func (s *Server) offered(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, r)
		list, ok := result.(*sdk.ListToolsResult)
		if err != nil || !ok || !s.hasKey {
			return result, err
		}
		has, err := s.permitted(ctx)
		if err != nil {
			s.log.Warn("all tools are listed: it is not known what the API key may do", "error", err)
			return list, nil
		}
		list.Tools = slices.DeleteFunc(list.Tools, func(t *sdk.Tool) bool { return !has.Has(s.needs[t.Name]) })
		return list, nil
	}
}

// permitted returns the scopes that the API key has.
func (s *Server) permitted(ctx context.Context) (spend.Scopes, error) {
	ctx, cancel := context.WithTimeout(ctx, selfTimeout)
	defer cancel()
	k, err := s.client.Self(ctx)
	if err != nil {
		return 0, err
	}
	g := spend.Grants{Role: spend.Role(k.Role)}
	if g.Role != "" && !g.Role.Known() {
		return 0, fmt.Errorf("the role %q is not known here", k.Role)
	}
	for _, name := range k.Scopes {
		scope, known := spend.ParseScope(name)
		if !known {
			return 0, fmt.Errorf("the scope %q is not known here", name)
		}
		g.Scopes |= scope
	}
	return g.Permitted(), nil
}
