package system

import (
	"context"
	"errors"
	"fmt"

	"spendgate/bench/load"
)

// systemReport is what system.json holds.
type systemReport struct {
	load.Setting
	Summary []load.Summary `json:"summary"`
	// Allocations of the node for each check, at the most connections.
	Allocations    float64 `json:"node_allocations_per_check"`
	AllocatedBytes float64 `json:"node_bytes_allocated_per_check"`
	// Sharing is by the name of the run.
	Sharing map[string]sharing `json:"sharing"`
	Written written            `json:"written"`
	Runs    []load.Result      `json:"runs"`
}

// runSystem measures one node.
func (b *bench) runSystem(ctx context.Context) (err error) {
	if err := b.start(ctx); err != nil {
		return errors.Join(err, b.stop())
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	report := systemReport{Setting: b.Setting, Sharing: make(map[string]sharing)}
	capacity, err := b.closedLoops(ctx, &report)
	if err != nil {
		return err
	}
	if err := b.quietLoops(ctx, &report, capacity/2); err != nil {
		return err
	}
	if err := load.WriteSummaries(b.Out, report.Summary); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(b.Out, "\nthe node allocates %.1f times and %.0f bytes a check\n",
		report.Allocations, report.AllocatedBytes); err != nil {
		return err
	}
	return b.keep("system", report)
}

// closedLoops returns the node's throughput at the most connections.
func (b *bench) closedLoops(ctx context.Context, report *systemReport) (capacity float64, err error) {
	report.Written, err = b.writtenBy(ctx, func() error {
		for _, connections := range b.Connections {
			if capacity, err = b.closedLoop(ctx, connections, report); err != nil {
				return err
			}
		}
		return nil
	})
	return capacity, err
}

// closedLoop measures one number of connections and returns the throughput.
func (b *bench) closedLoop(ctx context.Context, connections int, report *systemReport) (capacity float64, err error) {
	var checks []load.Result
	for range b.Rounds {
		before, err := b.metrics(ctx)
		if err != nil {
			return 0, err
		}
		check, err := b.Measure(ctx, fmt.Sprint("closed ", connections), b.options(connections))
		if err != nil {
			return 0, err
		}
		after, err := b.metrics(ctx)
		if err != nil {
			return 0, err
		}
		report.count(check.Name, before, after)
		checks = append(checks, check)
	}
	report.Runs = append(report.Runs, checks...)
	report.Summary = append(report.Summary, load.Summarise(checks))
	return load.SpreadOver(checks, load.Throughput).Median, nil
}

// count records what the node allocated for each check of a run, and how many
// checks shared its batches.
func (r *systemReport) count(run string, before, after load.Metrics) {
	r.Sharing[run] = sharingOf(before, after)
	if checks := after.Since(before, "spendgate_decisions_total"); checks > 0 {
		r.Allocations = after.Since(before, "go_memstats_mallocs_total") / checks
		r.AllocatedBytes = after.Since(before, "go_memstats_alloc_bytes_total") / checks
	}
}

// quietLoops measures a node that is not saturated.
func (b *bench) quietLoops(ctx context.Context, report *systemReport, rate float64) error {
	open, lone := "open at half", "lone client"
	results := make(map[string][]load.Result)
	for range b.Rounds {
		o := b.options(b.Connections[len(b.Connections)-1])
		o.Rate = rate
		r, err := b.Measure(ctx, open, o)
		if err != nil {
			return err
		}
		results[open] = append(results[open], r)
		before, err := b.metrics(ctx)
		if err != nil {
			return err
		}
		if r, err = b.Measure(ctx, lone, b.options(1)); err != nil {
			return err
		}
		after, err := b.metrics(ctx)
		if err != nil {
			return err
		}
		report.Sharing[lone] = sharingOf(before, after)
		results[lone] = append(results[lone], r)
	}
	for _, name := range []string{open, lone} {
		report.Runs = append(report.Runs, results[name]...)
		report.Summary = append(report.Summary, load.Summarise(results[name]))
	}
	return nil
}
