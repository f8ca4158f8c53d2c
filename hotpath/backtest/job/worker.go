package job

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"spendgate/audit"
	"spendgate/audit/pause"
	"spendgate/audit/spend"
)

const (
	// leaseFor is how long the backtest of a killed node is kept from other nodes.
	leaseFor = 30 * time.Second
	// holdEvery is how often a lease is renewed, and progress recorded.
	holdEvery = time.Second
	// lookEvery is how often a node looks for a backtest without a lease.
	lookEvery = time.Second
	// storeTimeout bounds one question to the store.
	storeTimeout = 10 * time.Second
	// maxAttempts is how often one is begun: whatever kills nodes is not tried for ever.
	maxAttempts   = 3
	complainEvery = time.Minute
)

// Store is the part of audit.Store that a Worker uses.
type Store interface {
	audit.Backtests
	audit.History
	audit.Policies
	audit.BudgetGrants
	audit.Changes
	Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error)
}

// Options configure a Worker.
type Options struct {
	Store Store
	// Archives is the folder with the archives of days; empty if there is none.
	Archives string
	// Busy reports whether the node has something better to do: replays then take half
	// of the time.
	Busy   func() bool
	Logger *slog.Logger
}

// Worker runs one backtest at a time.
type Worker struct {
	Options
	holder     spend.ID // of this process
	complained time.Time
}

// New makes a Worker; Run starts it.
func New(o Options) *Worker { return &Worker{Options: o, holder: spend.NewID(time.Now())} }

// Run runs backtests until the context ends, and then releases those that are not finished, so that
// other nodes continue at once.
func (w *Worker) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if w.next(ctx) {
			continue
		}
		_ = pause.For(ctx, lookEvery)
	}
	bounded, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := w.Store.ReleaseBacktest(bounded, w.holder); err != nil {
		w.Logger.Warn("cannot release a backtest; other nodes wait for its lease", "error", err)
	}
}

// next runs the backtest that is due, if there is one.
func (w *Worker) next(ctx context.Context) bool {
	asked, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	b, err := w.Store.LeaseBacktest(asked, w.holder, leaseFor)
	if err != nil {
		w.complain(ctx, "cannot look for backtests", err)
		return false
	}
	if b == nil {
		return false
	}
	r := &run{Worker: w, b: b}
	end := audit.BacktestEnd{Status: audit.BacktestFailed}
	if b.Attempts > maxAttempts {
		end.Error = "it was begun three times and never came to its end"
	} else if end.Report, err = r.replay(ctx); err == nil {
		end.Status = audit.BacktestSucceeded
	} else {
		end.Error = failure(err)
	}
	end.Checks, end.Kept = r.progress.Checks, r.keep
	switch {
	case ctx.Err() != nil, errors.Is(err, audit.ErrNotFound): // another node has it, or it was canceled
		return true
	case errors.Is(err, audit.ErrUnavailable): // the backtest is tried again when the lease is over
		w.complain(ctx, "cannot run a backtest", err)
		return false
	case end.Error != "":
		w.Logger.Warn("a backtest failed", "backtest_id", b.ID.Text(spend.PrefixBacktest), "error", err)
	}
	ended, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := w.Store.EndBacktest(ended, w.holder, b.ID, end); err != nil && !errors.Is(err, audit.ErrNotFound) {
		w.complain(ctx, "cannot record the end of a backtest", err)
	}
	return true
}

// complain logs errors of work that will be tried again, at most now and then.
func (w *Worker) complain(ctx context.Context, doing string, err error) {
	if ctx.Err() == nil && time.Since(w.complained) >= complainEvery {
		w.Logger.Warn(doing, "error", err)
		w.complained = time.Now()
	}
}
