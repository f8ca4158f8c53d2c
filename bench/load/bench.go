package load

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Command is the main function of a benchmark: run ends early when the process is
// interrupted.
func Command(name string, run func(ctx context.Context, out io.Writer, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Setting begins a report: where and with what was measured.
type Setting struct {
	Machine  Machine  `json:"machine"`
	Workload Workload `json:"workload"`
}

// Bench is a benchmark in progress.
type Bench struct {
	Plan
	Setting
	Out    io.Writer
	Serial uint64 // of the next action: no run repeats another's
}

// NewBench returns a Bench of the default workload on this machine.
func NewBench(p Plan, out io.Writer, version string) Bench {
	return Bench{Plan: p, Setting: Setting{ThisMachine(version), DefaultWorkload(1)}, Out: out}
}

// Measure runs a load and prints a line about it.
func (b *Bench) Measure(ctx context.Context, name string, o Options) (Result, error) {
	r, err := Run(ctx, o)
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	r.Name = name
	b.Serial = max(b.Serial, r.NextSerial)
	_, err = fmt.Fprintf(b.Out, "%-24s %8.0f/s  p50 %7.2f  p99 %7.2f ms  server CPU %6.1f us  generator %5.1f  failed %d\n",
		name, r.PerSecond, r.Latency.P50, r.Latency.P99, r.Server(), r.CPU[Generator], r.Failures())
	return r, err
}

// WriteJSON writes a report to a file, making its folder.
func WriteJSON(path string, report any) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // for everybody
	}
	if err != nil {
		return fmt.Errorf("cannot keep results: %w", err)
	}
	return nil
}
