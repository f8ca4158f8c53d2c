package system

import (
	"context"
	"path/filepath"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

// bench is a deployment under measurement.
type bench struct {
	load.Bench
	*fleet.Fleet
	keys []string
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
	b.keys, err = deployment.Prepare(ctx, b.Workload)
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

// options returns the options of a run against all nodes.
func (b *bench) options(connections int) load.Options {
	o := load.Options{
		Workload: b.Workload, FirstSerial: b.Serial, Connections: connections,
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

// keep writes the results of a plan as JSON.
func (b *bench) keep(name string, report any) error {
	return load.WriteJSON(filepath.Join(b.Results, name+".json"), report)
}
