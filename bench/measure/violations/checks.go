package violations

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"spendgate/audit"
	"spendgate/audit/postgres"
	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

//go:embed checks.sql
var generateChecks string

// recordedDays are those over which the checks are spread.
const recordedDays = 31

// recordedRules are those that decided the checks as checks.sql has them.
const recordedRules = `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":500}},
	{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":400}},
	{"rule_id":"twice","rule_type":"duplicate_guard","parameters":{"window_minutes":5}},
	{"rule_id":"day","rule_type":"budget","parameters":{"limit":1000000,"currency":"USD","per":["agent_id"],"window":"day"}}]`

// recorded is a node over a database of generated checks.
type recorded struct {
	out         io.Writer
	node        *fleet.Node
	key         string
	first, last time.Time
}

// measureChecks loads checks and prints what reading them takes.
func measureChecks(ctx context.Context, out io.Writer, rows int) (err error) {
	if err := fleet.Install(ctx, os.Stderr, "redis-server", "postgresql"); err != nil {
		return err
	}
	binary, err := filepath.Abs(filepath.Join(".bin", "spendgate"))
	if err != nil {
		return err
	}
	f, err := fleet.Start(ctx, fleet.Options{Binary: binary, Settings: fleet.Settings{"LOG_LEVEL": "warn"}, Postgres: fleet.AdvisedSettings()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	r := &recorded{out: out, first: today.AddDate(0, 0, -recordedDays), last: today.Add(-time.Millisecond)}
	if err := r.load(ctx, f.Postgres, rows); err != nil {
		return err
	}
	if r.node, err = f.AddNode(nil); err != nil {
		return err
	}
	if err := f.StartNodes(ctx); err != nil {
		return err
	}
	if _, r.key, err = r.node.Admin(f.AdminKey).CreateKey(ctx, "bench", 10_000); err != nil {
		return err
	}
	if err := r.read(ctx); err != nil {
		return err
	}
	for _, rules := range []string{recordedRules, strings.NewReplacer("500", "300", "1000000", "400").Replace(recordedRules)} {
		if err := r.backtest(ctx, rules); err != nil {
			return err
		}
	}
	return nil
}

// load makes the policies, an hour before their first checks, and these.
func (r *recorded) load(ctx context.Context, p *fleet.Postgres, rows int) error {
	store, err := postgres.Open(ctx, postgres.Options{URL: p.URL, Logger: slog.New(slog.DiscardHandler), Migrate: true})
	if err != nil {
		return err
	}
	defer store.Close()
	for _, id := range []string{"refunds", "spending"} {
		made := &audit.Policy{PolicyID: id, Name: id, Rules: recordedRules}
		if err := store.CreatePolicy(ctx, audit.Actor{}, made, audit.NewBudgets{}, r.first.Add(-time.Hour)); err != nil {
			return err
		}
	}
	begun := time.Now()
	conn, err := p.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, statement := range []string{
		generateChecks, fmt.Sprintf("CALL generate_checks(%d, %d, %d)", r.first.UnixMilli(), recordedDays, rows), "VACUUM ANALYZE",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("cannot load checks: %w", err)
		}
	}
	_, err = fmt.Fprintf(r.out, "%d checks of %d days, loaded in %.0f s\n", rows, recordedDays, time.Since(begun).Seconds())
	return err
}

// read measures statistics and listings, as clients have them.
func (r *recorded) read(ctx context.Context) error {
	month := fmt.Sprintf("from=%s&to=%s", r.first.Format(time.DateOnly), r.last.Format(time.DateOnly))
	for _, path := range []string{
		"stats?step=minute&" + month, "stats?step=hour&" + month, "stats?step=day&" + month, "stats?step=minute&policy_id=refunds&" + month,
		"sums?" + month,
		"checks?limit=100", "checks?limit=100&agent_id=agent-5", "checks?limit=100&agent_id=nobody", "checks?limit=100&outcome=executed",
		"checks?limit=100&counterparty=nobody&" + month,
	} {
		var took []time.Duration
		for range rounds / 10 {
			begun := time.Now()
			a, err := r.node.Client(r.key).Do(ctx, http.MethodGet, "/v1/"+path, nil)
			if err != nil {
				return err
			}
			if a.Status != http.StatusOK {
				return fmt.Errorf("%s: %s", path, a)
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		median, most := took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds()
		if _, err := fmt.Fprintf(r.out, "%5d ms, %5d ms at most  GET /v1/%s\n", median, most, path); err != nil {
			return err
		}
	}
	return nil
}

// backtest replays everything by these rules.
func (r *recorded) backtest(ctx context.Context, rules string) error {
	before, err := r.cpu()
	if err != nil {
		return err
	}
	client := r.node.Client(r.key)
	a, err := client.Do(ctx, http.MethodPost, "/v1/backtests", map[string]any{
		"policy_id": "refunds", "rules": json.RawMessage(rules), "from": r.first.Format(time.RFC3339), "to": r.last.Format(time.RFC3339),
	})
	var b struct {
		BacktestID string `json:"backtest_id"`
		Status     string `json:"status"`
		Report     struct {
			Coverage json.RawMessage `json:"coverage"`
			Flips    json.RawMessage `json:"flips"`
		} `json:"report"`
		Progress struct {
			Checks float64 `json:"checks"`
		} `json:"progress"`
	}
	begun, most := time.Now(), int64(0)
	for err == nil {
		if err := json.Unmarshal(a.Body, &b); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		if b.Status != "queued" && b.Status != "running" {
			break
		}
		time.Sleep(time.Second / 2)
		resident, failed := load.Resident(r.node.PID())
		if failed != nil {
			return failed
		}
		most = max(most, int64(resident))
		a, err = client.Do(ctx, http.MethodGet, "/v1/backtests/"+b.BacktestID, nil)
	}
	if err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	after, err := r.cpu()
	if err != nil {
		return err
	}
	checks := b.Progress.Checks
	_, err = fmt.Fprintf(r.out, "backtest: %s, %.0f checks in %.1f s, %.0f/s, %.0f/s of one core of the node; %d MB at most\n  %s\n  %s\n",
		b.Status, checks, took, checks/took, checks/(after-before), most>>20, b.Report.Coverage, b.Report.Flips)
	return err
}

// cpu returns the processor time of the node, in seconds.
func (r *recorded) cpu() (float64, error) {
	p, err := procfs.NewProc(r.node.PID())
	if err != nil {
		return 0, err
	}
	s, err := p.Stat()
	return s.CPUTime(), err
}
