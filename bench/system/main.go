package main

import (
	"context"
	"flag"
	"io"
	"time"

	"spendgate/bench/load"
)

// version is set when the binary is linked (-X main.version=...).
var version = "dev"

func main() { load.Command("system", run) }

// settings are what the command line says.
type settings struct {
	load.Plan
	scale    bool
	soak     uint64
	overload bool
	budgets  bool
	changes  bool
}

func parse(args []string) (settings, error) {
	s := settings{Plan: load.Plan{
		Rounds: 3, Warmup: 2 * time.Second, Duration: 8 * time.Second,
		Connections: []int{16, 64, 256}, Results: "bench/results",
	}}
	flags := flag.NewFlagSet("system", flag.ContinueOnError)
	s.Flags(flags)
	flags.BoolVar(&s.scale, "scale", false, "measure 1, 2 and 4 nodes")
	flags.Uint64Var(&s.soak, "soak", 0, "measure memory over so many checks")
	flags.BoolVar(&s.overload, "overload", false, "measure more load than the node can carry")
	flags.BoolVar(&s.budgets, "budgets", false, "measure what budgets cost")
	flags.BoolVar(&s.changes, "changes", false, "measure what shadow drafts and backtests cost live checks")
	err := flags.Parse(args)
	return s, err
}

func run(ctx context.Context, out io.Writer, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	b := &bench{Bench: load.NewBench(s.Plan, out, version)}
	switch {
	case s.scale:
		return b.runScale(ctx)
	case s.overload:
		return b.runOverload(ctx)
	case s.budgets:
		return b.runBudgets(ctx)
	case s.changes:
		return b.runChanges(ctx)
	case s.soak > 0:
		return b.runSoak(ctx, s.soak)
	default:
		return b.runSystem(ctx)
	}
}
