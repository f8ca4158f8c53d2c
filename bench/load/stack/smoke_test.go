package stack_test

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"spendgate/bench/load"
	"spendgate/bench/load/stack"
)

// Goal: the benchmarks cannot rot unseen. Method: send a little of their load,
// in every loop and of every kind, to a real node with embedded stores; every
// answer must be the right one.
func TestLoadAgainstANode(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "spendgate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "spendgate/cmd/spendgate").CombinedOutput(); err != nil {
		t.Fatalf("cannot build the service: %v\n%s", err, out)
	}
	addr, ops := freeAddr(t), freeAddr(t)
	const adminKey = "admin-key-of-the-smoke-test"
	server, err := stack.Start(t.Context(), stack.Command{
		Name: "node", Binary: binary, Args: []string{"dev"}, Log: filepath.Join(dir, "log"), Ready: "http://" + ops + "/readyz",
		Env: []string{
			"SPENDGATE_LISTEN_ADDR=" + addr, "SPENDGATE_OPS_ADDR=" + ops, "SPENDGATE_DATA_DIR=" + filepath.Join(dir, "data"),
			"SPENDGATE_ADMIN_KEY=" + adminKey, "SPENDGATE_LOG_LEVEL=error",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := load.Workload{Seed: 1, Keys: 3, Agents: 20, Policies: 2}
	keys, err := load.Deployment{URL: "http://" + addr, AdminKey: adminKey}.Prepare(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	o := load.Options{
		Addrs: []string{addr}, Workload: w, Connections: 4, Workers: 2, Duration: time.Minute, Requests: 300,
		Target:    func() load.Target { return load.NewSpendgate(keys) },
		Processes: []load.Process{{Name: "node", PID: server.PID()}},
	}
	o.FirstSerial = run(t, "closed loop", o)
	o.Rate, o.Requests, o.Duration = 100, 0, time.Second
	o.FirstSerial = run(t, "open loop", o)
	o.Rate, o.Requests, o.Duration = 0, 20, time.Minute
	o.Target = func() load.Target { return load.NewSimulations(keys, w, 1_000_000, 100) }
	run(t, "simulations", o)
}

// run gives the serial for the next run.
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

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := stack.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
