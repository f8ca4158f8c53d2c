package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/bench/load"
)

// The policies of the budgets, behind the policies of the workload, which have no budgets. Each
// judges the workload's actions as these do: nothing but a hammered budget is ever
// exhausted.
const (
	budgetAgents = 10_000
	perAgent     = 10 // the first of as many as the workload has
	sharedPolicy = 20 // one counter for all
	fullPolicy   = 21 // no room, for anybody
)

// budgetsReport is what budgets.json holds.
type budgetsReport struct {
	compared
	Sharing sharing `json:"sharing_of_one_counter"`
	// Lost is by how much the counter that all checks took from differs from the
	// amounts of the recorded allows, in dollars.
	Lost string `json:"one_counter_differs_by"`
}

// compared are runs, each beside the first of its rounds.
type compared struct {
	load.Setting
	Summary []load.Summary `json:"summary"`
	Runs    []load.Result  `json:"runs"`
}

// runBudgets measures what budgets cost (bars of control.md).
func (b *bench) runBudgets(ctx context.Context) (err error) {
	b.Workload.Agents = budgetAgents
	if err := b.start(ctx); err != nil {
		return errors.Join(err, b.stop())
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.makeBudgets(ctx); err != nil {
		return err
	}
	report := budgetsReport{compared: compared{Setting: b.Setting}}
	for _, measure := range []func(context.Context, *budgetsReport) error{b.budgetPerAgent, b.hammeredBudget, b.sharedBudget} {
		if err := measure(ctx, &report); err != nil {
			return err
		}
	}
	if err := load.WriteSummaries(b.Out, report.Summary); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(b.Out, "\none counter: %.1f checks a commit; it differs from the record by %s\n", report.Sharing.Commit,
		report.Lost); err != nil {
		return err
	}
	return b.keep("budgets", report)
}

func (b *bench) makeBudgets(ctx context.Context) error {
	deployment := load.Deployment{URL: b.Nodes[0].API, AdminKey: b.AdminKey}
	policy := func(i int, parameters map[string]any) error {
		parameters["window"] = "day"
		return deployment.MakePolicy(ctx, b.keys[0], i, map[string]any{"rule_id": "budget", "rule_type": "budget", "parameters": parameters})
	}
	var failures []error
	for i := range b.Workload.Policies {
		failures = append(failures, policy(perAgent+i, map[string]any{"limit": 1_000_000_000, "currency": "USD", "per": []string{"agent_id"}}))
	}
	failures = append(failures,
		policy(sharedPolicy, map[string]any{"limit": 1_000_000_000, "currency": "USD"}),
		policy(fullPolicy, map[string]any{"max_count": 0}))
	return errors.Join(failures...)
}

// judgedBy returns the options of a run whose actions other policies judge.
func (b *bench) judgedBy(connections int, policy func(own int) int) load.Options {
	o := b.options(connections)
	o.Target = func() load.Target {
		return &changedTarget{load.NewSpendgate(b.keys), func(a *load.Action) { a.Policy = policy(a.Policy) }}
	}
	return o
}

func only(policy int) func(int) int { return func(int) int { return policy } }

// rounds alternates runs and summarises each beside the first.
func (b *bench) rounds(
	ctx context.Context, report *compared, names []string, run func(context.Context, string) (load.Result, error),
) error {
	results := make([][]load.Result, len(names))
	for range b.Rounds {
		for i, name := range names {
			r, err := run(ctx, name)
			if err != nil {
				return err
			}
			results[i] = append(results[i], r)
			report.Runs = append(report.Runs, r)
		}
	}
	report.Summary = append(report.Summary, load.Summarise(results[0]))
	for _, other := range results[1:] {
		report.Summary = append(report.Summary, load.Summarise(other, results[0]))
	}
	return nil
}

// budgetPerAgent: the same load with a budget for each agent and without. All
// agents have spent before: a counter is made once a window.
func (b *bench) budgetPerAgent(ctx context.Context, report *budgetsReport) error {
	first := b.judgedBy(slices.Max(b.Connections), func(own int) int { return perAgent + own })
	first.Duration, first.Requests = time.Minute, 4*budgetAgents
	if _, err := b.Measure(ctx, "counters are made", first); err != nil {
		return err
	}
	for _, connections := range b.Connections {
		plain, budget := fmt.Sprint("no budget ", connections), fmt.Sprint("per agent ", connections)
		err := b.rounds(ctx, &report.compared, []string{plain, budget}, func(ctx context.Context, name string) (load.Result, error) {
			o := b.options(connections)
			if name == budget {
				o = b.judgedBy(connections, func(own int) int { return perAgent + own })
			}
			return b.Measure(ctx, name, o)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sharedBudget: three nodes, and one counter from which all of their checks take.
func (b *bench) sharedBudget(ctx context.Context, report *budgetsReport) error {
	for len(b.Nodes) < 3 {
		if err := b.addNode(ctx, nil); err != nil {
			return err
		}
	}
	connections := slices.Max(b.Connections)
	const plain, counter = "3 nodes, one policy", "3 nodes, one counter"
	err := b.rounds(ctx, &report.compared, []string{plain, counter}, func(ctx context.Context, name string) (load.Result, error) {
		o := b.judgedBy(connections, only(0))
		if name == counter {
			o = b.judgedBy(connections, only(sharedPolicy))
		}
		before, err := b.metrics(ctx)
		if err != nil {
			return load.Result{}, err
		}
		r, err := b.Measure(ctx, name, o)
		if err != nil {
			return r, err
		}
		after, err := b.metrics(ctx)
		report.Sharing = sharingOf(before, after)
		return r, err
	})
	if err != nil {
		return err
	}
	return b.Postgres.Pool.QueryRow(ctx, `SELECT ((SELECT coalesce(sum(amount), 0) FROM checks WHERE policy_id = $1 AND decision = 'a')
		- (SELECT coalesce(sum(used), 0) FROM budget_counters WHERE policy_id = $1))::text`, load.PolicyID(sharedPolicy)).Scan(&report.Lost)
}

// hammeredBudget: ordinary load, beside clients that go on after their budget is
// exhausted, and beside ones that another rule blocks.
func (b *bench) hammeredBudget(ctx context.Context, report *budgetsReport) error {
	const hammers = 16
	connections := b.Connections[0]
	capacity, err := b.Measure(ctx, "capacity", b.options(connections))
	if err != nil {
		return err
	}
	const blocked, exhausted = "beside blocked", "beside exhausted"
	return b.rounds(ctx, &report.compared, []string{blocked, exhausted}, func(ctx context.Context, name string) (load.Result, error) {
		others := b.options(connections)
		others.Rate = capacity.PerSecond / 3
		offend := func(a *load.Action) { a.Policy = fullPolicy }
		if name == blocked {
			offend = func(a *load.Action) { a.Cents = 1_000_000 } // above every cap
		}
		hammer := b.options(hammers)
		hammer.Target = func() load.Target { return &hotTarget{changedTarget{load.NewSpendgate(b.keys), offend}} }
		hammer.Rate = capacity.PerSecond / 3
		hammer.FirstSerial = b.Serial + 100_000_000 // of its own
		done := make(chan error, 1)
		go func() {
			_, err := load.Run(ctx, hammer)
			done <- err
		}()
		r, err := b.Measure(ctx, name, others)
		return r, errors.Join(err, <-done)
	})
}

// changedTarget changes actions before they are sent.
type changedTarget struct {
	load.Target
	change func(*load.Action)
}

// AppendRequest implements load.Target.
func (t *changedTarget) AppendRequest(dst []byte, a *load.Action) []byte {
	t.change(a)
	return t.Target.AppendRequest(dst, a)
}

// hotTarget changes actions, and takes any decision about them.
type hotTarget struct{ changedTarget }

// Judge implements load.Target.
func (t *hotTarget) Judge(load.Verdict, []byte, []byte) string { return "" }
