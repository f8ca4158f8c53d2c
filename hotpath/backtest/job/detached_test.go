package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/postgres"
	"spendgate/audit/postgres/detach"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath/backtest/job"
)

// amidst is a store from which something happens around the first page that is read.
type amidst struct {
	*postgres.Store
	before, behind func()
}

func (a *amidst) PageHistory(ctx context.Context, q audit.HistoryQuery) (audit.HistoryPage, error) {
	if a.before != nil {
		a.before()
	}
	page, err := a.Store.PageHistory(ctx, q)
	if a.behind != nil {
		a.behind()
	}
	return page, err
}

// A day that leaves the tables before a backtest or while it runs, whenever that is, is read from its
// archive, with the same result to the byte, or is among the missing days: no row is left out in silence (S53).
func TestDetachedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		before, behind, atHand bool
		lost                   bool // the rows of the first day's archive, not its manifest
		compared               int64
		missing                int
	}{
		"before it began":              {true, false, true, false, 6, 0},
		"before the page":              {false, false, true, false, 6, 0},
		"behind the page":              {false, true, true, false, 6, 0},
		"without archives":             {false, false, false, false, 1, 2},
		"without archives, after that": {false, true, false, false, 1, 2},
		"with a manifest alone":        {true, false, true, true, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			url, dir := fleet.TestMigrated(t, postgres.Migrate), t.TempDir()
			first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -12)
			store := recordDays(t, url, first)
			endApprovals(t, url)
			whole := runBacktest(t, store, job.Options{Store: store, Logger: slog.New(slog.DiscardHandler)}, first)
			detach := sync.OnceFunc(func() {
				must.Check(t, detach.Checks(t.Context(), detach.Options{
					URL: url, Dir: dir, Before: first.AddDate(0, 0, 2), Now: time.Now(),
					Report: func(detach.Detached) {}, Found: func(verify.Finding) {},
				}))
			})
			o := job.Options{Store: &amidst{Store: store, before: detach}, Logger: slog.New(slog.DiscardHandler)}
			if c.behind {
				o.Store = &amidst{Store: store, behind: detach}
			}
			if c.before {
				detach()
			}
			if c.lost {
				must.Do(t, os.Remove(filepath.Join(dir, "checks-"+first.Format(time.DateOnly)+".jsonl.gz")))
			}
			if c.atHand {
				o.Archives = dir
			}
			text := runBacktest(t, store, o, first)
			var r struct {
				Coverage struct {
					Compared int64    `json:"compared"`
					Missing  []string `json:"missing_days"`
				} `json:"coverage"`
			}
			if err := json.Unmarshal([]byte(text), &r); err != nil || r.Coverage.Compared != c.compared || len(r.Coverage.Missing) != c.missing {
				t.Error(text, err)
			}
			if c.atHand && !c.lost && text != whole {
				t.Errorf("%s, and from the tables %s", text, whole)
			}
		})
	}
}

// endApprovals lets the time of all approvals be over, so that their days may leave.
func endApprovals(t *testing.T, url string) {
	t.Helper()
	db := must.Get(pgx.Connect(t.Context(), url))(t)
	defer db.Close(t.Context()) //nolint:errcheck // nothing is in progress
	must.Get(db.Exec(t.Context(), "UPDATE approval_deadlines SET at = now()"))(t)
}

// unanswered is a store of whose days the second is archived, and that knows nothing of approvals.
type unanswered struct {
	*postgres.Store
	second time.Time
}

func (u *unanswered) ArchivedDays(_ context.Context, _, to time.Time) ([]audit.ArchivedDay, error) {
	if to.Before(u.second) {
		return nil, nil
	}
	return []audit.ArchivedDay{{Day: u.second}}, nil
}

func (u *unanswered) HistoryApprovals(context.Context, []spend.ID) ([]*audit.Approval, error) {
	return nil, errors.New("no approvals")
}

// A day that cannot be read before an archived day fails the backtest, which does not wait for it
// to be archived.
func TestFailsBeforeArchivedDay(t *testing.T) {
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -12)
	store := recordDays(t, fleet.TestMigrated(t, postgres.Migrate), first)
	o := job.Options{Store: &unanswered{store, first.AddDate(0, 0, 1)}, Logger: slog.New(slog.DiscardHandler)}
	if b := endOfBacktest(t, store, o, first); b.Status != audit.BacktestFailed {
		t.Errorf("%+v", b)
	}
}

