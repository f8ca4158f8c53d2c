package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"spendgate/bench/load"
)

const (
	lookedUp  = 500 // checks that the look-ups go round
	simulated = 100 // actions of a simulation
)

// reads measures what writes nothing: look-ups of checks, and simulations.
func (b *bench) reads(ctx context.Context, report *systemReport) error {
	ids, err := b.recordChecks(ctx, lookedUp)
	if err != nil {
		return err
	}
	targets := []struct {
		name string
		make func() load.Target
	}{
		{"GET /v1/checks/{id}", func() load.Target { return load.NewLookups(b.keys, ids) }},
		{"simulate 100 actions", func() load.Target {
			// The seed is another: what is simulated was never checked.
			w := b.Workload
			w.Seed++
			return load.NewSimulations(b.keys, w, 0, simulated)
		}},
	}
	for _, target := range targets {
		var rounds []load.Result
		for range b.Rounds {
			o := b.options(16)
			o.Target = target.make
			r, err := b.Measure(ctx, target.name, o)
			if err != nil {
				return err
			}
			rounds = append(rounds, r)
		}
		report.Runs = append(report.Runs, rounds...)
		report.Summary = append(report.Summary, load.Summarise(rounds))
	}
	return nil
}

// recordChecks makes n checks and returns their ids.
func (b *bench) recordChecks(ctx context.Context, n int) ([]string, error) {
	ids := make([]string, n)
	var a load.Action
	for i := range ids {
		b.Workload.Action(b.Serial, &a)
		b.Serial++
		body := append(load.AppendMembers([]byte{'{'}, &a), '}')
		answer, err := b.Nodes[0].Client(b.keys[a.Key]).Do(ctx, http.MethodPost, "/v1/checks", json.RawMessage(body))
		if err != nil {
			return nil, err
		}
		if ids[i] = answer.Result().CheckID; ids[i] == "" {
			return nil, fmt.Errorf("cannot record a check to look up: %s", answer)
		}
	}
	return ids, nil
}
