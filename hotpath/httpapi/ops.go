package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"golang.org/x/sync/singleflight"

	"spendgate/hotpath/wire"
)

// Readiness is the content of /readyz (S27, G1).
type Readiness struct {
	Ready        bool
	Mode         string // the kind of node: "fleet", "embedded single node"
	Durability   string // the durability in force, in words
	TimeZones    string // the release of the node's time zones; empty of a process that has none
	Dependencies []Dependency
}

// Dependency is one thing that the service cannot do without.
type Dependency struct {
	Name   string
	OK     bool
	Detail string // the reason or other information; without secrets
}

// OpsOptions configure an Ops. Gatherer and Ready are required.
type OpsOptions struct {
	Gatherer prometheus.Gatherer
	// Ready asks the dependencies. It is given readyTimeout.
	Ready  func(context.Context) Readiness
	Pprof  bool // serve /debug/pprof
	Logger *slog.Logger
}

// readyTimeout bounds one answer of /readyz; probes commonly wait that long.
const readyTimeout = 2 * time.Second

const (
	// opsBody is the largest body that is read; only pprof takes any.
	opsBody = 1 << 10
	// opsConnections are many for Prometheus, probes and balancers.
	opsConnections = 64
	// opsWriteTimeout is long for a profile over a slow line.
	opsWriteTimeout = time.Minute
)

// Ops is the listener for operations, apart from the API: /metrics, /livez,
// /readyz, /debug/pprof. It authenticates nobody and must not face the world.
type Ops struct {
	ready    func(context.Context) Readiness
	metrics  fasthttp.RequestHandler
	profiles fasthttp.RequestHandler // nil unless /debug/pprof is served
	log      *slog.Logger
	server   *fasthttp.Server
	open     openConns
	looks    singleflight.Group // for balancers
	draining atomic.Bool
}

// NewOps makes an Ops; Serve starts it.
func NewOps(o OpsOptions) *Ops {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ops := &Ops{
		ready: o.Ready,
		metrics: fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
			ErrorLog:      opsLog{o.Logger},
			ErrorHandling: promhttp.ContinueOnError,
		})),
		log: o.Logger,
	}
	if o.Pprof {
		ops.profiles = newProfiles()
	}
	ops.open.most = opsConnections
	ops.server = &fasthttp.Server{
		Name:                  "spendgate",
		Handler:               ops.handle,
		MaxRequestBodySize:    opsBody,
		Concurrency:           opsConnections + 2*refusedConnections, // never reached: openConns bounds them
		ReadTimeout:           defaultReadTimeout,
		WriteTimeout:          opsWriteTimeout, // which begins when an answer is made: a profile takes as long as was asked
		IdleTimeout:           defaultIdleTimeout,
		CloseOnShutdown:       true,
		SecureErrorLogMessage: true,
		Logger:                serverLog{o.Logger},
	}
	return ops
}

// Serve answers until Shutdown. It returns nil after Shutdown.
func (o *Ops) Serve(l net.Listener) error {
	served := listener{l, &o.open, o.server, o.log}
	defer func() { _ = served.Close() }()
	if err := o.server.Serve(served); err != nil && !o.draining.Load() {
		return fmt.Errorf("cannot serve operations: %w", err)
	}
	return nil
}

// Drain makes /readyz fail from now on (G11).
func (o *Ops) Drain() { o.draining.Store(true) }

// Shutdown finishes the responses in progress and closes.
func (o *Ops) Shutdown(ctx context.Context) error {
	o.Drain()
	o.open.closed.Store(true)
	o.open.hurry()
	if err := o.server.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("cannot finish the requests for operations: %w", err)
	}
	return nil
}

