package gateway

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// subscribe subscribes an agent to a resource. The agents that share a connection have one subscription there.
func (s *session) subscribe(ctx context.Context, agent *mcp.ServerSession, uri string) error {
	s.mu.Lock()
	s.watching[uri] = append(s.watching[uri], agent)
	s.mu.Unlock()
	cs, err := s.l.session(ctx)
	if err == nil {
		err = cs.Subscribe(ctx, &mcp.SubscribeParams{URI: uri})
	}
	if err != nil {
		s.unwatch(agent, uri)
	}
	return s.l.fault(err)
}

// unwatch returns how many agents are still subscribed to a resource.
func (s *session) unwatch(agent *mcp.ServerSession, uri string) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(s.watching[uri], func(other *mcp.ServerSession) bool { return other == agent })
	if s.watching[uri] = all; len(all) == 0 {
		delete(s.watching, uri)
	}
	return len(all)
}

// unsubscribe ends an agent's subscription. In the era without sessions it is called when the agent has gone.
func (s *session) unsubscribe(ctx context.Context, agent *mcp.ServerSession, uri string) error {
	if s.unwatch(agent, uri) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	cs, err := s.l.session(ctx)
	if err == nil {
		err = cs.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri})
	}
	s.mu.Lock()
	again := len(s.watching[uri]) > 0 // another agent has subscribed meanwhile, perhaps before the server ended it
	s.mu.Unlock()
	if err == nil && again {
		err = cs.Subscribe(ctx, &mcp.SubscribeParams{URI: uri})
	}
	return s.l.fault(err)
}
