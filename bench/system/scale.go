package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"spendgate/bench/load"
)

// scaleReport is what scale.json holds.
type scaleReport struct {
	load.Setting
	Steps []scaleStep   `json:"steps"`
	Runs  []load.Result `json:"runs"`
}

// scaleStep is a number of nodes.
type scaleStep struct {
	Nodes   int          `json:"nodes"`
	Summary load.Summary `json:"summary"`
	Sharing sharing      `json:"sharing"`
	// Cores is how many cores each component kept busy.
	Cores map[string]float64 `json:"cores_busy"`
	// Alone is how many checks a second each component could carry if it had
	// as many cores to itself as it can use: one for Redis, which works on one
	// thread; all of this machine's for the others.
	Alone map[string]float64 `json:"checks_per_second_alone"`
	First string             `json:"saturates_first"`
}

// runScale measures 1, 2 and 4 nodes over the same servers.
func (b *bench) runScale(ctx context.Context) (err error) {
	if err := b.start(ctx); err != nil {
		return errors.Join(err, b.stop())
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	report := scaleReport{Setting: b.Setting}
	connections := slices.Max(b.Connections)
	for _, nodes := range []int{1, 2, 4} {
		for len(b.Nodes) < nodes {
			if err := b.addNode(ctx, nil); err != nil {
				return err
			}
		}
		var rounds []load.Result
		before, err := b.metrics(ctx)
		if err != nil {
			return err
		}
		for range b.Rounds {
			r, err := b.Measure(ctx, fmt.Sprintf("%d nodes, %d conns", nodes, connections), b.options(connections))
			if err != nil {
				return err
			}
			rounds = append(rounds, r)
		}
		report.Runs = append(report.Runs, rounds...)
		after, err := b.metrics(ctx)
		if err != nil {
			return err
		}
		step := b.step(nodes, rounds)
		step.Sharing = sharingOf(before, after)
		report.Steps = append(report.Steps, step)
	}
	if err := b.printScale(report.Steps); err != nil {
		return err
	}
	return b.keep("scale", report)
}

func (b *bench) step(nodes int, rounds []load.Result) scaleStep {
	s := scaleStep{
		Nodes: nodes, Summary: load.Summarise(rounds),
		Cores: make(map[string]float64), Alone: make(map[string]float64),
	}
	const second = 1e6 // in microseconds
	for name, cpu := range s.Summary.CPU {
		s.Cores[name] = cpu.Median * s.Summary.PerSecond.Median / second
		if name == load.Generator || cpu.Median == 0 {
			continue
		}
		usable := float64(b.Machine.Cores)
		if name == "redis" {
			usable = 1
		}
		s.Alone[name] = usable * second / cpu.Median
		if s.First == "" || s.Alone[name] < s.Alone[s.First] {
			s.First = name
		}
	}
	return s
}

func (b *bench) printScale(steps []scaleStep) error {
	var summaries []load.Summary
	for _, s := range steps {
		summaries = append(summaries, s.Summary)
	}
	if err := load.WriteSummaries(b.Out, summaries); err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.Out, 0, 0, 2, ' ', 0)
	components := load.Processes(summaries)
	fmt.Fprint(w, "\nnodes\tfirst to saturate")
	for _, name := range components {
		fmt.Fprintf(w, "\t%s: cores busy\talone/s", name)
	}
	fmt.Fprintln(w, "\tgenerator: cores busy")
	for _, s := range steps {
		fmt.Fprintf(w, "%d\t%s", s.Nodes, s.First)
		for _, name := range components {
			fmt.Fprintf(w, "\t%.2f\t%.0f", s.Cores[name], s.Alone[name])
		}
		fmt.Fprintf(w, "\t%.2f\n", s.Cores[load.Generator])
	}
	return w.Flush()
}
