package load_test

import (
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
	"spendgate/bench/must"
)

// A small part of the benchmarks' load, in every loop and of every kind, sent to a node with
// embedded stores: every answer must be right.
func TestLoadAgainstANode(t *testing.T) {
	node := fleet.TestDev(t)
	t.Cleanup(func() {
		must.Check(t, node.End())
	})
	w := load.Workload{Seed: 1, Keys: 3, Agents: 20, Policies: 2}
	keys := must.Get(load.Deployment{URL: node.API, AdminKey: node.AdminKey}.Prepare(t.Context(), w))(t)
	o := load.Options{
		Addrs: []string{node.Addr}, Workload: w, Connections: 4, Workers: 2, Duration: time.Minute, Requests: 300,
		Target:    func() load.Target { return load.NewSpendgate(keys) },
		Processes: []load.Process{{Name: "node", PID: node.PID()}},
	}
	o.FirstSerial = run(t, "closed loop", o)
	o.Rate, o.Requests, o.Duration = 100, 0, time.Second
	run(t, "open loop", o)
}

// run returns the serial for the next run.
func run(t *testing.T, name string, o load.Options) uint64 {
	t.Helper()
	r, err := load.Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if r.Right == 0 || r.Failures() != 0 {
		t.Errorf("%s: %d right answers, errors %v, for example %v", name, r.Right, r.Errors, r.Examples)
	}
	return r.NextSerial
}
