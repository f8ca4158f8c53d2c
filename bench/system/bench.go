package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"spendgate/bench/load"
	"spendgate/bench/load/stack"
)

// bench is a deployment under measurement.
type bench struct {
	settings
	out      io.Writer
	dir      string
	adminKey string
	machine  load.Machine
	workload load.Workload

	backends  stack.Backends
	processes []load.Process // of the backends
	nodes     []*stack.Node
	keys      []string
	serial    uint64 // of the next action: no run repeats another's
}

// start starts the first node and prepares the workload on it.
func (b *bench) start(ctx context.Context) error {
	var err error
	if b.backends, err = stack.BackendsFromEnv(); err != nil {
		return err
	}
	if err := b.backends.Settle(ctx); err != nil {
		return err
	}
	if b.processes, err = b.backends.Processes(ctx); err != nil {
		return err
	}
	if err := b.addNode(ctx); err != nil {
		return err
	}
	deployment := load.Deployment{URL: "http://" + b.nodes[0].Addr, AdminKey: b.adminKey}
	b.keys, err = deployment.Prepare(ctx, b.workload)
	return err
}

func (b *bench) addNode(ctx context.Context) error {
	n, err := stack.StartNode(ctx, b.backends, fmt.Sprintf("node%d", len(b.nodes)+1), b.adminKey, b.dir)
	if err == nil {
		b.nodes = append(b.nodes, n)
	}
	return err
}

// stop ends the nodes, each of which must end well.
func (b *bench) stop() error {
	var failures []error
	for _, n := range b.nodes {
		failures = append(failures, n.Stop())
	}
	return errors.Join(failures...)
}

// options are those of a run against all nodes.
func (b *bench) options(connections int) load.Options {
	o := load.Options{
		Workload: b.workload, FirstSerial: b.serial, Connections: connections,
		Target: func() load.Target { return load.NewSpendgate(b.keys) },
		Warmup: b.Warmup, Duration: b.Duration, Processes: b.processes,
	}
	for _, n := range b.nodes {
		o.Addrs = append(o.Addrs, n.Addr)
		o.Processes = append(o.Processes, n.Process())
	}
	return o
}

// measure runs a load and prints a line about it.
func (b *bench) measure(ctx context.Context, name string, o load.Options) (load.Result, error) {
	r, err := load.Run(ctx, o)
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	r.Name = name
	b.serial = max(b.serial, r.NextSerial)
	_, err = fmt.Fprintf(b.out, "%-24s %8.0f/s  p50 %7.2f  p99 %7.2f ms  server CPU %6.1f us  failed %d\n",
		name, r.PerSecond, r.Latency.P50, r.Latency.P99, r.Server(), r.Failures())
	return r, err
}

// keep writes the results of a plan as JSON.
func (b *bench) keep(name string, report any) error {
	return load.WriteFile(filepath.Join(b.Results, name+".json"), func(w io.Writer) error { return load.WriteJSON(w, report) })
}
