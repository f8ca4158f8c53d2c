// Package redemptions compares the cost of a redemption with that of a check: the processor time
// of the nodes, PostgreSQL and Redis, in rounds of checks at one node, of their redemptions at the
// same node and at another one, and of payments that are checked and redeemed in one request.
package redemptions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

type trial struct {
	*fleet.Fleet
	first, second       *fleet.Node
	agents, executors   []string // API keys
	payers              []string // API keys that check and redeem
	connections, checks int
	serial              int
}

// Run measures both.
func Run(ctx context.Context, c *load.Call) (err error) {
	t := new(trial)
	flags, out := c.Flags, c.Out
	rounds := flags.Int("rounds", 24, "rounds of checks and redemptions")
	flags.IntVar(&t.checks, "checks", 600, "checks of a round")
	flags.IntVar(&t.connections, "connections", 12, "connections")
	binary := flags.String("binary", "spendgate", "in .bin")
	if err := c.Parse(); err != nil {
		return err
	}
	if t.Fleet, err = fleet.StartMeasured(ctx, *binary); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.End()) }()
	if err := t.prepare(ctx); err != nil {
		return err
	}
	var kinds [3]kind
	for i, name := range []string{"same node", "another node", "payment"} {
		kinds[i].name = name
	}
	for round := range *rounds + 1 { // the first one warms
		for i := range kinds {
			checking, measured, err := t.round(ctx, i)
			if err != nil {
				return err
			}
			if round == 0 {
				continue
			}
			if err := kinds[i].add(out, checking, measured); err != nil {
				return err
			}
		}
	}
	for _, k := range kinds {
		if err := k.sum(out); err != nil {
			return err
		}
	}
	return nil
}

// round measures checks and, beside them, one of the three kinds: their redemptions at the same node,
// at another one, or as many payments.
func (t *trial) round(ctx context.Context, kind int) (checking, measured cost, err error) {
	ids := make([]string, t.checks)
	checking, err = t.cost(ctx, t.first, t.agents, func(ctx context.Context, c *fleet.Client, n int) (err error) {
		ids[n], err = t.check(ctx, c, n)
		return err
	})
	if err != nil {
		return checking, measured, err
	}
	if kind == 2 {
		t.serial += t.checks // other actions than those checks
		measured, err = t.cost(ctx, t.first, t.payers, t.pay)
	} else {
		at := []*fleet.Node{t.first, t.second}[kind]
		measured, err = t.cost(ctx, at, t.executors, func(ctx context.Context, c *fleet.Client, n int) error {
			return t.redeem(ctx, c, ids[n], n)
		})
	}
	t.serial += t.checks
	return checking, measured, err
}

// kind is what is compared with checks.
type kind struct {
	name               string
	ratios             []float64
	checking, measured float64
}

func (k *kind) add(out io.Writer, checking, measured cost) error {
	ratio := measured.sum() / checking.sum()
	k.ratios = append(k.ratios, ratio)
	k.checking += checking.sum()
	k.measured += measured.sum()
	_, err := fmt.Fprintf(out, "%-12s  a check %s   beside it %s   %.2f\n", k.name, checking, measured, ratio)
	return err
}

func (k *kind) sum(out io.Writer) error {
	slices.Sort(k.ratios)
	r := k.ratios
	_, err := fmt.Fprintf(out, "%-12s  %.2f of all rounds together, %.2f [%.2f..%.2f] of half of the rounds\n",
		k.name, k.measured/k.checking, r[len(r)/2], r[len(r)/4], r[len(r)*3/4])
	return err
}

func (t *trial) prepare(ctx context.Context) (err error) {
	for _, n := range []**fleet.Node{&t.first, &t.second} {
		if *n, err = t.AddNode(nil); err != nil {
			return err
		}
		if err := (*n).Start(ctx); err != nil {
			return err
		}
	}
	const keys = 64
	for range keys {
		for role, all := range map[string]*[]string{"agent": &t.agents, "executor": &t.executors, "gateway": &t.payers} {
			key, err := t.key(ctx, role)
			if err != nil {
				return err
			}
			*all = append(*all, key)
		}
	}
	author, err := t.key(ctx, "author")
	if err != nil {
		return err
	}
	a, err := t.first.Client(author).Do(ctx, http.MethodPost, "/v1/policies", map[string]any{
		"policy_id": "p", "name": "p", "redeem": "required", "redeem_within_minutes": 60, "rules": []any{
			map[string]any{"rule_id": "cap", "rule_type": "max_amount", "parameters": map[string]any{"limit": 500, "currency": "USD"}},
			map[string]any{"rule_id": "repeats", "rule_type": "duplicate_guard", "parameters": map[string]any{"window_minutes": 5}},
		},
	})
	if err == nil && a.Status != http.StatusCreated {
		err = errors.New(a.String())
	}
	return err
}

