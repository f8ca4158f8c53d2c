package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/hotpath/httpapi"
	"spendgate/hotpath/policy"
)

const (
	// maxSkew is how far the clocks of node, Redis and store may lie apart
	// before the node is not ready.
	maxSkew = time.Second
	// probeEvery is how often a node asks its dependencies for its metrics and
	// its log, besides whenever /readyz is asked.
	probeEvery = 10 * time.Second
)

// finding is the result of checking one dependency.
type finding struct {
	name  string
	err   error // nil when it can be used
	skew  time.Duration
	timed bool // whether its clock was read; then skew is its difference
}

// findings are the results of checking all dependencies.
type findings struct {
	dependencies []finding
	status       *audit.Status // nil unless the store returned it
}

func (f *findings) add(name string, err error, clock time.Time) {
	d := finding{name: name, err: err}
	if err == nil {
		d.skew, d.timed = time.Since(clock).Abs(), true
		if d.skew > maxSkew {
			d.err = fmt.Errorf("its clock is %s off this node's", d.skew.Round(time.Millisecond))
		}
	}
	f.dependencies = append(f.dependencies, d)
}

// with returns the findings with the error of a dependency that could be asked and cannot be used.
func (f *findings) with(name string, err error) *findings {
	changed := &findings{dependencies: slices.Clone(f.dependencies), status: f.status}
	for i := range changed.dependencies {
		if changed.dependencies[i].name == name {
			changed.dependencies[i].err = err
		}
	}
	return changed
}

func (f *findings) ready() bool {
	for _, d := range f.dependencies {
		if d.err != nil {
			return false
		}
	}
	return true
}

// health is what the process knows about its dependencies, for /readyz, metrics and log.
type health struct {
	mode string
	log  *slog.Logger
	// look checks all dependencies. It is nil while the process starts; then last has the findings
	// of the start.
	look atomic.Pointer[func(context.Context) *findings]
	last atomic.Pointer[findings] // nil at first

	mu      sync.Mutex // for one note at a time
	unready bool       // as last noted, like the fields below
	unsafe  bool
	missing int // the number of synchronous standbys that are missing

	descs healthDescs
}

type healthDescs struct{ ready, up, skew, safe, missing *prometheus.Desc }

func newHealth(mode string, log *slog.Logger) *health {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("spendgate_"+name, help, labels, nil)
	}
	h := &health{mode: mode, log: log, descs: healthDescs{
		ready:   desc("ready", "1 when every dependency could be used at the last look, at most 10 s ago."),
		up:      desc("dependency_up", "1 when the dependency could be used at the last look.", "dependency"),
		skew:    desc("clock_skew_seconds", "How far the dependency's clock was off this node's at the last look.", "dependency"),
		safe:    desc("durability_safe", "0 when a setting of the store lets a crash lose answered checks."),
		missing: desc("synchronous_standbys_missing", "Synchronous standbys that commits wait for and that are not connected."),
	}}
	h.last.Store(new(findings))
	return h
}

// ready answers /readyz (S27), and logs changes.
func (h *health) ready(ctx context.Context) httpapi.Readiness {
	look := h.look.Load()
	if look == nil {
		r := h.last.Load().readiness(h.mode)
		r.Ready = false
		return r
	}
	f := (*look)(ctx)
	h.note(f)
	return f.readiness(h.mode)
}

// readiness returns the content of /readyz for the findings.
func (f *findings) readiness(mode string) httpapi.Readiness {
	r := httpapi.Readiness{Ready: f.ready(), Mode: mode, TimeZones: policy.Zones().Release}
	for _, d := range f.dependencies {
		told := httpapi.Dependency{Name: d.name, OK: d.err == nil}
		if d.err != nil {
			told.Detail = publicDetail(d.err)
		}
		r.Dependencies = append(r.Dependencies, told)
	}
	if f.status != nil {
		r.Durability = f.status.Durability
		if !f.status.Safe {
			r.Durability += " (UNSAFE: a crash can lose answered checks)"
		}
	}
	return r
}

