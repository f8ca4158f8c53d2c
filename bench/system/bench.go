package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

// bench is a deployment under measurement.
type bench struct {
	settings
	*fleet.Fleet
	out      io.Writer
	machine  load.Machine
	workload load.Workload
	keys     []string
	serial   uint64 // of the next action: no run repeats another's
}

// start starts the servers and the first node and prepares the workload on it.
func (b *bench) start(ctx context.Context) error {
	var err error
	if b.Fleet, err = fleet.StartMeasured(ctx, "spendgate"); err != nil {
		return err
	}
	if err := b.addNode(ctx, nil); err != nil {
		return err
	}
	deployment := load.Deployment{URL: b.Nodes[0].API, AdminKey: b.AdminKey}
	b.keys, err = deployment.Prepare(ctx, b.workload)
	return err
}

func (b *bench) addNode(ctx context.Context, s fleet.Settings) error {
	n, err := b.AddNode(s)
	if err != nil {
		return err
	}
	return n.Start(ctx)
}

// stop ends everything.
func (b *bench) stop() error {
	if b.Fleet == nil {
		return nil
	}
	return b.End()
}

// options returns those of a run against all nodes.
func (b *bench) options(connections int) load.Options {
	o := load.Options{
		Workload: b.workload, FirstSerial: b.serial, Connections: connections,
		Target: func() load.Target { return load.NewSpendgate(b.keys) },
		Warmup: b.Warmup, Duration: b.Duration,
		Processes: []load.Process{{Name: "redis", PID: b.Redis.PID()}, {Name: "postgres", PID: b.Postgres.PID(), Tree: true}},
	}
	for _, n := range b.Nodes {
		o.Addrs = append(o.Addrs, n.Addr)
		o.Processes = append(o.Processes, load.Process{Name: "node", PID: n.PID()})
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
