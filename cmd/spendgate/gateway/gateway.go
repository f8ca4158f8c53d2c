// Package gateway is a proxy between agents and the servers of the Model Context Protocol
// whose tools move money. A call of a mapped tool is checked, redeemed, carried out and
// reported by the guard of payments; decisions and outcomes are stored only in the service.
// Everything else is passed on.
//
// The protocol, in both eras, is the SDK's: a session is a server of it for agents, and a link
// a client of it for an upstream. What reaches an upstream is made anew from what was read.
// The package knows whether a call was sent, by watching what its transports write.
//
// docs/internals/gateway.md has the interleavings and crash points with the defence of each.
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

	"spendgate/audit/metric"
	"spendgate/audit/spend"
	"spendgate/hotpath/client"
	"spendgate/hotpath/client/pay"
)

// stopTimeout is how long calls in flight may take when the gateway is stopped.
const stopTimeout = 8 * time.Second

// Options are what a Gateway uses.
type Options struct {
	File    *File
	Client  *client.Client
	Shares  *Shares // the Client's transport
	Version string
	Environ []string // of the servers that are child processes
	Logger  *slog.Logger
	// Registerer takes the metrics; nil where nobody reads them.
	Registerer prometheus.Registerer
}

// Gateway stands between agents and servers. It keeps no state that matters: decisions and
// outcomes are stored in the service.
type Gateway struct {
	Options
	locked  locked
	guard   *pay.Guard
	metrics *metrics
	dial    func(*link) mcp.Transport
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
	g := &Gateway{Options: o, metrics: newMetrics(o.Registerer), requests: make(map[string]int), locked: locked{path: o.File.path, pins: pins}}
	g.guard = pay.New(pay.Options{Client: o.Client, Logger: o.Logger, Unanswered: checkTimeout, Unreported: g.metrics.unrecorded.Inc})
	if o.File.known() {
		if g.tokens, err = readTokens(o.File, o.Logger, g.metrics.tokenFaults); err != nil {
			return nil, fmt.Errorf("%s: tokens: %w", o.File.path, err)
		}
	}
	g.stopping, g.stop = context.WithCancel(context.Background())
	g.dial = func(l *link) mcp.Transport { return l.dialer(o.Environ) }
	return g, nil
}

// tool returns the definition of a tool as its server gave it at most age ago, and the
// connection over which it came. It fails with an offError if the tool is off.
func (g *Gateway) tool(ctx context.Context, l *link, name string, age time.Duration) (definition, *mcp.ClientSession, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
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

// agentOf returns which agent sent a request.
func (g *Gateway) agentOf(extra *mcp.RequestExtra) string {
	switch header := g.File.AgentID.header; {
	case extra != nil && extra.TokenInfo != nil:
		return extra.TokenInfo.UserID
	case header == "":
		return g.File.AgentID.fixed
	case extra != nil && len(extra.Header.Values(header)) == 1: // with several it is unknown which one is meant
		return spend.NFC(strings.TrimSpace(extra.Header.Get(header)))
	default:
		return ""
	}
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

// permitted returns why a tool is off by a lock, nil if it is not off. A tool is off because of its definition, or because of what
// the file says about tools that it does not map. Only a shadow has no lock.
func (g *Gateway) permitted(pins *lock, u *upstream, name string, d definition) error {
	readOnly := d.ReadOnly
	if pins != nil {
		known, ok := pins.Upstreams[u.name][name]
		switch {
		case d.SHA256 == "":
			return fmt.Errorf("the definition of the tool %s is ambiguous: it is off", name)
		case !ok:
			return fmt.Errorf("the tool %s is new: it is off until somebody accepts it (spendgate gateway check --accept)", name)
		case !known.accepts(d.pin):
			return fmt.Errorf("the definition of the tool %s changed: it is off until somebody accepts it (spendgate gateway check --accept)", name)
		}
		readOnly = known.ReadOnly
	}
	if u.Tools[name] != nil || g.File.Default == "pass" || g.File.Default == "read_only" && readOnly {
		return nil
	}
	return fmt.Errorf("the tool %s is not mapped, and the gateway's default for such tools is %s", name, g.File.Default)
}

// ServeStdio serves one agent over a pair of streams until the input or the context ends. name is the upstream; empty
// where the file has only one. Mapped calls in flight are finished.
func (g *Gateway) ServeStdio(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	if name == "" && !g.File.Several() {
		name = g.File.order[0]
	}
	u := g.File.Upstreams[name]
	if u == nil {
		return fmt.Errorf("--upstream must name one of the file's upstreams: %s", strings.Join(g.File.order, ", "))
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
	ends(func() { _ = agent.Wait() }, ctx.Done())
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
	if !ends(g.calls.Wait, time.After(stopTimeout)) {
		return errors.New("calls in flight did not end; what became of them is in doubt")
	}
	return nil
}

// ends reports whether what wait waits for ends before over.
func ends[T any](wait func(), over <-chan T) bool {
	ended := make(chan struct{})
	go func() { wait(); close(ended) }()
	select {
	case <-ended:
		return true
	case <-over:
		return false
	}
}

// Reload reads the agents' tokens again.
func (g *Gateway) Reload() {
	if g.tokens != nil && g.tokens.folder != "" {
		g.tokens.reload()
	}
}

// metrics count what the gateway did. Labels have only the servers and tools that the file
// names, and the states, so the file bounds the number of series.
type metrics struct {
	calls       *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	ends        *prometheus.CounterVec
	inFlight    prometheus.Gauge
	sessions    prometheus.Gauge
	unrecorded  prometheus.Counter
	tokenFaults prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	with := metric.Of(registerer, "gateway")
	return &metrics{
		calls: with.Counters("calls_total",
			"Calls of mapped tools by what they ended with: state, and in a shadow the state that enforcement would have given.",
			"upstream", "tool", "state", "shadow"),
		seconds: with.Histograms("call_duration_seconds", "From a mapped tool's call to its result, what it waits for people included.",
			[]float64{.01, .03, .1, .3, 1, 3, 10, 30, 100, 600}, "upstream", "tool"),
		ends: with.Counters("upstream_failures_total",
			"Times that an upstream could not be reached or ended while agents were connected.", "upstream"),
		inFlight:   with.Gauge("calls_in_flight", "Mapped calls without a result yet."),
		sessions:   with.Gauge("sessions", "Agents that are connected."),
		unrecorded: with.Counter("report_failures_total", "Times that the service did not record what became of a check."),
		tokenFaults: with.Gauge("token_faults",
			"Files of agents' tokens at fault, whose agents have no access. 1 if the folder cannot be read."),
	}
}

// ended counts a mapped call.
func (m *metrics) ended(upstream, tool string, r end, took time.Duration) {
	m.calls.WithLabelValues(upstream, tool, r.state, r.shadow).Inc()
	m.seconds.WithLabelValues(upstream, tool).Observe(took.Seconds())
}
