package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/checkpoint"
	"spendgate/audit/commit"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
	"spendgate/hotpath"
	"spendgate/hotpath/backtest/job"
	"spendgate/hotpath/console"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/httpapi"
	"spendgate/hotpath/trace"
	"spendgate/hotpath/trace/otlp"
	"spendgate/hotpath/webhook"
)

const (
	// capacity is the maximum number of checks in flight; further checks are refused at once (G9). At
	// 20,000 checks a second it is 0.2 s of work.
	capacity = 4096
	// drainDelay is how long a stopping node still takes requests, so that the balancer sees /readyz
	// fail first (G11).
	drainDelay = 3 * time.Second
	// finishIn bounds the rest of the stop; the whole stop takes less than 10 s, even on a
	// busy machine.
	finishIn = 5 * time.Second
	// flushIn bounds how long the stop waits for a collector of traces, and for
	// the last checkpoint.
	flushIn   = time.Second
	tidyEvery = 10 * time.Minute
	// countEvery bounds how many violations a listing counts one by one: those of that time, some
	// thousands for the largest fleets.
	countEvery = 2 * time.Second
	// expireEvery is short enough to record expiries within 5 s (S48).
	expireEvery = 2 * time.Second
	// complainEvery is the shortest time between two log lines about a task that fails.
	complainEvery = time.Minute
)

// backends are the parts that differ between a node of a fleet and a single node.
type backends struct {
	ops         *operations
	store       audit.Store
	redis       redis.UniversalOptions
	embedded    bool
	drainDelay  time.Duration
	checkpoints *checkpoint.Writer // nil if the settings ask for none
	// rehearse fails if a commit would fail, and records nothing; nil if there are no other nodes.
	rehearse func(context.Context) error
	fleet    *postgres.Store // has the other nodes; nil if there are none
	links    *console.Links  // nil when nobody signs in to the console by a link
}

// node is a wired process. Its parts are closed in the reverse order of their creation, so that
// no work is accepted that could not be finished.
type node struct {
	backends
	log        *slog.Logger
	guard      *guard.Guard
	writer     *commit.Writer
	recording  *recording // nil if there are no other nodes
	peers      *peers     // nil if there are no other nodes
	zones      *zones
	authorizer *hotpath.Authorizer
	api        *httpapi.API
	tracer     *otlp.Tracer // nil if the settings ask for no traces
	listener   net.Listener // of the API
	reload     func()       // reads the settings again, on SIGHUP
	stopTasks  context.CancelFunc
	tasks      sync.WaitGroup
}

// newNode wires a node and opens the API's port. The store is closed with the node, or if newNode
// fails.
func newNode(c config.Config, b backends, log *slog.Logger) (*node, error) {
	for _, notice := range c.Notices {
		log.Warn(notice)
	}
	people, err := newSignIn(c.OIDC, log)
	if err != nil {
		b.store.Close()
		return nil, err
	}
	n := &node{backends: b, log: log, zones: newZones(b.store, b.embedded, log)}
	var record func(*trace.Record) trace.ID
	if c.Traces.URL != "" {
		if n.tracer, err = otlp.New(context.Background(), collector(c.Traces), version, log); err != nil {
			b.store.Close()
			return nil, err
		}
		record = n.tracer.Record
	}
	n.guard = guard.New(guard.Options{
		Redis: b.redis, KeyPrefix: c.RedisKeyPrefix, Embedded: b.embedded, Store: b.store, Logger: log, Registerer: b.ops.registry,
	})
	if b.fleet != nil {
		if n.peers, err = newPeers(b.fleet, n.guard, b.ops); err != nil {
			b.store.Close()
			return nil, errors.Join(err, n.guard.Close())
		}
	}
	n.writer = commit.NewWriter(commit.Options{
		Trail: b.store, Capacity: capacity, Fence: n.guard.Fence, Retire: n.guard.Retire,
		Logger: log, Registerer: b.ops.registry,
	})
	if b.rehearse != nil {
		n.recording = &recording{
			failures: n.writer.Failures, forget: n.writer.ForgetFailures, stuck: n.writer.Stuck, recorded: n.recordedSince, rehearse: b.rehearse,
		}
	}
	n.authorizer = hotpath.New(hotpath.Components{
		Guard: n.guard, Writer: n.writer, Store: b.store, Logger: log, Registerer: b.ops.registry, Now: time.Now,
		PrivateWebhooks: c.PrivateWebhooks, ReleasesRequired: c.ReleasesRequired,
	})
	n.api = httpapi.New(httpapi.Options{
		Authorizer: n.authorizer, Full: n.writer.Full, Store: b.store, AdminKeys: adminKeys(c), TrustedProxies: c.TrustedProxies,
		NoDemo: !c.Demo, MaxRateLimit: c.MaxRateLimit,
		Version: version, Console: newConsole(c, b.links), ConsoleURL: c.ConsoleURL, SignIn: people,
		Logger: log, Registerer: b.ops.registry, Trace: record,
	})
	b.ops.registry.MustRegister(nodeInfo(n.guard.Node))
	n.startTasks(c)
	if err := n.listen(c); err != nil {
		n.close(context.Background())
		return nil, err
	}
	return n, nil
}

