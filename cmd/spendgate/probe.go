package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spendgate/audit/metric"
	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
	"spendgate/hotpath/client"
	"spendgate/hotpath/wire"
)

const (
	// A check of a probe is answered within 2 s (G7). Only a check behind the claim of a dead
	// node may take longer, which never happens to a new action.
	probeTimeout = 5 * time.Second
	// leastProbeEvery keeps a typing error from loading the service.
	leastProbeEvery = time.Second
)

func probeCommand() cli.Command {
	return cli.Command{
		Name: "probe", Summary: "send a real check that moves no money, once or again and again, with metrics",
		Details: `Sends a check of 0.01 XTS by a policy of its own (deploy/examples/probe/probe.yaml) to SPENDGATE_API_URL
(http://127.0.0.1:8080) with SPENDGATE_API_KEY, a key with checks:write that is bound to that policy. Each check has an
idempotency key and a counterparty of its own, so none is a duplicate, and is recorded like any other. Nothing is repeated.

With --once the exit code is 0 when the check was allowed, 1 when there was no decision, 3 when the service
refused the probe or decided otherwise: its policy or its key is not as it should be.`,
		Setup: probeSetup,
	}
}

func probeSetup(flags *flag.FlagSet) cli.Action {
	once := flags.Bool("once", false, "probe once, and say by the exit code how it went")
	every := flags.Duration("every", 15*time.Second, "probe again after each `DURATION`")
	listen := flags.String("listen", "127.0.0.1:9092", "serve /metrics at `ADDR`, unless --once")
	policyID := flags.String("policy-id", "probe", "the policy `ID`")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if *every < leastProbeEvery {
			return cli.UsageError{Text: fmt.Sprintf("--every must be at least %s", leastProbeEvery)}
		}
		c, err := config.LoadClient(p.Environ)
		if err != nil {
			return err
		}
		if c.APIKey == "" {
			return errors.New("SPENDGATE_API_KEY is not set, nor is SPENDGATE_API_KEY_FILE")
		}
		api, err := client.New(client.Options{
			BaseURL: c.APIURL, APIKey: string(c.APIKey), Attempts: 1, AttemptTimeout: probeTimeout, UserAgent: wire.Probe + "/" + version,
		})
		if err != nil {
			return err
		}
		probe := prober{api: api, policyID: *policyID}
		if *once {
			found := probe.once(ctx)
			if found.err != nil {
				return found.failure()
			}
			_, err := fmt.Fprintf(p.Stdout, "allow, %s, in %d ms\n", spend.Printable(found.checkID), found.took.Milliseconds())
			return err
		}
		return probe.serve(ctx, *every, *listen, c.Deployment, slog.New(slog.NewTextHandler(p.Stderr, nil)))
	}
}

// The results of a probe, which are the values of the label result.
const (
	probeAllowed    = "allowed"
	probeUnanswered = "unanswered" // no decision: the fault is the service's or the network's
	probeRefused    = "refused"    // the service refused the request because of the key, the policy or a rate limit
	probeUnexpected = "unexpected" // the service decided otherwise, or repeated an earlier answer
)

// probed is the end of a probe. err is nil only for probeAllowed.
type probed struct {
	result  string
	checkID string
	took    time.Duration
	err     error
}

// failure is the error of a failed probe. The exit code distinguishes a fault of the service from a fault
// in the setup of the probe.
func (p probed) failure() error {
	code := 3
	if p.result == probeUnanswered {
		code = 1
	}
	return cli.ExitError{Err: fmt.Errorf("probe %s: %w", p.result, p.err), Code: code}
}

// prober sends checks of one policy.
type prober struct {
	api      *client.Client
	policyID string
}

// once sends a check that differs from every other one.
func (p prober) once(ctx context.Context) probed {
	amount, err := client.ParseAmount("0.01")
	if err != nil {
		return probed{result: probeUnexpected, err: err}
	}
	began := time.Now()
	r, err := p.api.Check(ctx, client.Action{
		AgentID: wire.Probe, PolicyID: p.policyID, ActionType: client.Spend, Amount: amount, Currency: "XTS",
		Counterparty: "probe-" + rand.Text(), IdempotencyKey: client.NewIdempotencyKey(),
	})
	found := probed{took: time.Since(began), err: err}
	switch {
	case err != nil && errors.As(err, new(*client.UndecidedError)):
		found.result = probeUnanswered
	case err != nil:
		found.result = probeRefused
	case !r.Allowed() || r.Replayed:
		found.result, found.err = probeUnexpected, fmt.Errorf("the answer is %s (%s), replayed: %v, and should be a first allow", r.Decision,
			spend.Printable(r.Message), r.Replayed)
	default:
		found.result, found.checkID = probeAllowed, r.CheckID
	}
	return found
}

// probeMetrics are the metrics of a prober.
type probeMetrics struct {
	success  prometheus.Gauge
	last     prometheus.Gauge
	duration prometheus.Histogram
	results  *prometheus.CounterVec
}

func newProbeMetrics(registry prometheus.Registerer) *probeMetrics {
	with := metric.Of(registry, "")
	m := &probeMetrics{
		success: with.Gauge("probe_success", "1 when the last probe was allowed, else 0."),
		last: with.Gauge("probe_last_success_timestamp_seconds",
			"When the last probe that was allowed ended; 0 before the first."),
		duration: with.Histogram("probe_duration_seconds", "From sending a probe to its end, however it ended.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5}),
		results: with.Counters("probes_total", "Probes, by how they ended.", "result"),
	}
	for _, result := range []string{probeAllowed, probeUnanswered, probeRefused, probeUnexpected} {
		m.results.WithLabelValues(result)
	}
	return m
}

func (m *probeMetrics) observe(found probed) {
	m.results.WithLabelValues(found.result).Inc()
	m.duration.Observe(found.took.Seconds())
	if found.err != nil {
		m.success.Set(0)
		return
	}
	m.success.Set(1)
	m.last.SetToCurrentTime()
}

// serve probes until the context ends, and serves metrics.
func (p prober) serve(ctx context.Context, every time.Duration, addr, deployment string, log *slog.Logger) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	gatherer, registry := newRegistry(deployment)
	metrics := newProbeMetrics(registry)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: probeTimeout, WriteTimeout: probeTimeout, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.Info("probing", "every", every, "metrics", "http://"+listener.Addr().String()+"/metrics")
	next := time.NewTicker(every)
	defer next.Stop()
	for {
		found := p.once(ctx)
		if ctx.Err() == nil {
			metrics.observe(found)
			if found.err != nil {
				log.Warn("a probe failed", "result", found.result, "error", found.err, "duration_ms", found.took.Milliseconds())
			}
		}
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return server.Close()
		case <-next.C:
		}
	}
}