// runBacktest runs the version in force over its checks, and returns the report.
func runBacktest(t *testing.T, store *postgres.Store, o job.Options, from time.Time) string {
	t.Helper()
	b := endOfBacktest(t, store, o, from)
	if b.Status != audit.BacktestSucceeded {
		t.Fatal(b.Error)
	}
	return b.Report
}

func endOfBacktest(t *testing.T, store *postgres.Store, o job.Options, from time.Time) *audit.Backtest {
	t.Helper()
	b := &audit.Backtest{
		ID: spend.NewID(time.Now()), PolicyID: "p", Version: 1, From: from, KeyID: "key_1", Principal: "ann",
		Status: audit.BacktestQueued, CreatedAt: time.Now(),
	}
	b.To = from.AddDate(0, 0, 13) // of several the same
	must.Do(t, store.CreateBacktest(t.Context(), b))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { job.New(o).Run(ctx) })
	defer running.Wait()
	defer stop()
	for range 2400 {
		got := must.Get(store.Backtest(t.Context(), b.ID))(t)
		if got.Status.Ended() {
			return got
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal("it does not end")
	return nil
}

// recordDays commits checks of two old days, one of which asks people, and asks again after the
// approval expired, and a check of today.
func recordDays(t *testing.T, url string, first time.Time) *postgres.Store {
	t.Helper()
	store := must.Get(postgres.Open(t.Context(), postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: true}))(t)
	t.Cleanup(store.Close)
	db, err := pgx.Connect(t.Context(), url)
	must.Do(t, err)
	defer db.Close(t.Context()) //nolint:errcheck // nothing is in progress
	for d := range 2 {
		must.Get(db.Exec(t.Context(), "SELECT make_partition('"+first.AddDate(0, 0, d).Format(time.DateOnly)+"')"))(t)
	}
	p := &audit.Policy{PolicyID: "p", Name: "n"}
	p.Rules = `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":50,"approval":{"expires_minutes":60}}},
		{"rule_id":"guard","rule_type":"duplicate_guard","parameters":{"window_minutes":180}}]`
	must.Do(t, store.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, first.AddDate(0, 0, -1)))
	fence := spend.Fence{Node: spend.NewID(time.Now())}
	if fence.Epoch, err = store.Epoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	var checks []*spend.Check
	for i, at := range []time.Time{
		first.Add(time.Hour), first.Add(2 * time.Hour), first.Add(3 * time.Hour), first.Add(4 * time.Hour), first.Add(25 * time.Hour),
		time.Now().Add(-time.Second),
	} {
		c := &spend.Check{
			ID: spend.NewID(at), ActionType: spend.Refund, Fingerprint: spend.Hash{byte(i)}, Fence: fence, KeyID: "key_1",
			Action:   spend.Action{AgentID: "a", PolicyID: "p", Type: spend.Refund, Currency: "USD", Counterparty: "c"},
			Decision: spend.Decision{PolicyVersion: 1},
			Pass:     spend.Pass{ClaimedMS: at.UnixMilli(), UntilMS: at.Add(3 * time.Hour).UnixMilli()},
		}
		c.Action.Amount, _ = spend.ParseAmount("40")
		if i == 1 || i == 3 {
			c.Fingerprint = spend.Hash{1}
			c.Action.Amount, _ = spend.ParseAmount("60")
			c.Decision = spend.Decision{
				Effect: spend.Escalate, Reason: spend.ReasonEscalationThreshold, RuleID: "ask", RuleDescription: "asks", PolicyVersion: 1,
			}
			c.Approval = &spend.ApprovalRequest{
				Required: 1, Expires: time.Hour, UseWithin: time.Hour, Rules: []spend.EscalatedRule{{RuleID: "ask"}},
			}
		}
		checks = append(checks, c)
	}
	must.Do(t, store.Commit(t.Context(), checks, nil, audittest.Link(1, checks...)))
	must.Get(db.Exec(t.Context(), `SET session_replication_role = replica`))(t)
	must.Get(db.Exec(t.Context(), "UPDATE approvals SET created_at = $1, expires_at = $1::timestamptz + interval '1 hour' WHERE id = $2",
		checks[1].Timestamp(), [16]byte(checks[1].ID)))(t)
	return store
}