func (o *Ops) handle(ctx *fasthttp.RequestCtx) {
	defer func() {
		if value := recover(); value != nil {
			o.log.Error("operations request failed", "error", &panicError{value, debug.Stack()})
			ctx.Error("unexpected error", fasthttp.StatusInternalServerError)
		}
	}()
	heardFrom(ctx)
	if o.open.crowded() {
		ctx.SetConnectionClose() // connections are not kept
	}
	if onExcess(ctx) {
		ctx.Error("too many connections", fasthttp.StatusServiceUnavailable)
		return
	}
	if !ctx.IsGet() && !ctx.IsHead() && !o.isProfile(ctx) {
		ctx.Error("only GET", fasthttp.StatusMethodNotAllowed)
		return
	}
	switch path := string(ctx.Path()); {
	case path == "/metrics":
		o.metrics(ctx)
	case path == "/livez":
		ctx.SetBodyString("ok\n")
	case path == "/readyz":
		o.answerReady(ctx)
	case o.isProfile(ctx):
		o.profiles(ctx)
	default:
		ctx.Error("not found", fasthttp.StatusNotFound)
	}
}

func (o *Ops) isProfile(ctx *fasthttp.RequestCtx) bool {
	return o.profiles != nil && strings.HasPrefix(string(ctx.Path())+"/", profilesPath)
}

const profilesPath = "/debug/pprof/"

// newProfiles serves the pages that net/http/pprof serves on the default mux. The handler of fasthttp
// has no index.
func newProfiles() fasthttp.RequestHandler {
	mux := http.NewServeMux()
	mux.HandleFunc(profilesPath, pprof.Index)
	mux.HandleFunc(profilesPath+"cmdline", pprof.Cmdline)
	mux.HandleFunc(profilesPath+"profile", pprof.Profile)
	mux.HandleFunc(profilesPath+"symbol", pprof.Symbol)
	mux.HandleFunc(profilesPath+"trace", pprof.Trace)
	return fasthttpadaptor.NewFastHTTPHandler(mux)
}

// balancerTimeout bounds the answer to a balancer, which takes a node that does not
// answer for one that hangs.
const balancerTimeout = 400 * time.Millisecond

// answerReady answers /readyz. With ?unready=404 that is the status of a node that is not
// ready: some balancers then let it finish its requests (HAProxy's disable-on-404).
func (o *Ops) answerReady(ctx *fasthttp.RequestCtx) {
	var r Readiness
	unready := fasthttp.StatusServiceUnavailable
	if string(ctx.QueryArgs().Peek("unready")) == "404" {
		r, unready = o.readyWithin(balancerTimeout), fasthttp.StatusNotFound
	} else {
		r = o.look()
	}
	draining := o.draining.Load()
	if !r.Ready || draining {
		ctx.SetStatusCode(unready)
	}
	ctx.SetContentTypeBytes(typeJSON)
	ctx.SetBody(appendReadiness(nil, r, draining))
}

func (o *Ops) look() Readiness {
	bounded, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	return o.ready(bounded)
}

// readyWithin looks, or joins a look under way, and waits no longer than d: not to know is
// not to be ready. The look goes on, since metrics and log have its findings, too.
func (o *Ops) readyWithin(d time.Duration) Readiness {
	look := o.looks.DoChan("", func() (r any, err error) {
		defer func() {
			if value := recover(); value != nil {
				r, err = Readiness{}, &panicError{value, debug.Stack()}
				o.log.Error("operations request failed", "error", err)
			}
		}()
		return o.look(), nil
	})
	select {
	case found := <-look:
		return found.Val.(Readiness)
	case <-time.After(d):
		return Readiness{}
	}
}

func appendReadiness(dst []byte, r Readiness, draining bool) []byte {
	shown := wire.Readiness{Status: "ready", Mode: r.Mode, Durability: r.Durability, TimeZones: r.TimeZones}
	switch {
	case draining:
		shown.Status = "draining"
	case !r.Ready:
		shown.Status = "failing"
	}
	for _, d := range r.Dependencies {
		status := "failing"
		if d.OK {
			status = "ok"
		}
		shown.Dependencies = append(shown.Dependencies, wire.Dependency{Name: d.Name, Status: status, Detail: d.Detail})
	}
	return append(wire.Append(dst, &shown, false), '\n')
}

// opsLog receives the errors of promhttp.
type opsLog struct{ log *slog.Logger }

func (l opsLog) Println(v ...any) {
	l.log.Error("cannot gather metrics", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}