// recordedSince reports whether any node has recorded a check that was made since. Checks that a clock
// far ahead made do not count: they would for as long as it was ahead.
func (n *node) recordedSince(ctx context.Context, since time.Time) (bool, error) {
	const clocks = time.Minute
	page, err := n.store.ListChecks(ctx, audit.CheckQuery{From: since, Until: time.Now().Add(clocks), Limit: 1, Examine: 2})
	return len(page.Checks) > 0, err
}

// newRegistry returns the node's registry of metrics, with the metrics of the process. All have the
// label deployment if that has a name.
func newRegistry(deployment string) (prometheus.Gatherer, prometheus.Registerer) {
	gatherer := prometheus.NewRegistry()
	registry := cli.WithDeployment(gatherer, deployment)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	return gatherer, registry
}

func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "spendgate", Name: "build_info", Help: "Always 1; version is the build's.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
}

// nodeInfo is a metric with the node's present identifier.
type nodeInfo func() spend.ID

// Describe implements prometheus.Collector.
func (f nodeInfo) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(f, ch) }

// Collect implements prometheus.Collector.
func (f nodeInfo) Collect(ch chan<- prometheus.Metric) {
	desc := prometheus.NewDesc("spendgate_node_info",
		"Always 1; node is the identifier of this process, which others name when they fence it.", []string{"node"}, nil)
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, f().Text(""))
}

func adminKeys(c config.Config) []string {
	keys := make([]string, len(c.AdminKeys))
	for i, key := range c.AdminKeys {
		keys[i] = string(key)
	}
	return keys
}

// readAgain applies the settings that may change while the node runs: the level of the log and the
// admin keys.
func (n *node) readAgain(load func() (config.Config, error), level *slog.LevelVar) {
	c, err := load()
	if err != nil {
		n.log.Error("cannot read the settings again; nothing changed", "error", err)
		return
	}
	level.Set(c.LogLevel)
	n.api.SetAdminKeys(adminKeys(c))
	n.log.Info("the settings were read again; of them LOG_LEVEL and ADMIN_KEY count at once")
}

func (n *node) listen(c config.Config) (err error) {
	if n.listener, err = net.Listen("tcp", c.ListenAddr); err != nil {
		return fmt.Errorf("SPENDGATE_LISTEN_ADDR: %w", err)
	}
	look := n.look
	n.ops.health.look.Store(&look)
	n.log.Info("listening", "mode", n.ops.health.mode, "version", version, "node", n.guard.Node().Text(""),
		"api", n.listener.Addr().String(), "ops", n.ops.listener.Addr().String())
	return nil
}

// run serves until the context ends, and then stops cleanly (G11): the node is not ready but
// still serves for a while, finishes and records the requests in flight, and closes its parts.
// started is called once requests are answered.
func (n *node) run(ctx context.Context, started func(context.Context) error) error {
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := n.api.Serve(n.listener); err != nil {
			failed <- err
		}
	})
	// A start that a stop interrupted has not failed.
	if err := started(ctx); err != nil && ctx.Err() == nil {
		failed <- err
	}
	err := n.awaitEnd(ctx, failed)
	if err == nil {
		n.log.Info("stopping")
		n.ops.Drain()
		n.api.Drain()
		time.Sleep(n.drainDelay)
	}
	bounded, cancel := context.WithTimeout(context.Background(), finishIn)
	defer cancel()
	err = errors.Join(err, n.api.Shutdown(bounded))
	n.close(bounded)
	n.flushTraces(bounded)
	if err := n.ops.stop(bounded); err != nil { // requests for metrics need not be finished
		n.log.Warn("cannot finish what was asked of the operations listener", "error", err)
	}
	serving.Wait()
	n.log.Info("stopped")
	return err
}

// awaitEnd returns nil when the context ends and an error when a listener fails.
func (n *node) awaitEnd(ctx context.Context, failed <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case err := <-n.ops.failed:
			return err
		case <-n.ops.hangups:
			n.reload()
		}
	}
}

