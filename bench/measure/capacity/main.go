// Package capacity computes from measurements what a deployment needs:
//
//	go run ./bench/measure capacity
//
// It reads system.json, scale.json and bytes.json of bench/results. docs/operate/capacity.md
// explains what it prints.
package capacity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"spendgate/bench/load"
)

// Run computes and prints it.
func Run(_ context.Context, c *load.Call) error {
	if err := c.Parse(); err != nil {
		return err
	}
	return run(c.Out, c.Results)
}

// measured is the part of system.json that a plan uses.
type measured struct {
	Machine load.Machine       `json:"machine"`
	Summary []load.Summary     `json:"summary"`
	Sharing map[string]sharing `json:"sharing"`
}

type sharing struct {
	Trip   float64 `json:"checks_per_round_trip"`
	Commit float64 `json:"checks_per_commit"`
}

// scaled is what was measured with several nodes.
type scaled struct {
	Steps []struct {
		Nodes   int          `json:"nodes"`
		Summary load.Summary `json:"summary"`
		Sharing sharing      `json:"sharing"`
	} `json:"steps"`
}

func run(out io.Writer, folder string) error {
	var one measured
	var many scaled
	var left leavings
	if err := read(filepath.Join(folder, "system.json"), &one); err != nil {
		return err
	}
	if err := read(filepath.Join(folder, "scale.json"), &many); err != nil {
		return err
	}
	if err := read(filepath.Join(folder, "bytes.json"), &left); err != nil {
		return err
	}
	c := one.components()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	one.writeCosts(w, c)
	left.write(w)
	one.writeForecast(w, c, many)
	writePlans(w, c, left)
	return w.Flush()
}

func read(path string, value any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read results: %w", err)
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	return nil
}

// components fits the costs to what one node was measured at.
func (m *measured) components() components {
	var node, redis, postgres []point
	for _, s := range m.Summary {
		shared, ok := m.Sharing[s.Name]
		if !ok {
			continue
		}
		node = append(node, point{shared.Commit, s.CPU["node"].Median})
		redis = append(redis, point{shared.Trip, s.CPU["redis"].Median})
		postgres = append(postgres, point{shared.Commit, s.CPU["postgres"].Median})
	}
	return components{fit(node), fit(redis), fit(postgres)}
}

func (m *measured) writeCosts(w *tabwriter.Writer, c components) {
	fmt.Fprintf(w, "%s: processor time, us\n", m.Machine.CPU)
	fmt.Fprintln(w, "component\ta check\ta batch\tchecks a second of one core, 100 a batch")
	for _, row := range []struct {
		name string
		cost cost
	}{{"node", c.node}, {"redis", c.redis}, {"postgres", c.postgres}} {
		fmt.Fprintf(w, "%s\t%.1f\t%.0f\t%.0f\n", row.name, row.cost.check, row.cost.batch, second/row.cost.at(100))
	}
}

// writeForecast compares the model, fitted to one node, with several nodes.
func (m *measured) writeForecast(w *tabwriter.Writer, c components, many scaled) {
	const connections = 256
	busy := m.busy(fmt.Sprint("closed ", connections))
	fmt.Fprintf(w, "with %d clients %.2f of %d cores are busy; the rest of the time is waited for the disk\n",
		connections, busy, m.Machine.Cores)
	fmt.Fprintln(w, "nodes on this machine\tchecks a commit: forecast\tmeasured\tchecks/s: forecast\tmeasured\toff by")
	for _, s := range many.Steps {
		rate, batch := c.saturated(s.Nodes, connections, busy, s.Summary.CPU[load.Generator].Median)
		fmt.Fprintf(w, "%d\t%.0f\t%.0f\t%.0f\t%.0f\t%+.0f %%\n", s.Nodes, batch, s.Sharing.Commit,
			rate, s.Summary.PerSecond.Median, 100*(rate/s.Summary.PerSecond.Median-1))
	}
}

// busy returns how many cores a run of one node kept busy.
func (m *measured) busy(run string) float64 {
	for _, s := range m.Summary {
		if s.Name != run {
			continue
		}
		var us float64
		for _, cpu := range s.CPU {
			us += cpu.Median
		}
		return us * s.PerSecond.Median / second
	}
	return 0
}

// production returns what the plans assume.
func production() deployment {
	return deployment{nodeCores: 8, atMost: 0.6, fsyncMS: 2, spareNodes: 2}
}

func writePlans(w *tabwriter.Writer, c components, left leavings) {
	d := production()
	fmt.Fprintf(w, "\nnodes of %.0f cores, no core busier than %.0f %%, a commit of %.0f ms before the first row, %d spare nodes\n",
		d.nodeCores, 100*d.atMost, d.fsyncMS, d.spareNodes)
	fmt.Fprintln(w, "checks/s\tnodes\tchecks a commit\tcommit ms\tlatency ms\tcores busy: nodes\tredis\tpostgres\t"+
		"log MB/s\tGB a day\tof it batches\tevents")
	const megabyte, gigabyte, day = 1e6, 1e9, 86400
	for _, rate := range []float64{1_000, 20_000, 200_000} {
		p := c.plan(rate, d)
		b := left.at(p.batch)
		fmt.Fprintf(w, "%.0f\t%d\t%.0f\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t%.1f\t%.0f\t%.0f\t%.0f\n",
			p.rate, p.nodes, p.batch, p.commitMS, p.latencyMS, p.nodeCores, p.redisCores, p.postgresCores,
			rate*b.log/megabyte, rate*b.stored*day/gigabyte, rate*b.batches*day/gigabyte, rate*b.events*day/gigabyte)
	}
}
