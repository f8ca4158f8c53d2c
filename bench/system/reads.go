package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
			w := b.workload
			w.Seed++
			return load.NewSimulations(b.keys, w, 0, simulated)
		}},
	}
	for _, target := range targets {
		var rounds []load.Result
		for range b.Rounds {
			o := b.options(16)
			o.Target = target.make
			r, err := b.measure(ctx, target.name, o)
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
		b.workload.Action(b.serial, &a)
		b.serial++
		body := append(load.AppendMembers([]byte{'{'}, &a), '}')
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.Nodes[0].API+"/v1/checks", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("X-API-Key", b.keys[a.Key])
		r.Header.Set("Content-Type", "application/json")
		if ids[i], err = checkID(r); err != nil {
			return nil, fmt.Errorf("cannot record a check to look up: %w", err)
		}
	}
	return ids, nil
}

func checkID(r *http.Request) (string, error) {
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var check struct {
		CheckID string `json:"check_id"`
	}
	if err := json.Unmarshal(answer, &check); err != nil || check.CheckID == "" {
		return "", fmt.Errorf("status %s: %s", response.Status, answer)
	}
	return check.CheckID, nil
}