// close ends what newNode began, except the listeners. A store that does not answer must not delay the
// end of the process: claims of commits in doubt stay, and other nodes resolve them.
func (n *node) close(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.stopTasks()
		n.tasks.Wait()
		n.writer.Close()
		n.lastCheckpoint(ctx)
		n.authorizer.Close()
		if err := n.guard.Close(); err != nil {
			n.log.Warn("cannot disconnect from redis", "error", err)
		}
		if n.peers != nil {
			if err := n.fleet.RemoveNode(ctx, n.peers.process); err != nil {
				n.log.Warn("other nodes take this one for running for a while", "error", err)
			}
		}
		n.store.Close()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		n.log.Warn("the store does not answer; stopping without it")
	}
}

func collector(t config.Traces) otlp.Collector {
	headers := make(map[string]string, len(t.Headers))
	for name, value := range t.Headers {
		headers[name] = string(value)
	}
	return otlp.Collector{URL: string(t.URL), Headers: headers, Timeout: t.Timeout, Gzip: t.Gzip}
}

// flushTraces sends the last traces. A collector that does not answer must neither delay the stop
// nor make it fail.
func (n *node) flushTraces(ctx context.Context) {
	if n.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushIn)
	defer cancel()
	if err := n.tracer.Close(ctx); err != nil {
		n.log.Warn("cannot send traces", "error", err)
	}
}

// startTasks starts the node's background tasks. A task that fails is tried again when it is due
// again.
func (n *node) startTasks(c config.Config) {
	ctx, stop := context.WithCancel(context.Background())
	n.stopTasks = stop
	n.deliver(ctx, c)
	backtests := job.New(job.Options{
		Store: n.store, Archives: c.ArchiveDir, Busy: func() bool { return n.writer.InFlight() > 0 }, Logger: n.log,
	})
	n.tasks.Go(func() { backtests.Run(ctx) })
	if n.checkpoints != nil {
		n.tasks.Go(func() { n.checkpoints.Run(ctx, c.Checkpoints.Interval) })
	}
	every := func(period time.Duration, failed string, do func(context.Context) error) {
		n.tasks.Go(func() {
			ticker := time.NewTicker(period)
			defer ticker.Stop()
			var complained time.Time
			for {
				if err := do(ctx); err != nil && ctx.Err() == nil && time.Since(complained) >= complainEvery {
					n.log.Warn(failed, "error", err)
					complained = time.Now()
				}
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
			}
		})
	}
	every(tidyEvery, "cannot tidy the store", func(ctx context.Context) error { return n.store.Tidy(ctx, time.Now()) })
	every(tidyEvery, "cannot remove old events", n.keepEvents(c.EventsRetention))
	every(tidyEvery, "cannot count payments", n.countPayments())
	every(removeEvery, "cannot remove payments that ended long ago", n.removePayments(c.PaymentsKeep))
	every(countEvery, "cannot count violations", n.store.CountViolations)
	every(countEvery, "cannot count checks", n.store.CountChecks)
	every(expireEvery, "cannot record which approvals have expired", n.expireApprovals())
	every(expireEvery, "cannot record which redeemed checks are in doubt", n.doubts())
	every(expireEvery, "cannot give back the checks that nobody redeemed in time", n.authorizer.Lapses)
	if n.peers != nil {
		every(noteEvery, "cannot compare which redis the nodes use", n.peers.look)
	}
	every(readEvery, "cannot record which keys expire soon", n.keyExpiries())
	every(expireEvery, "cannot record which freezes are over", n.authorizer.EndFreezes)
	every(readEvery, "cannot read how full budgets are", n.budgetFills())
	every(probeEvery, "", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lookWithin)
		defer cancel()
		n.ops.health.note(n.look(ctx)) // logs the findings
		return nil
	})
}

// deliver starts the delivery of events to webhooks.
func (n *node) deliver(ctx context.Context, c config.Config) {
	everything := hotpath.AccessOf(&audit.Key{})
	worker := webhook.New(webhook.Options{
		Store: n.store, Encode: httpapi.EventEncoder(c.ConsoleURL), PrivateAddresses: c.PrivateWebhooks, InFlight: c.WebhooksInFlight,
		Logger: n.log, Registerer: n.ops.registry,
		Events: func(ctx context.Context, q audit.EventQuery) (audit.EventPage, error) {
			return n.authorizer.Events(ctx, everything, q)
		},
	})
	n.tasks.Go(func() { worker.Run(ctx) })
}

// lastCheckpoint signs what was recorded since the last checkpoint.
func (n *node) lastCheckpoint(ctx context.Context) {
	if n.checkpoints == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushIn)
	defer cancel()
	if err := n.checkpoints.Write(ctx); err != nil {
		n.log.Warn("cannot write the last checkpoint", "error", err)
	}
}
