package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/cli/clitest"
	"spendgate/hotpath/wire"
)

// TestProbe: probes by the shipped policy and a key that may do nothing else are allowed one
// after another. Any other result says by exit code and metric whose fault it is.
func TestProbe(t *testing.T) {
	n := startDev(t)
	n.as(t, n.sample, false, "", "policies", "apply", "-f", "../../deploy/examples/probe").Has(t, 0, "probe version 1")
	made := n.as(t, "", false, "", "keys", "create", "--name", "probe", "--scope", "checks:write", "--policy-id", "probe", "--agent-id",
		wire.Probe,
		"--principal", wire.Probe)
	made.Has(t, 0, "API key:")
	key := strings.Fields(made.Stdout[strings.Index(made.Stdout, "API key:"):])[2]
	keyID := strings.Fields(made.Stdout)[2]

	for range 2 {
		n.as(t, key, false, "", "probe", "--once").Check(t, 0, "allow, chk_", "")
	}
	if listed := n.as(t, n.sample, false, "", "checks", "list", "--policy-id", "probe").Stdout; strings.Count(listed, "allow") != 2 ||
		strings.Count(listed, "0.01 XTS") != 2 {
		t.Errorf("recorded:\n%s", listed)
	}
	n.as(t, key, false, "", "probe", "--once", "--policy-id", "refund-desk").Check(t, 3, "", "probe refused: forbidden: ")
	n.as(t, n.sample, false, "", "probe", "--once", "--policy-id", "refund-desk").Check(t, 3, "", "probe unexpected: the answer is block (")
	n.as(t, "", false, "", "probe", "--once").Check(t, 1, "", "SPENDGATE_API_KEY is not set")
	away := n
	away.url = "http://127.0.0.1:1"
	away.as(t, key, false, "", "probe", "--once").Check(t, 1, "", "probe unanswered: ")

	metrics := n.probe(t, key)
	eventually := func(what string, names ...string) {
		t.Helper()
		for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			text, missing := metrics(), ""
			for _, name := range names {
				if !strings.Contains(text, "\n"+name) {
					missing = name
				}
			}
			if missing == "" {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("%s: no %q in\n%s", what, missing, text)
			}
		}
	}
	eventually("probes succeed", `spendgate_probe_success{deployment="cell-1"} 1`,
		`spendgate_probes_total{deployment="cell-1",result="allowed"} 2`,
		`spendgate_probe_duration_seconds_count{deployment="cell-1"} 2`, `spendgate_probe_last_success_timestamp_seconds{deployment="cell-1"} 1.`)
	n.as(t, "", false, "", "keys", "update", keyID, "--active=false").Has(t, 0, "inactive")
	eventually("a probe fails", `spendgate_probe_success{deployment="cell-1"} 0`,
		`spendgate_probes_total{deployment="cell-1",result="refused"} 1`)
}

// probe runs the program until the test ends, and returns a function that reads its metrics.
func (n devNode) probe(t *testing.T, key string) (metrics func() string) {
	t.Helper()
	log, ended := new(clitest.Log), make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		environ := []string{"SPENDGATE_API_URL=" + n.url, "SPENDGATE_API_KEY=" + key, "SPENDGATE_DEPLOYMENT=cell-1"}
		ended <- run(ctx, cli.Process{Stdout: new(bytes.Buffer), Stderr: log, Environ: environ},
			[]string{"probe", "--every", "1s", "--listen", "127.0.0.1:0"})
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d: %s", code, log.String())
		}
	})
	var found []string
	for until := time.Now().Add(time.Minute); found == nil; time.Sleep(20 * time.Millisecond) {
		if found = log.Find(`metrics=(\S+)`); time.Now().After(until) {
			t.Fatal(log.String())
		}
	}
	return func() string { return read(t, found[1]) }
}
