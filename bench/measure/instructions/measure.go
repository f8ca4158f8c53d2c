package instructions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

type measurement struct {
	plan
	counter counter
	out     io.Writer
}

// cost is what a check takes.
type cost struct{ node, postgres float64 }

func (m *measurement) run(ctx context.Context) error {
	costs := make(map[string][]cost)
	for range m.rounds {
		for _, build := range m.builds {
			c, err := m.measure(ctx, build)
			if err != nil {
				return fmt.Errorf("%s: %w", build, err)
			}
			costs[build] = append(costs[build], c)
			if _, err := fmt.Fprintf(m.out, "%-12s node %9.0f   postgres %9.0f\n", build, c.node, c.postgres); err != nil {
				return err
			}
		}
	}
	first := m.builds[0]
	for _, build := range m.builds[1:] {
		_, err := fmt.Fprintf(m.out, "%s / %s: node %s   postgres %s\n", build, first,
			ratio(costs[build], costs[first], func(c cost) float64 { return c.node }),
			ratio(costs[build], costs[first], func(c cost) float64 { return c.postgres }))
		if err != nil {
			return err
		}
	}
	return nil
}

// ratio returns the median of the rounds' ratios, and their extremes.
func ratio(costs, first []cost, part func(cost) float64) string {
	var all []float64
	for i := range costs {
		all = append(all, part(costs[i])/part(first[i]))
	}
	slices.Sort(all)
	return fmt.Sprintf("%.3f [%.3f..%.3f]", all[len(all)/2], all[0], all[len(all)-1])
}

// agents are few, so that the counter of each one's budget is made before checks are counted.
const agents = 64

// trial are the servers of one build.
type trial struct {
	*measurement
	budgeted bool // each policy has a budget for each agent
	pays     bool // each check is of a payment
	frozen   bool // freezes are active
	fleet    *fleet.Fleet
	node     *fleet.Node // the node whose instructions are counted
	told     *fleet.Node // the node whose statements are recorded
	recorded *recording
	sequence load.Sequence
}

// measure counts what a build takes: the node first, beside a PostgreSQL at full
// speed, then PostgreSQL, which is told what a node at full speed said.
func (m *measurement) measure(ctx context.Context, build string) (c cost, err error) {
	name, frozen := strings.CutSuffix(build, freezes)
	name, budgeted := strings.CutSuffix(name, budgets)
	name, pays := strings.CutSuffix(name, payments)
	binary, err := filepath.Abs(filepath.Join(".bin", name))
	if err != nil {
		return c, err
	}
	f, err := fleet.Start(ctx, fleet.Options{
		Binary: binary, Settings: fleet.Settings{"LOG_LEVEL": "warn"},
		// What works by the clock counts as little as it may.
		Postgres: []string{"autovacuum=off", "checkpoint_timeout=1h", "max_wal_size=8GB", "shared_buffers=256MB"},
	})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	workload := load.DefaultWorkload(1)
	workload.Agents = agents
	t := &trial{measurement: m, budgeted: budgeted, pays: pays, frozen: frozen, fleet: f, sequence: load.Sequence{Workload: workload}}
	if err := t.prepare(ctx); err != nil {
		return c, err
	}
	if c.node, err = t.countNode(ctx); err != nil {
		return c, err
	}
	c.postgres, err = t.countPostgres(ctx)
	return c, err
}

// prepare starts the node and makes keys and policies, with what the build's name says.
func (t *trial) prepare(ctx context.Context) (err error) {
	u, err := url.Parse(t.fleet.Postgres.URL)
	if err != nil {
		return err
	}
	if t.recorded, err = newRecording(u.Host); err != nil {
		return err
	}
	u.Host = t.recorded.listener.Addr().String()
	if t.told, err = t.fleet.AddNode(fleet.Settings{"DATABASE_URL": u.String()}); err != nil {
		return err
	}
	if t.node, err = t.fleet.AddNode(nil); err != nil {
		return err
	}
	if err := t.node.Start(ctx); err != nil {
		return err
	}
	deployment := load.Deployment{URL: t.node.API, AdminKey: t.fleet.AdminKey}
	var more []map[string]any
	if t.budgeted {
		more = append(more, map[string]any{"rule_id": "budget", "rule_type": "budget", "parameters": map[string]any{
			"limit": 1_000_000_000, "currency": "USD", "per": []string{"agent_id"}, "window": "day",
		}})
	}
	keys, err := deployment.Prepare(ctx, t.sequence.Workload, more...)
	if err != nil {
		return err
	}
	if t.pays {
		if keys, err = deployment.PayingKeys(ctx, t.sequence.Workload); err != nil {
			return err
		}
	}
	if t.frozen {
		if err := deployment.Freeze(ctx, active); err != nil {
			return err
		}
	}
	target := load.NewSpendgate(keys)
	target.Pays = t.pays
	t.sequence.Target = target
	return t.node.End()
}

