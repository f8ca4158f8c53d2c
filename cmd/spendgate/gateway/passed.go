package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// carry prepares the parameters of a request to the server: its _meta is the agent's, without what only the agent's own era has, and
// with a progress token of ours. done is called when the request has ended.
func (s *session) carry(ctx context.Context, cs *mcp.ClientSession, agent *mcp.ServerSession, from, to mcp.Params) (done func()) {
	meta := maps.Clone(from.GetMeta())
	if agentVersion, _ := meta[mcp.MetaKeyProtocolVersion].(string); agentVersion != cs.InitializeResult().ProtocolVersion {
		maps.DeleteFunc(meta, func(name string, _ any) bool { return strings.HasPrefix(name, "io.modelcontextprotocol/") })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	of, ours := &origin{ctx: ctx, agent: agent, token: meta["progressToken"]}, fmt.Sprintf("gateway-%d", s.next)
	if s.flight[ours] = of; of.token != nil {
		meta["progressToken"] = ours
	}
	to.SetMeta(meta)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for end := time.Now().Add(hurry); of.arrived > 0 && time.Now().Before(end); {
			s.mu.Unlock()
			time.Sleep(time.Millisecond)
			s.mu.Lock()
		}
		delete(s.flight, ours)
	}
}

// arrived counts notifications of progress in the order of all messages: the SDK hands them over later, perhaps after the answer.
func (s *session) arrived(m jsonrpc.Message) {
	r, ok := m.(*jsonrpc.Request)
	if !ok || r.Method != "notifications/progress" {
		return
	}
	var p mcp.ProgressNotificationParams
	if json.Unmarshal(r.Params, &p, lax()) != nil {
		return // the SDK cannot read it either
	}
	token, _ := p.ProgressToken.(string)
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.flight[token]; of != nil {
		of.arrived++
	}
}

func (s *session) progressed(ctx context.Context, r *mcp.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	s.mu.Lock()
	of := s.flight[token]
	s.mu.Unlock()
	if of == nil {
		return
	}
	p := *r.Params
	p.ProgressToken = of.token
	_ = of.agent.NotifyProgress(routed{ctx, of.ctx}, &p) // the agent may be gone
	s.mu.Lock()
	defer s.mu.Unlock()
	of.arrived--
}

// forward passes a request to the server.
func forward[T any, P interface {
	*T
	mcp.Params
}, R mcp.Result](ctx context.Context, s *session, r mcp.Request, from P, do func(*mcp.ClientSession, context.Context, P) (R, error),
) (mcp.Result, error) {
	if from == nil { // the request has no params
		from = new(T)
	}
	p := P(new(*from))
	cs, err := s.l.session(ctx)
	if err != nil {
		return nil, s.l.fault(err)
	}
	agent, _ := r.GetSession().(*mcp.ServerSession)
	defer s.carry(ctx, cs, agent, from, p)()
	result, err := do(cs, ctx, p)
	if err != nil {
		return nil, s.l.fault(err)
	}
	if asks, ok := any(result).(interface{ NeedsInput() bool }); ok && asks.NeedsInput() && s.l.old {
		return nil, &jsonrpc.Error{
			Code: codeUnavailable, Message: "the server asks a question in a way that version " + legacyVersion + " does not have",
		}
	}
	if !s.l.old {
		scope(result)
	}
	return result, nil
}

// questions is middleware that passes the questions of a server to the agent of the session, if there is one.
func (s *session) questions(agent *mcp.ServerSession) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
			defer survive(&err)
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
		return routed{ctx, of.ctx}
	}
	return ctx
}

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
