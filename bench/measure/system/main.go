package system

import (
	"context"
	"time"

	"spendgate/bench/load"
)

// settings are what the command line says.
type settings struct {
	load.Plan
	scale    bool
	overload bool
	budgets  bool
	changes  bool
}

func parse(c *load.Call) (settings, error) {
	s := settings{Plan: load.Plan{
		Rounds: 3, Warmup: 2 * time.Second, Duration: 8 * time.Second,
		Connections: []int{16, 64, 256},
	}}
	flags := c.Flags
	s.Flags(flags)
	flags.BoolVar(&s.scale, "scale", false, "measure 1, 2 and 4 nodes")
	flags.BoolVar(&s.overload, "overload", false, "measure more load than the node can carry")
	flags.BoolVar(&s.budgets, "budgets", false, "measure what budgets cost")
	flags.BoolVar(&s.changes, "changes", false, "measure what backtests cost live checks")
	err := c.Parse()
	s.Results = c.Results
	return s, err
}

// Run measures a deployment.
func Run(ctx context.Context, c *load.Call) error {
	s, err := parse(c)
	if err != nil {
		return err
	}
	b := &bench{Bench: load.NewBench(s.Plan, c.Out, c.Version)}
	switch {
	case s.scale:
		return b.runScale(ctx)
	case s.overload:
		return b.runOverload(ctx)
	case s.budgets:
		return b.runBudgets(ctx)
	case s.changes:
		return b.runChanges(ctx)
	default:
		return b.runSystem(ctx)
	}
}
