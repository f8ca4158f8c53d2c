package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"spendgate/cmd/spendgate/cli"
)

// cancelling ends a context when something is written.
type cancelling struct {
	bytes.Buffer
	at     string
	cancel context.CancelFunc
}

func (w *cancelling) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.at) {
		w.cancel()
	}
	return w.Buffer.Write(p)
}

// G11: a node that is told to stop before it has begun to accept stops.
func TestStopAtTheStart(t *testing.T) {
	folder := t.TempDir()
	for range 5 { // the first makes the samples, which takes a while
		ctx, cancel := context.WithCancel(t.Context())
		log := &cancelling{at: "listening", cancel: cancel}
		ended := make(chan int, 1)
		go func() {
			environ := []string{"SPENDGATE_DATA_DIR=" + folder, "SPENDGATE_LISTEN_ADDR=127.0.0.1:0", "SPENDGATE_OPS_ADDR=127.0.0.1:0"}
			ended <- run(ctx, cli.Process{Stdout: new(bytes.Buffer), Stderr: log, Environ: environ}, []string{"dev"})
		}()
		select {
		case code := <-ended:
			if code != 0 {
				t.Errorf("exit %d: %s", code, log)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it does not stop")
		}
	}
}

// Every metric and every line of the log has the deployment's name, if it has one.
func TestDeployment(t *testing.T) {
	for _, name := range []string{"", "cell-1"} {
		gatherer, registry := newRegistry(name)
		registry.MustRegister(newHealth("node of a fleet", slog.New(slog.DiscardHandler)))
		families, err := gatherer.Gather()
		if err != nil || len(families) == 0 {
			t.Fatalf("%d metrics, %v", len(families), err)
		}
		for _, f := range families {
			labels := make(map[string]string)
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if got, there := labels["deployment"]; got != name || there != (name != "") {
				t.Errorf("%q: %s has %v", name, f.GetName(), labels)
			}
		}
		var out strings.Builder
		ofDeployment(slog.New(slog.NewJSONHandler(&out, nil)), name).Info("hello")
		if got := strings.Contains(out.String(), `"deployment":"cell-1"`); got != (name != "") {
			t.Errorf("%q: %s", name, out.String())
		}
	}
}
