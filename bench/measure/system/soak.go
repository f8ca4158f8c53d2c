package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/bench/load"
)

// soakReport is what soak.json holds.
type soakReport struct {
	Machine load.Machine `json:"machine"`
	Points  []soakPoint  `json:"points"`
	Failed  uint64       `json:"failures"`
}

// soakPoint is the memory after so many checks, in MiB.
type soakPoint struct {
	Checks   uint64  `json:"checks"`
	Node     float64 `json:"node_resident_mib"`
	Heap     float64 `json:"node_heap_mib"`
	Routines float64 `json:"node_goroutines"`
}

const (
	soakPoints  = 20
	soakNoLimit = 24 * time.Hour // a step ends by its number of checks
	mebibyte    = 1 << 20
)

// runSoak sends many checks and looks at the node's memory in between.
func (b *bench) runSoak(ctx context.Context, checks uint64) (err error) {
	if err := b.start(ctx); err != nil {
		return errors.Join(err, b.stop())
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	report := soakReport{Machine: b.Machine}
	var done uint64
	for done < checks {
		o := b.options(slices.Max(b.Connections))
		o.Warmup, o.Duration, o.Requests = 0, soakNoLimit, max(checks/soakPoints, 1)
		r, err := b.Measure(ctx, fmt.Sprint("after ", done), o)
		if err != nil {
			return err
		}
		done += r.Right
		report.Failed += r.Failures()
		point, err := b.memory(ctx, done)
		if err != nil {
			return err
		}
		report.Points = append(report.Points, point)
		if _, err := fmt.Fprintf(b.Out, "%10d checks: node %.1f MiB resident, heap %.1f MiB, %.0f goroutines\n",
			point.Checks, point.Node, point.Heap, point.Routines); err != nil {
			return err
		}
	}
	return b.keep("soak", report)
}

func (b *bench) memory(ctx context.Context, checks uint64) (soakPoint, error) {
	resident, err := load.Resident(b.Nodes[0].PID())
	if err != nil {
		return soakPoint{}, err
	}
	m, err := b.metrics(ctx)
	return soakPoint{
		Checks: checks, Node: float64(resident) / mebibyte,
		Heap: m.Sum("go_memstats_heap_inuse_bytes") / mebibyte, Routines: m.Sum("go_goroutines"),
	}, err
}
