package gateway

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// session is what agents meet: a server of the protocol that passes what it is asked to an upstream. In the era with
// sessions each session of an agent has one, with a connection of its own; in the other one all agents share it.
type session struct {
	gw     *Gateway
	log    *slog.Logger
	server *mcp.Server
	l      *link

	begin sync.Once

	mu       sync.Mutex
	agent    *mcp.ServerSession // of the era with sessions
	used     time.Time          // when the agent asked for something last, or was answered
	asking   int                // requests without an answer
	next     int
	flight   map[string]*origin              // what the server was asked and has not answered, by our progress tokens
	watching map[string][]*mcp.ServerSession // the agents that subscribed to a resource
}

// origin is which request of an agent a request to the server belongs to.
type origin struct {
	ctx     context.Context //nolint:containedctx // routes what the server says meanwhile
	agent   *mcp.ServerSession
	token   any // for progress
	arrived int // notifications of progress that are not passed on yet
}

func newSession(g *Gateway, u *upstream) *session {
	s := &session{gw: g, log: g.Logger.With("upstream", u.name), used: time.Now(), flight: make(map[string]*origin)}
	s.watching = make(map[string][]*mcp.ServerSession)
	s.l = &link{u: u, log: s.log, dial: g.dial, failed: g.metrics.ends.WithLabelValues(u.name).Inc, arrived: s.arrived}
	s.server = mcp.NewServer(&mcp.Implementation{Name: "spendgate-gateway", Version: g.Version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{ // what the server itself has is said in its place
			Tools: &mcp.ToolCapabilities{ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true},
			Resources:   &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
			Completions: &mcp.CompletionCapabilities{}, Logging: &mcp.LoggingCapabilities{},
		},
		SubscribeHandler: func(ctx context.Context, r *mcp.SubscribeRequest) error {
			return s.subscribe(ctx, r.Session, r.Params.URI)
		},
		UnsubscribeHandler: func(ctx context.Context, r *mcp.UnsubscribeRequest) error {
			return s.unsubscribe(ctx, r.Session, r.Params.URI)
		},
		RootsListChangedHandler: func(context.Context, *mcp.RootsListChangedRequest) {
			s.l.client.AddRoots(&mcp.Root{URI: "file:///changed"})
		},
	})
	s.changed("tools")
	s.server.AddReceivingMiddleware(s.receive)
	return s
}

// unnamed is the name of the tool under which the SDK calls callTool, whatever tool is called.
const unnamed = "tool"

type toolKey struct{}

// changed tells agents that a list of the server may have changed. The SDK says so when a list of its own has.
func (s *session) changed(list string) {
	switch list {
	case "tools":
		s.server.AddTool(&mcp.Tool{Name: unnamed, InputSchema: map[string]any{"type": "object"}}, s.callTool)
	case "prompts":
		s.server.AddPrompt(&mcp.Prompt{Name: unnamed}, nil)
	case "resources":
		s.server.AddResource(&mcp.Resource{Name: unnamed, URI: "spendgate:" + unnamed}, nil)
	}
}

// connect makes the client that is connected to the server, once. In the era with sessions it is one for the agent: it has the agent's
// capabilities, and passes the server's questions to the agent.
func (s *session) connect(info *mcp.Implementation, capabilities *mcp.ClientCapabilities, agent *mcp.ServerSession) {
	s.begin.Do(func() {
		s.mu.Lock()
		s.agent = agent
		s.mu.Unlock()
		if capabilities == nil {
			capabilities = new(mcp.ClientCapabilities)
		}
		if info == nil {
			info = &mcp.Implementation{Name: "spendgate-gateway", Version: s.gw.Version}
		}
		s.l.old = agent != nil
		s.l.client = mcp.NewClient(info, &mcp.ClientOptions{
			Capabilities: capabilities, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
			ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { s.l.forgetTools(); s.changed("tools") },
			PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { s.changed("prompts") },
			ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { s.changed("resources") },
			ResourceUpdatedHandler: func(ctx context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
				_ = s.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: r.Params.URI}) // agents may be gone
			},
			ProgressNotificationHandler: s.progressed,
			LoggingMessageHandler: func(ctx context.Context, r *mcp.LoggingMessageRequest) {
				if agent != nil { // which of several agents it is for is not known
					_ = agent.Log(s.within(ctx), r.Params)
				}
			},
			ElicitationCompleteHandler: func(ctx context.Context, r *mcp.ElicitationCompleteNotificationRequest) {
				if agent != nil {
					_ = agent.NotifyElicitationComplete(ctx, r.Params)
				}
			},
		})
		s.l.client.AddSendingMiddleware(s.l.send)
		s.l.client.AddReceivingMiddleware(s.questions(agent))
	})
}

// use notes that the agent asks for something, with 1, or was answered, with -1.
func (s *session) use(asking int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used, s.asking = time.Now(), s.asking+asking
}

