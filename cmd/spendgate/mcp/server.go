package mcp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

const (
	// Path is where the HTTP transport is served.
	Path = "/mcp"
	// callTimeout bounds a tool call, the client's retries included, without the time that it waits
	// for people.
	callTimeout = 30 * time.Second
	// maxBody bounds a message over HTTP: the service itself takes 1 MiB.
	maxBody = 2 << 20
)

// instructions describe the server to a model.
const instructions = `spendgate decides whether an AI agent may move money. Before every refund, credit, discount or payment, call
check_financial_action with exactly the action that is planned, and carry it out only if "proceed" is true.
"block": do not, and do not split or reword the action to get round it. "escalate": pause and hand it to a human, or, if the answer has an
approval_id, call wait_for_approval: pending is not approved.
A tool error is no decision: do not act. simulate_actions answers what would happen and permits nothing.`

// Options configure a tool server.
type Options struct {
	Client *client.Client
	// HasKey says whether the client has an API key. Without one simulate_actions works, in demo mode,
	// and the other tools answer which setting is missing.
	HasKey bool
	// PolicyWrites offers create_policy: an agent should not edit the rules
	// that bind it.
	PolicyWrites bool
	Version      string
	// Stopping is closed when the server is to stop: calls that wait for people then return. A nil
	// channel is never closed.
	Stopping <-chan struct{}
	Logger   *slog.Logger // never to the standard output: that is the protocol's
}

// Server is a tool server. It may serve any number of transports at once.
type Server struct {
	client   *client.Client
	hasKey   bool
	needs    map[string]spend.Scopes // the scope that each tool needs
	pending  *pendingKeys
	waiting  chan struct{} // one for each call that waits for people
	stopping <-chan struct{}
	log      *slog.Logger
	mcp      *sdk.Server
}

// New makes a tool server; it sends nothing.
func New(o Options) *Server {
	s := &Server{
		client: o.Client, hasKey: o.HasKey, needs: make(map[string]spend.Scopes), pending: newPendingKeys(time.Now),
		waiting: make(chan struct{}, maxWaiting), stopping: o.Stopping, log: o.Logger,
	}
	s.mcp = sdk.NewServer(
		&sdk.Implementation{Name: "spendgate", Title: "spendgate: may this agent move this money?", Version: o.Version},
		&sdk.ServerOptions{
			Instructions: instructions, Logger: slog.New(warnings{o.Logger.Handler()}),
			// Clients are not told when the list of tools changes, and nothing is
			// logged to them.
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		},
	)
	for _, t := range s.tools() {
		if t.name != createPolicy || o.PolicyWrites {
			s.mcp.AddTool(t.definition(), s.handler(t))
			s.needs[t.name] = t.scope
		}
	}
	s.mcp.AddReceivingMiddleware(s.offered)
	return s
}

// handler reads the arguments, runs a tool and reports how it went. Nothing of
// arguments and answers is logged.
func (s *Server) handler(t tool) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout+t.wait)
		defer cancel()
		started := time.Now()
		result, err := s.call(client.WithTrace(ctx, traceOf(r, "traceparent"), traceOf(r, "tracestate")), t, r.Params.Arguments)
		ended := "ok"
		if err != nil {
			result, ended = failure(t, err), endOf(err)
		}
		s.log.Info("tool call", "tool", t.name, "result", ended, "duration_ms", time.Since(started).Milliseconds())
		return result, nil
	}
}

// traceOf returns a field of a call's W3C Trace Context: the field of the call itself,
// in its _meta, or of the HTTP request it came with.
func traceOf(r *sdk.CallToolRequest, name string) string {
	if own, _ := r.Params.Meta["traceparent"].(string); own != "" {
		value, _ := r.Params.Meta[name].(string)
		return value
	}
	if r.Extra == nil {
		return ""
	}
	return r.Extra.Header.Get(name)
}

func (s *Server) call(ctx context.Context, t tool, arguments []byte) (*sdk.CallToolResult, error) {
	if !t.keyless && !s.hasKey {
		return nil, errNoKey
	}
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if err := checkArguments(t.input, arguments); err != nil {
		return nil, err
	}
	return t.run(ctx, arguments)
}

// Handler serves the streamable HTTP transport at Path, without sessions: any
// replica may answer a request. A token is required as Authorization: Bearer.
//
// Requests of browser pages are refused: requests of another origin, and requests to
// a loopback address under another host name (DNS rebinding).
func (s *Server) Handler(token string) http.Handler {
	stream := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.mcp }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
		PropagateRequestCancellation: true, Logger: slog.New(warnings{s.log.Handler()}),
	})
	mux := http.NewServeMux()
	mux.Handle(Path, authenticate(token, limited(oneMessage(stream))))
	return http.NewCrossOriginProtection().Handler(mux)
}

// authenticate requires the token, if there is one.
func authenticate(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "missing or wrong token; send Authorization: Bearer", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// warnings passes only warnings and errors of the SDK on.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