func (t *trial) key(ctx context.Context, role string) (string, error) {
	a, err := t.first.Admin(t.AdminKey).Do(ctx, http.MethodPost, "/v1/keys",
		map[string]any{"name": role, "role": role, "principal": role, "rate_limit_rpm": 10_000})
	_, key, _ := strings.Cut(string(a.Body), `"api_key":"`)
	key, _, found := strings.Cut(key, `"`)
	if err == nil && !found {
		err = errors.New(a.String())
	}
	return key, err
}

func (t *trial) action(n int) map[string]any {
	return map[string]any{
		"agent_id": fmt.Sprint("agent-", n%200), "policy_id": "p", "action_type": "refund", "amount": 12.5, "currency": "USD",
		"counterparty": fmt.Sprint("charge-", t.serial+n), "metadata": map[string]any{"order": fmt.Sprint("A-", n), "country": "de"},
	}
}

func (t *trial) check(ctx context.Context, c *fleet.Client, n int) (id string, err error) {
	action := t.action(n)
	action["idempotency_key"] = fmt.Sprint("idem-", t.serial+n)
	a, err := c.Do(ctx, http.MethodPost, "/v1/checks", action)
	if r := a.Result(); err == nil && r.Decision == "allow" {
		return r.CheckID, nil
	}
	return "", errors.Join(err, errors.New(a.String()))
}

func (t *trial) redeem(ctx context.Context, c *fleet.Client, id string, n int) error {
	action := t.action(n)
	action["idempotency_key"] = fmt.Sprint("redeem-", t.serial+n)
	a, err := c.Do(ctx, http.MethodPost, "/v1/checks/"+id+"/redeem", action)
	if err == nil && a.Status != http.StatusOK {
		err = errors.New(a.String())
	}
	return err
}

// pay checks and redeems in one request.
func (t *trial) pay(ctx context.Context, c *fleet.Client, n int) error {
	action := t.action(n)
	action["payment_key"] = fmt.Sprint("payment-", t.serial+n)
	action["redeem"] = fmt.Sprintf("nonce-%016d", t.serial+n)
	a, err := c.Do(ctx, http.MethodPost, "/v1/checks", action)
	if err == nil && !bytes.Contains(a.Body, []byte(`"proceed":true`)) {
		err = errors.New(a.String())
	}
	return err
}

// cost is the processor time of one request, in microseconds, and how many a commit had.
type cost struct{ nodes, postgres, redis, commit float64 }

func (c cost) sum() float64 { return c.nodes + c.postgres + c.redis }

func (c cost) String() string {
	return fmt.Sprintf("%4.0f us (nodes %4.0f, postgres %4.0f, redis %3.0f; %.1f a commit)", c.sum(), c.nodes, c.postgres, c.redis, c.commit)
}

// cost sends a round of requests and returns what each took.
func (t *trial) cost(
	ctx context.Context, at *fleet.Node, keys []string, send func(context.Context, *fleet.Client, int) error,
) (c cost, err error) {
	before, err := t.used()
	begun, metricsErr := metricsOf(ctx, at)
	if err = errors.Join(err, metricsErr); err != nil {
		return c, err
	}
	next, mu := 0, sync.Mutex{}
	var failed error
	var all sync.WaitGroup
	for range t.connections {
		all.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				stop := n >= t.checks || failed != nil
				mu.Unlock()
				if stop {
					return
				}
				if err := send(ctx, at.Client(keys[n%len(keys)]), n); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	after, err := t.used()
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(t.checks) }
	ended, metricsErr := metricsOf(ctx, at)
	commits := ended.Since(begun, "spendgate_audit_commit_batch_size_count")
	c = cost{each(after[0] - before[0]), each(after[1] - before[1]), each(after[2] - before[2]), float64(t.checks) / commits}
	return c, errors.Join(failed, err, metricsErr)
}

// metricsOf returns a node's metrics.
func metricsOf(ctx context.Context, n *fleet.Node) (load.Metrics, error) {
	a, err := n.Metrics(ctx)
	return load.ParseMetrics(a.Body), err
}

// used is what nodes, PostgreSQL and Redis have used so far.
func (t *trial) used() (u [3]time.Duration, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return u, err
	}
	of := map[int]int{t.first.PID(): 0, t.second.PID(): 0, t.Postgres.PID(): 1, t.Redis.PID(): 2}
	for _, p := range all {
		s, err := p.Stat()
		if err != nil {
			continue // it has just ended
		}
		i, known := of[p.PID]
		if !known {
			i, known = of[s.PPID]
		}
		if !known {
			continue
		}
		var clock unix.Timespec // counts nanoseconds, where s counts hundredths of a second
		if err := unix.ClockGettime(int32(^p.PID<<3|2), &clock); err == nil {
			u[i] += time.Duration(clock.Nano())
		}
	}
	return u, nil
}
