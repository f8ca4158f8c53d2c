package hotpath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/report"
)

const (
	// maxDraftFlips is how many flips a report of a draft names: the newest that are listed.
	maxDraftFlips = 100
	// freshFor is for how long a reader does not have the report of a draft continued: who waits for it finds
	// that it has ended.
	freshFor = 5 * time.Second
	// failedFor is the same of a backtest that failed, or was canceled.
	failedFor = time.Hour
)

// DraftReport is the backtest of a draft from when it was put, with the recorded decisions as its state:
// each check since then is compared by itself.
type DraftReport struct {
	Draft    *audit.Draft
	Backtest *audit.Backtest // its Report is the last one, also while it is continued
	Flips    []string        // JSON, newest first
}

// PermitDraftReport refuses a key that may not read the checks of all agents.
func (a Access) PermitDraftReport() error {
	if a.key != nil && (a.key.Grants.AgentIDs != nil || a.own() != "") {
		return &ForbiddenError{"the key may not read the checks of all agents, and the report of a draft is about all of a policy's"}
	}
	return nil
}

// DraftReport returns the report of a policy's draft as far as it is known, and has it continued where it
// was made freshFor ago or earlier. Errors: as for Draft, and audit.ErrBacktestsFull.
func (a *Authorizer) DraftReport(ctx context.Context, access Access, policyID string) (*DraftReport, error) {
	d, err := a.Draft(ctx, policyID)
	if err != nil {
		return nil, err
	}
	b, err := a.backtestOf(ctx, access, d)
	if err != nil {
		return nil, err
	}
	r := &DraftReport{Draft: d, Backtest: b}
	if b.Report == "" {
		return r, nil
	}
	known, err := report.Parse(b.Report)
	if err != nil {
		return nil, fmt.Errorf("the draft of policy %s: %w", policyID, err)
	}
	r.Flips, _, err = a.store.BacktestFlips(ctx, b.ID, max(int(known.Flips.Listed)-maxDraftFlips, 0), maxDraftFlips)
	slices.Reverse(r.Flips)
	return r, err
}

// backtestOf returns the backtest of a draft, which is created or continued if that is due.
func (a *Authorizer) backtestOf(ctx context.Context, access Access, d *audit.Draft) (*audit.Backtest, error) {
	now := a.now().UTC().Truncate(time.Millisecond)
	to := now
	if to.Before(d.MadeAt) { // by the clock of another node
		to = d.MadeAt
	}
	id := d.BacktestID()
	b, err := a.store.Backtest(ctx, id)
	switch {
	case errors.Is(err, audit.ErrNotFound):
		b = &audit.Backtest{
			ID: id, PolicyID: d.PolicyID, Rules: d.Rules, Draft: d.Generation, From: d.MadeAt, To: to, Recorded: true,
			Status: audit.BacktestQueued, CreatedAt: now, KeyID: access.keyID(), Principal: access.principal(),
		}
		return b, a.store.CreateBacktest(ctx, b)
	case err != nil:
		return nil, err
	case !b.Status.Ended():
		return b, nil
	}
	after := failedFor
	if b.Status == audit.BacktestSucceeded {
		after = freshFor
	}
	if err := a.store.ContinueBacktest(ctx, id, to, now, after); err != nil {
		return nil, err
	}
	return a.store.Backtest(ctx, id)
}
