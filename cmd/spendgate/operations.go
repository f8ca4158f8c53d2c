package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/config"
	"spendgate/hotpath/httpapi"
	"spendgate/hotpath/policy"
)

// operations are the endpoints for operators. They start before the node, so that health probes get
// an answer while it starts.
type operations struct {
	*httpapi.Ops
	registry prometheus.Registerer
	health   *health
	listener net.Listener
	failed   chan error // the error with which serving ended
	hangups  chan os.Signal
}

// startOperations opens the port of operations and answers there. From then on SIGHUP does not
// end the process.
func startOperations(c config.Config, mode string, lines *logLines, log *slog.Logger) (*operations, error) {
	listener, err := net.Listen("tcp", c.OpsAddr)
	if err != nil {
		return nil, fmt.Errorf("SPENDGATE_OPS_ADDR: %w", err)
	}
	gatherer, registry := newRegistry(c.Deployment)
	o := &operations{
		registry: registry, health: newHealth(mode, log), listener: listener,
		failed: make(chan error, 1), hangups: make(chan os.Signal, 1),
	}
	o.registry.MustRegister(o.health, zonesInfo())
	lines.observe(o.registry, c.Deployment)
	o.Ops = httpapi.NewOps(httpapi.OpsOptions{Gatherer: gatherer, Ready: o.health.ready, Pprof: c.PProf, Logger: log})
	go func() { o.failed <- o.Serve(listener) }()
	signal.Notify(o.hangups, syscall.SIGHUP)
	return o, nil
}

// stop ends what startOperations began.
func (o *operations) stop(ctx context.Context) error {
	signal.Stop(o.hangups)
	return o.Shutdown(ctx)
}

func zonesInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "spendgate", Name: "time_zones_info", Help: "Always 1; release is that of the build's time zones.",
		ConstLabels: prometheus.Labels{"release": policy.Zones().Release},
	}, func() float64 { return 1 })
}
