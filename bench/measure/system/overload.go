package system

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

// overloadReport is what overload.json holds.
type overloadReport struct {
	load.Setting
	Capacity map[string]float64 `json:"capacity_per_second"` // by database
	Steps    []overloadStep     `json:"steps"`
}

// overloadStep is one load and what became of the node under it.
type overloadStep struct {
	Database string      `json:"database"` // fast or slow
	Factor   float64     `json:"times_capacity"`
	Result   load.Result `json:"result"`
	Lost     int         `json:"answered_without_a_row"`
	Resident float64     `json:"peak_resident_mib"`
	Routines float64     `json:"peak_goroutines"`
}

const (
	// overloadConnections are more than the checks that a node takes at once:
	// with fewer it would be the generator that queues.
	overloadConnections = 6000
	// slowConnections are what it takes to fill the commits of the slow database.
	slowConnections = 2000
	// slowBy is what each of its commits takes longer: the most that it can.
	slowBy = 100 * time.Millisecond
	fast   = "fast"
	slow   = "slow"
)

// overloadFactors returns the loads in times of the capacity. The last shows that
// the node is healthy right after the worst.
func overloadFactors() []float64 { return []float64{0.5, 0.8, 1, 1.5, 3, 0.5} }

// runOverload measures more load than the node can carry (G9).
func (b *bench) runOverload(ctx context.Context) (err error) {
	if err := b.start(ctx); err != nil {
		return errors.Join(err, b.stop())
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	report := overloadReport{Setting: b.Setting, Capacity: make(map[string]float64)}
	if err := b.addSlowNode(ctx); err != nil {
		return err
	}
	if err := load.SetApart(b.options(1).Processes); err != nil {
		return err
	}
	for i, database := range []string{fast, slow} {
		node := b.Nodes[i]
		o := b.options(slices.Max(b.Connections))
		if database == slow {
			o = b.options(slowConnections)
		}
		o.Addrs = []string{node.Addr}
		r, err := b.Measure(ctx, database+" capacity", o)
		if err != nil {
			return err
		}
		report.Capacity[database] = r.PerSecond
		for _, factor := range overloadFactors() {
			step, err := b.overload(ctx, node, overloadStep{Database: database, Factor: factor}, r.PerSecond)
			if err != nil {
				return err
			}
			report.Steps = append(report.Steps, step)
		}
	}
	if err := b.printOverload(report.Steps); err != nil {
		return err
	}
	return b.keep("overload", report)
}

// addSlowNode adds a node whose commits take longer, as on a slow disk.
func (b *bench) addSlowNode(ctx context.Context) error {
	u, err := url.Parse(b.Postgres.URL)
	if err != nil {
		return err
	}
	q := u.Query()
	q.Set("commit_delay", strconv.FormatInt(slowBy.Microseconds(), 10))
	q.Set("commit_siblings", "0")
	u.RawQuery = q.Encode()
	return b.addNode(ctx, fleet.Settings{"DATABASE_URL": u.String()})
}

// overload sends an open loop to a node and looks at it meanwhile.
func (b *bench) overload(ctx context.Context, node *fleet.Node, step overloadStep, capacity float64) (overloadStep, error) {
	o := b.options(overloadConnections)
	o.Addrs, o.Rate = []string{node.Addr}, step.Factor*capacity
	answered := new(answeredTarget)
	o.Target = func() load.Target {
		answered.Target = load.NewSpendgate(b.keys)
		return answered
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var watched sync.WaitGroup
	watched.Go(func() { step.watch(watching, node) })
	var err error
	step.Result, err = b.Measure(ctx, fmt.Sprintf("%s x%g", step.Database, step.Factor), o)
	stop()
	watched.Wait()
	if err != nil {
		return step, err
	}
	step.Lost, err = b.Postgres.Missing(ctx, answered.ids)
	return step, err
}

// watch keeps the most that the node takes up.
func (s *overloadStep) watch(ctx context.Context, node *fleet.Node) {
	const every = 250 * time.Millisecond
	for ticker := time.NewTicker(every); ; {
		if resident, err := load.Resident(node.PID()); err == nil {
			s.Resident = max(s.Resident, float64(resident)/(1<<20))
		}
		if answer, err := node.Metrics(ctx); err == nil {
			s.Routines = max(s.Routines, load.ParseMetrics(answer.Body).Sum("go_goroutines"))
		}
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		}
	}
}

// answeredTarget remembers which checks were answered with 200.
type answeredTarget struct {
	load.Target
	ids []string
}

// Judge implements load.Target.
func (t *answeredTarget) Judge(want load.Verdict, head, body []byte) string {
	if id := load.CheckID(body); id != "" {
		t.ids = append(t.ids, id)
	}
	return t.Target.Judge(want, head, body)
}

func (b *bench) printOverload(steps []overloadStep) error {
	w := tabwriter.NewWriter(b.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ndatabase\ttimes\toffered/s\tright/s\tp50 ms\tp99\tmax\trefused/s\tp50 ms\tp99\tother\tlost\tMiB\tgoroutines\t")
	for _, s := range steps {
		r := &s.Result
		fmt.Fprintf(w, "%s\t%g\t%.0f\t%.0f\t%.1f\t%.1f\t%.0f\t%.0f\t%.1f\t%.1f\t%d\t%d\t%.0f\t%.0f\t\n", s.Database, s.Factor,
			r.OfferedRate, r.PerSecond, r.Latency.P50, r.Latency.P99, r.Latency.Max, float64(r.Refused)/r.Seconds, r.Refusal.P50, r.Refusal.P99,
			r.Failures()-r.Refused, s.Lost, s.Resident, s.Routines)
	}
	return w.Flush()
}