const (
	warmup       = 256 // checks before any are counted
	mostFailures = 50
)

// idle is how long a node is counted that nobody asks.
const idle = 10 * time.Second

// countNode runs the node under the counter. What a node does by the clock is counted
// beside it, and taken off: a slow emulator has more of it a check.
func (t *trial) countNode(ctx context.Context) (float64, error) {
	t.node.Under(t.counter.under...)
	if err := t.node.Start(ctx); err != nil {
		return 0, err
	}
	if err := t.warm(ctx, t.node); err != nil {
		return 0, err
	}
	var took time.Duration
	busy, err := t.count(ctx, func() error {
		began := time.Now()
		defer func() { took = time.Since(began) }()
		return t.send(ctx, t.node, t.checks)
	})
	if err != nil {
		return 0, err
	}
	alone, err := t.count(ctx, func() error {
		time.Sleep(idle)
		return nil
	})
	// The emulator does not survive the signal to end.
	return (busy - alone*took.Seconds()/idle.Seconds()) / float64(t.checks), errors.Join(err, t.node.Kill())
}

// count returns what the node executes during f.
func (t *trial) count(ctx context.Context, f func() error) (float64, error) {
	end, err := t.counter.begin(ctx, []int{t.node.PID()})
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	n, err := end()
	return float64(n), err
}

// countPostgres records what a node says and replays it to the same data.
func (t *trial) countPostgres(ctx context.Context) (float64, error) {
	db := t.fleet.Postgres
	if err := errors.Join(db.Shutdown(), db.Keep(ctx), db.Start(ctx)); err != nil {
		return 0, err
	}
	t.recorded.take()
	if err := t.told.Start(ctx); err != nil {
		return 0, err
	}
	if err := t.warm(ctx, t.told); err != nil {
		return 0, err
	}
	before := t.recorded.take()
	if err := t.send(ctx, t.told, t.checks); err != nil {
		return 0, err
	}
	counted := t.recorded.take()
	if err := errors.Join(t.told.End(), db.Shutdown(), db.PutBack()); err != nil {
		return 0, err
	}
	db.Under(t.counter.under...)
	if err := db.Start(ctx); err != nil {
		return 0, err
	}
	r := newReplay(t.recorded.server)
	defer r.close()
	who := recorders(before)
	if len(who) == 0 {
		return 0, errors.New("no session commits checks")
	}
	if err := r.say(before, who); err != nil {
		return 0, err
	}
	counted = slices.DeleteFunc(counted, func(e exchange) bool { return !slices.Contains(who, e.conn) })
	n, err := t.countReplay(ctx, r, who, counted)
	return float64(n) / float64(t.checks), err
}

// countReplay returns what the sessions that commit checks execute.
func (t *trial) countReplay(ctx context.Context, r *replay, who []int, said []exchange) (uint64, error) {
	pids := make([]int, len(who))
	for i, conn := range who {
		pids[i] = r.pids[conn]
	}
	if t.counter.sinceMark != nil {
		if err := errors.Join(r.mark(who), r.say(said, who)); err != nil {
			return 0, err
		}
		r.close()
		return t.counter.sinceMark(pids)
	}
	end, err := t.counter.begin(ctx, pids)
	if err != nil {
		return 0, err
	}
	if err := r.say(said, who); err != nil {
		return 0, err
	}
	return end()
}

// warm sends checks until so many in a row were answered well, as an emulated node does not
// answer its first ones in time.
func (t *trial) warm(ctx context.Context, to *fleet.Node) error {
	for failures := 0; ; failures++ {
		err := t.send(ctx, to, warmup)
		if err == nil || failures == mostFailures {
			return err
		}
	}
}

// send sends checks, a batch at a time, and waits for the answers.
func (t *trial) send(ctx context.Context, to *fleet.Node, checks int) (err error) {
	s := &t.sequence
	if err := s.Connect(ctx, to.Addr, t.batch); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for range checks / t.batch {
		if err := s.Round(); err != nil {
			return fmt.Errorf("%w\n%s", err, to.Log())
		}
	}
	return nil
}
