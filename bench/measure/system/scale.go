package system

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
		report.Steps = append(report.Steps, scaleStep{nodes, load.Summarise(rounds), sharingOf(before, after)})
	}
	var summaries []load.Summary
	for _, s := range report.Steps {
		summaries = append(summaries, s.Summary)
	}
	if err := load.WriteSummaries(b.Out, summaries); err != nil {
		return err
	}
	return b.keep("scale", report)
}