// receive is middleware that passes what agents ask to the server. What it does not name is answered by the SDK, or refused.
func (s *session) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer survive(&err)
		s.use(1)
		defer s.use(-1)
		if p, ok := r.GetParams().(*mcp.InitializeParams); ok {
			result, err := next(ctx, method, r)
			agent, _ := r.GetSession().(*mcp.ServerSession)
			if err == nil {
				s.connect(p.ClientInfo, p.Capabilities, agent)
			}
			return s.greet(ctx, result, err)
		}
		s.connect(nil, nil, nil)
		if !strings.HasPrefix(method, "notifications/") {
			leave, err := s.gw.enter(s.gw.agentOf(r.GetExtra()))
			if call, ok := r.GetParams().(*mcp.CallToolParamsRaw); err != nil && ok && s.l.u.Tools[call.Name] != nil {
				return failure("%v.%s", err, sameAgain).result(), nil
			}
			if err != nil {
				return nil, &jsonrpc.Error{Code: codeUnavailable, Message: err.Error()}
			}
			defer leave()
		}
		switch p := r.GetParams().(type) {
		case *mcp.DiscoverParams:
			result, err := next(ctx, method, r)
			return s.greet(ctx, result, err)
		case *mcp.ListToolsParams:
			result, err := forward(ctx, s, r, p, (*mcp.ClientSession).ListTools)
			if tools, ok := result.(*mcp.ListToolsResult); ok && err == nil {
				s.offer(tools)
			}
			return result, err
		case *mcp.CallToolParamsRaw:
			named := *p
			named.Name = unnamed
			extra, _ := r.(*mcp.CallToolRequest)
			return next(context.WithValue(ctx, toolKey{}, p.Name), method,
				&mcp.CallToolRequest{Session: extra.Session, Params: &named, Extra: extra.Extra})
		case *mcp.ListPromptsParams:
			return forward(ctx, s, r, p, (*mcp.ClientSession).ListPrompts)
		case *mcp.GetPromptParams:
			return forward(ctx, s, r, p, (*mcp.ClientSession).GetPrompt)
		case *mcp.ListResourcesParams:
			return forward(ctx, s, r, p, (*mcp.ClientSession).ListResources)
		case *mcp.ListResourceTemplatesParams:
			return forward(ctx, s, r, p, (*mcp.ClientSession).ListResourceTemplates)
		case *mcp.ReadResourceParams:
			return forward(ctx, s, r, p, (*mcp.ClientSession).ReadResource)
		case *mcp.CompleteParams:
			return forward(ctx, s, r, p, (*mcp.ClientSession).Complete)
		case *mcp.SetLoggingLevelParams:
			cs, err := s.l.session(ctx)
			if err == nil && cs.InitializeResult().ProtocolVersion <= legacyVersion { // the other era says the level in each request
				err = cs.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: p.Level})
			}
			if err != nil {
				return nil, s.l.fault(err)
			}
		}
		return next(ctx, method, r)
	}
}

// greet puts what the server said of itself into the answer to an agent that connects.
func (s *session) greet(ctx context.Context, result mcp.Result, err error) (mcp.Result, error) {
	if err != nil {
		return nil, err
	}
	cs, err := s.l.session(ctx)
	if err != nil {
		return nil, s.l.fault(err)
	}
	own := cs.InitializeResult()
	switch r := result.(type) {
	case *mcp.InitializeResult:
		r.Capabilities, r.Instructions, r.ServerInfo = own.Capabilities, own.Instructions, own.ServerInfo
	case *mcp.DiscoverResult:
		r.Capabilities, r.Instructions = own.Capabilities, own.Instructions
		r.Meta = mcp.Meta{mcp.MetaKeyServerInfo: own.ServerInfo}
	}
	return result, nil
}

// callTool handles a call of a tool. For a mapped tool the service is asked; a call of another
// tool is passed on if the file allows that.
func (s *session) callTool(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name, _ := ctx.Value(toolKey{}).(string)
	if s.l.u.Tools[name] != nil {
		return s.callMapped(ctx, r, name)
	}
	if err := s.mayPass(ctx, name); err != nil {
		return refusedTool(err).result(), nil
	}
	cs, err := s.l.session(ctx)
	if err != nil {
		return nil, s.l.fault(err)
	}
	p := &mcp.CallToolParams{
		Name: name, Arguments: r.Params.Arguments, InputResponses: r.Params.InputResponses, RequestState: r.Params.RequestState,
	}
	if len(r.Params.Arguments) == 0 {
		p.Arguments = nil
	}
	defer s.carry(ctx, cs, r.Session, r.Params, p)()
	result, err := cs.CallTool(ctx, p)
	if err != nil {
		return nil, s.l.fault(err)
	}
	return result, nil
}

// mayPass returns why a tool that is not mapped is off.
func (s *session) mayPass(ctx context.Context, name string) error {
	if s.gw.File.Shadow && s.gw.locked.now() == nil {
		return nil
	}
	_, _, err := s.gw.tool(ctx, s.l, name, fresh)
	if err != nil && s.gw.File.Shadow {
		s.log.Warn("a shadow passes what would be refused", "tool", name, "reason", err)
		return nil
	}
	return err
}

// offer leaves those tools in a list that are not off, as the model sees them.
func (s *session) offer(list *mcp.ListToolsResult) {
	pins, offered := s.gw.locked.now(), []*mcp.Tool{}
	for _, t := range list.Tools {
		if err := s.gw.permitted(pins, s.l.u, t.Name, define(t)); err != nil {
			s.log.Debug("a tool is not offered", "tool", t.Name, "reason", err)
			if !s.gw.File.Shadow {
				continue
			}
		}
		if m := s.l.u.Tools[t.Name]; m != nil {
			shown := *t
			shown.OutputSchema = nil // a refusal does not conform to it
			if m.IdempotencyArgument != "" {
				shown.InputSchema = hide(encode(t.InputSchema), m.IdempotencyArgument)
			}
			t = &shown
		}
		offered = append(offered, t)
	}
	list.Tools = offered
}

// close ends the session.
func (s *session) close() {
	s.connect(nil, nil, nil)
	s.l.close()
	s.mu.Lock()
	agent := s.agent
	s.mu.Unlock()
	if agent != nil {
		_ = agent.Close() // it may have ended before
	}
}
