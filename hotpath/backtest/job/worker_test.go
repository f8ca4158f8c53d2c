package job_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/postgres"
	"spendgate/bench/fleet"
	"spendgate/hotpath/backtest/job"
)

// One that is canceled while it runs has no report, and the next one need not wait for its lease (S53).
func TestCanceledMeanwhile(t *testing.T) {
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -12)
	store := recordDays(t, fleet.TestMigrated(t, postgres.Migrate), first)
	o := job.Options{Logger: slog.New(slog.DiscardHandler)}
	o.Store = &amidst{Store: store, behind: sync.OnceFunc(func() {
		running, _, err := store.ListBacktests(t.Context(), audit.BacktestQuery{Status: audit.BacktestRunning, Limit: 2})
		if err != nil || len(running) != 1 {
			t.Error(running, err)
			return
		}
		if b, err := store.CancelBacktest(t.Context(), running[0].ID); err != nil || b.Status != audit.BacktestCanceled {
			t.Error(b, err)
		}
	})}
	canceled := endOfBacktest(t, store, o, first)
	runBacktest(t, store, o, first)
	if b, err := store.Backtest(t.Context(), canceled.ID); err != nil || b.Status != audit.BacktestCanceled || b.Report != "" {
		t.Errorf("%+v, %v", b, err)
	}
}