// publicDetail returns the part of an error that anybody who reaches /readyz may see: no address, user
// or database. The log has the whole error.
func publicDetail(err error) string {
	if refused, ok := errors.AsType[*recordingError](err); ok {
		return "this node cannot record checks, and other nodes do: " + publicDetail(refused.cause)
	}
	if errors.As(err, new(*otherRedisError)) {
		return "other nodes are at work, and they use another redis"
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return "PostgreSQL refuses: SQLSTATE " + refused.Code
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return "no answer in time"
	}
	if cause, ok := errors.AsType[syscall.Errno](err); ok {
		return cause.Error()
	}
	var name *net.DNSError
	var operation *net.OpError
	switch {
	case errors.As(err, &name):
		return "its name cannot be resolved"
	case errors.As(err, &operation), errors.As(err, new(*pgconn.ConnectError)):
		return "cannot connect"
	}
	return err.Error()
}

// note keeps the findings for the metrics and logs changes.
func (h *health) note(f *findings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last.Store(f)
	switch ready := f.ready(); {
	case ready && h.unready:
		h.log.Info("ready again")
	case !ready && !h.unready:
		for _, d := range f.dependencies {
			if d.err != nil {
				h.log.Warn("not ready", "dependency", d.name, "error", d.err)
			}
		}
	}
	h.unready = !f.ready()
	if f.status == nil {
		return
	}
	durability := slog.String("durability", f.status.Durability)
	switch {
	case !f.status.Safe && !h.unsafe:
		h.log.Warn("a crash can lose answered checks: the store's settings are unsafe", durability)
	case f.status.Safe && h.unsafe:
		h.log.Info("the store's settings are safe again", durability)
	}
	h.unsafe = !f.status.Safe
	switch missing := f.status.StandbysMissing; {
	case missing > 0 && h.missing == 0:
		h.log.Warn("a synchronous standby is not connected: commits wait for it", "missing", missing, durability)
	case missing == 0 && h.missing > 0:
		h.log.Info("all synchronous standbys are connected", durability)
	}
	h.missing = f.status.StandbysMissing
}

// Describe implements prometheus.Collector.
func (h *health) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{h.descs.ready, h.descs.up, h.descs.skew, h.descs.safe, h.descs.missing} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Unknown values have no sample.
func (h *health) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	f := h.last.Load()
	gauge(h.descs.ready, indicator(f.ready() && h.look.Load() != nil))
	for _, d := range f.dependencies {
		gauge(h.descs.up, indicator(d.err == nil), d.name)
		if d.timed {
			gauge(h.descs.skew, d.skew.Seconds(), d.name)
		}
	}
	if f.status != nil {
		gauge(h.descs.safe, indicator(f.status.Safe))
		gauge(h.descs.missing, float64(f.status.StandbysMissing))
	}
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// redisOfOthers fails if the other nodes use another Redis, and checks should be sent to them.
func (n *node) redisOfOthers() error {
	if n.peers == nil {
		return nil
	}
	if other := n.peers.other.Load(); other != nil {
		return other
	}
	return nil
}

// look checks every dependency of the node and reads their clocks.
func (n *node) look(ctx context.Context) *findings {
	f := new(findings)
	var clock time.Time
	err := n.redisOfOthers()
	if err == nil { // else Ping would take the epoch from the other nodes
		err = n.guard.Ping(ctx)
	}
	if err == nil {
		clock, err = n.guard.Clock(ctx)
	}
	f.add("redis", err, clock)
	err = n.store.Ping(ctx)
	var status audit.Status
	if err == nil {
		if status, err = n.store.Status(ctx); err == nil {
			f.status = &status
			if n.recording != nil {
				err = n.recording.look(ctx)
			}
		}
	}
	f.add("store", err, status.Clock)
	if err == nil {
		if err = n.zones.look(ctx); err != nil {
			f.dependencies = append(f.dependencies, finding{name: "time_zones", err: err})
		}
	}
	return f
}
