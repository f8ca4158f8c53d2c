package audit

import (
	"context"
	"time"

	"spendgate/audit/spend"
)

const (
	// MaxBacktests is how many may wait or run at once.
	MaxBacktests = 100
	// KeepBacktests is how long they are kept.
	KeepBacktests = 30 * 24 * time.Hour
	// MaxEndedBacktests is how many that have ended are kept: the newest. With the most flips one takes
	// some 40 MB.
	MaxEndedBacktests = 200
)

// Backtest is a replay of recorded checks by the rules of a candidate (S53).
type Backtest struct {
	ID        spend.ID
	PolicyID  string
	Version   int    // of the candidate, if the candidate is a version of the policy; else 0
	Rules     string // the candidate's JSON array; empty of a version
	From, To  time.Time
	Recorded  bool  // history's decisions are the candidate's state
	Draft     int64 // the draft that is the candidate, by its generation: such a backtest is continued; else 0
	KeyID     string
	Principal string // of the key that asked for the backtest

	Status    BacktestStatus
	CreatedAt time.Time
	StartedAt time.Time // first; zero until then
	EndedAt   time.Time // zero until then
	Attempts  int       // how often the backtest was begun: if a node is killed, another begins it again
	Checks    int64     // replayed so far
	Reached   time.Time // to where, in the time of records; zero before the first
	Error     string    // why the backtest failed
	Report    string    // JSON; empty until the backtest has succeeded once
	Kept      string    // JSON: the report that the next run of a draft's backtest continues; empty: it begins anew
}

// BacktestStatus is the state of a Backtest.
type BacktestStatus string

// The states.
const (
	BacktestQueued    BacktestStatus = "queued"
	BacktestRunning   BacktestStatus = "running"
	BacktestSucceeded BacktestStatus = "succeeded"
	BacktestFailed    BacktestStatus = "failed"
	BacktestCanceled  BacktestStatus = "canceled"
)

// Ended reports whether nothing changes any more.
func (s BacktestStatus) Ended() bool {
	return s == BacktestSucceeded || s == BacktestFailed || s == BacktestCanceled
}

// Backtests are kept with their reports. One runs at a time, on the node that holds its lease. The
// lease ends by the store's clock, so a killed node does not hold it for long.
type Backtests interface {
	// CreateBacktest stores a queued one, unless it is stored already, and fails with ErrBacktestsFull.
	CreateBacktest(ctx context.Context, b *Backtest) error
	// ContinueBacktest queues a backtest again, to a later end of its period, if it ended so long ago, by the
	// store's clock. It keeps its report, and is as old as one that was created now.
	ContinueBacktest(ctx context.Context, id spend.ID, to, now time.Time, after time.Duration) error
	// Backtest returns one as it is now, or ErrNotFound.
	Backtest(ctx context.Context, id spend.ID) (*Backtest, error)
	// ListBacktests returns a page without rules and reports, newest first.
	ListBacktests(ctx context.Context, q BacktestQuery) (page []Backtest, more bool, err error)
	// CancelBacktest cancels a backtest that has not ended, and returns its new state, or ErrNotFound.
	CancelBacktest(ctx context.Context, id spend.ID) (*Backtest, error)
	// BacktestFlips returns a page of a backtest's flips, as JSON, after the first behind ones.
	BacktestFlips(ctx context.Context, id spend.ID, behind, limit int) (page []string, more bool, err error)

	// LeaseBacktest gives the node the lease of the oldest backtest that has not ended, unless a node
	// holds one, and returns it; nil if there is nothing to do. It removes the flips that Kept does not list.
	LeaseBacktest(ctx context.Context, holder spend.ID, lease time.Duration) (*Backtest, error)
	// HoldBacktest renews a lease and records progress. It fails with ErrNotFound, and writes nothing,
	// if the node does not hold the lease, or the backtest was canceled.
	HoldBacktest(ctx context.Context, holder, id spend.ID, p BacktestProgress, lease time.Duration) error
	// EndBacktest records the end, if the holder still holds it.
	EndBacktest(ctx context.Context, holder, id spend.ID, end BacktestEnd) error
	// ReleaseBacktest ends the leases of the node.
	ReleaseBacktest(ctx context.Context, holder spend.ID) error
}

// BacktestQuery selects backtests. Zero fields do not filter.
type BacktestQuery struct {
	PolicyID  string
	Status    BacktestStatus
	Before    spend.ID // only smaller IDs: the position of the cursor
	Limit     int
	PolicyIDs []string // policies that the asking key may see; nil: all
}

// BacktestProgress is how far one is.
type BacktestProgress struct {
	Checks  int64
	Reached time.Time
	Behind  int      // flips that are recorded
	Flips   []string // those after them, JSON
}

// BacktestEnd is how one ended. What was kept before stays unless it succeeded.
type BacktestEnd struct {
	Status BacktestStatus
	Error  string
	Report string
	Kept   string
	Checks int64
}

// History reads the record, in the order of identifiers.
type History interface {
	// PageHistory returns checks with IDs above After and below End: as many as were
	// looked at are at most Limit.
	PageHistory(ctx context.Context, q HistoryQuery) (HistoryPage, error)
	// HistoryOutcomes returns, by check and number, the outcomes of the checks from one ID to another
	// that may change the amounts taken.
	HistoryOutcomes(ctx context.Context, from, to spend.ID) ([]*spend.Outcome, error)
	// HistoryApprovals returns the approvals that checks asked for, archived ones included, in no
	// order: at least with the IDs and times of the checks, and the last denial of the decisions.
	HistoryApprovals(ctx context.Context, ids []spend.ID) ([]*Approval, error)
	// ArchivedDays returns the days from one to another whose checks are in archives.
	ArchivedDays(ctx context.Context, from, to time.Time) ([]ArchivedDay, error)
	// ViolationsFrom returns the least ID of a violation that is not in an archive; zero if none is.
	ViolationsFrom(ctx context.Context) (spend.ID, error)
}

// HistoryQuery selects a page of history.
type HistoryQuery struct {
	PolicyID string
	After    spend.ID
	End      spend.ID
	Limit    int
}

// HistoryPage is a page of checks. For checks of other policies only ID, fingerprint, pass, effect,
// payment and the approval that they used are set.
type HistoryPage struct {
	Checks   []HistoryCheck
	Outcomes []*spend.Outcome // as HistoryOutcomes, of these checks
}

// HistoryCheck is a recorded check, without its texts and charges.
type HistoryCheck struct {
	spend.Check
	Foreign bool
}

// SetForeign sets the fields that HistoryPage has for a check of another policy.
func (h *HistoryCheck) SetForeign(c *spend.Check) {
	h.Foreign = true
	h.ID, h.Fingerprint, h.Pass, h.Decision.Effect, h.Action.ApprovalID = c.ID, c.Fingerprint, c.Pass, c.Decision.Effect, c.Action.ApprovalID
	h.Namespace, h.Payment = c.Namespace, c.Payment
}

// ArchivedDay is a day whose checks are in an archive.
type ArchivedDay struct {
	Day      time.Time // its begin, UTC
	Rows     int64
	Manifest spend.Hash // SHA-256
}
