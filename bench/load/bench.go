package load

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Call is a call of a benchmark, with the flags that all of them have.
type Call struct {
	Flags   *flag.FlagSet // a benchmark adds its own
	Out     io.Writer
	Version string // of the build
	Results string // folder
	args    []string
}

// NewCall returns a call whose flags are not parsed yet.
func NewCall(name string, args []string, out io.Writer, version string) *Call {
	c := &Call{Flags: flag.NewFlagSet(name, flag.ContinueOnError), Out: out, Version: version, args: args}
	c.Flags.StringVar(&c.Results, "results", "bench/results", "folder of the results")
	return c
}

// Parse parses the flags.
func (c *Call) Parse() error { return c.Flags.Parse(c.args) }

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
