package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"spendgate/hotpath/client"
	"spendgate/hotpath/client/pay"
)

// stopTimeout is how long calls in flight may take when the gateway is stopped.
const stopTimeout = 8 * time.Second

// Options are what a Gateway uses.
type Options struct {
	File    *File
	Client  *client.Client
	Version string
	Environ []string // of the servers that are child processes
	Logger  *slog.Logger
	// Registerer takes the metrics; nil where nobody reads them.
	Registerer prometheus.Registerer
}

// Gateway stands between agents and servers. It keeps no state that matters: decisions and
// outcomes are stored in the service.
type Gateway struct {
	file    *File
	locked  locked
	api     *client.Client
	guard   *pay.Guard
	version string
	log     *slog.Logger
	metrics *metrics
	dial    func(*upstream) mcp.Transport
	tokens  *tokens        // nil if agents have none
	calls   sync.WaitGroup // mapped calls

	mu       sync.Mutex
	requests map[string]int // of agents, without an answer yet

	// stopping ends the waiting of mapped calls, but not what a server is carrying out.
	stopping context.Context //nolint:containedctx // of the process
	stop     context.CancelFunc
}

// New makes a Gateway. Without a lock of the tools' definitions only a shadow starts.
func New(o Options) (*Gateway, error) {
	pins, err := readLock(o.File.path)
	if err != nil {
		return nil, err
	}
	if pins == nil && !o.File.Shadow {
		return nil, fmt.Errorf("there is no %s, which has the definitions of tools that were accepted: look at the tools, "+
			"then run spendgate gateway check --accept %s", lockPath(o.File.path), o.File.path)
	}
	g := &Gateway{file: o.File, api: o.Client, version: o.Version, log: o.Logger, metrics: newMetrics(o.Registerer)}
	g.requests = make(map[string]int)
	g.guard = pay.New(pay.Options{Client: o.Client, Logger: o.Logger, Unanswered: checkTimeout, Unreported: g.metrics.unrecorded.Inc})
	if o.File.known() {
		if g.tokens, err = readTokens(o.File, o.Logger, g.metrics.tokenFaults); err != nil {
			return nil, fmt.Errorf("%s: tokens: %w", o.File.path, err)
		}
	}
	g.locked = locked{path: o.File.path, pins: pins}
	g.stopping, g.stop = context.WithCancel(context.Background())
	g.dial = func(u *upstream) mcp.Transport { return dialer(u, o.Environ, o.Logger) }
	return g, nil
}

// tool returns the definition of a tool as its server gave it at most age ago, and the
// connection over which it came. It fails with an offError if the tool is off.
func (g *Gateway) tool(ctx context.Context, l *link, name string, age time.Duration) (definition, *mcp.ClientSession, error) {
	tools, over, err := l.definitions(ctx, age)
	if err != nil {
		return definition{}, nil, fmt.Errorf("the server cannot be asked for its tools (%w); call again later", err)
	}
	d, ok := tools[name]
	if !ok {
		return definition{}, nil, fmt.Errorf("the server has no tool %q", name)
	}
	if err := g.permitted(g.locked.now(), l.u, name, d); err != nil {
		return definition{}, nil, &offError{err}
	}
	return d, over, nil
}

// enter makes room for a request of an agent, who leaves when it is answered.
func (g *Gateway) enter(agent string) (leave func(), err error) {
	agent, most := g.bound(agent, maxRequests)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.requests[agent] >= most {
		return nil, fmt.Errorf("%d requests of this agent have no answer yet, which is the most", most)
	}
	g.requests[agent]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.requests[agent]--; g.requests[agent] == 0 {
			delete(g.requests, agent)
		}
	}, nil
}

// bound returns whose share an agent's is, and how large. Without tokens agents can call themselves anything: all have one.
func (g *Gateway) bound(agent string, share int) (of string, most int) {
	if g.tokens == nil {
		return "", maxSessions
	}
	return agent, share
}

// offError is why a tool is off.
type offError struct{ error }

// permitted returns why a tool is off by a lock, nil if it is not off. A tool is off because of its
// definition, or because of what the file says about tools that it does not map.
func (g *Gateway) permitted(pins *lock, u *upstream, name string, d definition) error {
	if err := pins.accepted(u, name, d); err != nil {
		return err
	}
	switch {
	case u.Tools[name] != nil || g.file.Default == "pass":
		return nil
	case g.file.Default == "read_only" && (d.ReadOnly && pins == nil || pins != nil && pins.Upstreams[u.name][name].ReadOnly):
		return nil
	default:
		return fmt.Errorf("the tool %s is not mapped, and the gateway's default for such tools is %s", name, g.file.Default)
	}
}

// ServeStdio serves one agent over a pair of streams until the input or the context ends. name is the upstream; empty
// where the file has only one. Mapped calls in flight are finished.
func (g *Gateway) ServeStdio(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	if name == "" && !g.file.Several() {
		name = g.file.order[0]
	}
	u := g.file.Upstreams[name]
	if u == nil {
		return fmt.Errorf("--upstream must name one of the file's upstreams: %s", strings.Join(g.file.order, ", "))
	}
	g.metrics.sessions.Inc()
	defer g.metrics.sessions.Dec()
	s := newSession(g, u)
	defer s.close()
	input, feed := io.Pipe()
	go func() {
		_, err := io.Copy(feed, in)
		feed.CloseWithError(err)
	}()
	agent, err := s.server.Connect(ctx, &mcp.IOTransport{Reader: input, Writer: unclosed{out}}, nil)
	if err != nil {
		return fmt.Errorf("cannot serve the agent: %w", err)
	}
	ended := make(chan struct{})
	go func() { _ = agent.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	err = g.finish()
	feed.Close() //nolint:errcheck // a pipe's Close does not fail
	return err
}

// unclosed is an output that the process closes.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// finish ends the waiting of mapped calls, and waits for those that a server is carrying out.
func (g *Gateway) finish() error {
	g.stop()
	ended := make(chan struct{})
	go func() { g.calls.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-time.After(stopTimeout):
		return errors.New("calls in flight did not end; what became of them is in doubt")
	}
}

// Reload reads the agents' tokens again.
func (g *Gateway) Reload() {
	if g.tokens != nil && g.tokens.folder != "" {
		g.tokens.reload()
	}
}
