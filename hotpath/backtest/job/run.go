package job

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/pause"
	"spendgate/audit/spend"
	"spendgate/hotpath/backtest"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/report"
)

const (
	// pageSize is how many checks are read at once.
	pageSize = 5000
	// stride is after how many checks others may run, some tenths of a millisecond.
	stride = 64
	// maxFlips is how many flips wait to be recorded.
	maxFlips = 1000
	// settled is how long after its identifier's millisecond a check is recorded at the latest.
	settled = time.Minute
)

// run is one attempt at a backtest.
type run struct {
	*Worker
	b        *audit.Backtest
	engine   *backtest.Engine
	versions versions
	kept     *report.Report // what this run continues; nil: it begins
	judged   time.Time      // from when on checks are judged by the candidate
	warmUp   time.Time
	keepAt   time.Time // the end of what the next run continues; zero: it keeps nothing
	keep     string    // what the next run continues; empty before keepAt
	progress audit.BacktestProgress
	held     time.Time // when the lease was renewed last
	resumed  time.Time // since when it has been running without a pause
	missing  []string
}

// failedError says why a backtest can have no result, in words for the user.
type failedError struct{ text string }

func (e *failedError) Error() string { return e.text }

// failure returns the text that the user is shown for an error.
func failure(err error) string {
	if own, ok := errors.AsType[*failedError](err); ok {
		return own.text
	}
	if errors.Is(err, backtest.ErrTooLarge) {
		return backtest.ErrTooLarge.Error()
	}
	if errors.Is(err, archive.ErrAltered) {
		return "an archive is not what was written; audit verify names it"
	}
	return "unexpected error; see the service's log"
}

// replay runs it and returns its report.
func (r *run) replay(ctx context.Context) (string, error) {
	if r.b.Draft != 0 {
		r.keepAt = r.b.To.Add(-settled)
	}
	if r.b.Kept != "" {
		var err error
		if r.kept, err = report.Parse(r.b.Kept); err != nil {
			return "", err
		}
		r.progress.Behind = int(r.kept.Flips.Listed)
	}
	candidate, err := r.prepare(ctx)
	if err != nil {
		return "", err
	}
	grants, err := r.findGrants(ctx)
	if err != nil {
		return "", err
	}
	r.held, r.resumed = time.Now(), time.Now()
	r.engine = backtest.New(backtest.Options{
		Candidate: candidate, From: r.b.From, To: r.b.To, Recorded: r.b.Recorded, Kept: r.kept, Grants: grants,
		Lengthened: r.versions.inForce == nil || !r.versions.inForce.SameWindows(candidate),
		Version:    func(version int) *policy.Program { return r.versions.program(ctx, version) },
		Flip:       func(f report.Flip) { r.progress.Flips = append(r.progress.Flips, f.JSON()) },
	})
	if err := r.readAll(ctx); err != nil {
		return "", err
	}
	if r.versions.failed != nil {
		return "", r.versions.failed
	}
	if err := r.hold(ctx); err != nil {
		return "", err
	}
	if r.keep == "" && !r.keepAt.Before(r.b.From) {
		r.keep = r.report(r.keepAt.Add(-time.Millisecond))
	}
	return r.report(r.b.To), nil
}

// report returns the report on the checks that were fed.
func (r *run) report(to time.Time) string {
	result := r.engine.Report()
	result.Coverage.To = report.Time(to)
	if r.kept == nil {
		result.Coverage.WarmUp.From = report.Time(r.warmUp)
		if r.warmUp.After(r.b.From) { // the policy is younger
			result.Coverage.WarmUp.From = report.Time(r.b.From)
		}
	}
	for _, day := range r.missing {
		if !slices.Contains(result.Coverage.MissingDays, day) {
			result.Coverage.MissingDays = append(result.Coverage.MissingDays, day)
		}
	}
	return result.JSON()
}

// readAll feeds the engine, of archived days from their archives. A day may leave the
// tables at any time, so which are archived is asked after each page.
func (r *run) readAll(ctx context.Context) error {
	at, end := audit.FirstID(r.warmUp.UnixMilli()), audit.FirstID(r.b.To.UnixMilli()+1)
	for at.Compare(end) < 0 {
		q := audit.HistoryQuery{PolicyID: r.b.PolicyID, After: at, End: end, Limit: pageSize}
		page, err := ask(ctx, func(ctx context.Context) (audit.HistoryPage, error) { return r.Store.PageHistory(ctx, q) })
		if err != nil {
			return err
		}
		read := end // to where the page is complete
		if n := len(page.Checks); n > 0 {
			read = page.Checks[n-1].ID
		}
		day, err := r.firstArchived(ctx, at, read)
		if err != nil {
			return err
		}
		if day != nil {
			read = audit.FirstID(day.Day.UnixMilli())
			left := func(c audit.HistoryCheck) bool { return c.ID.Compare(read) >= 0 }
			if i := slices.IndexFunc(page.Checks, left); i >= 0 {
				page.Checks = page.Checks[:i]
			}
		}
		if err := r.feed(ctx, page); err != nil {
			return err
		}
		if day != nil {
			next := audit.FirstID(day.Day.AddDate(0, 0, 1).UnixMilli())
			if err := r.readArchive(ctx, *day, at, spend.Earlier(next, end)); err != nil {
				return err
			}
			read = next
		}
		at = read
	}
	return nil
}

// firstArchived returns the first day from one ID to another that is archived by now.
func (r *run) firstArchived(ctx context.Context, at, end spend.ID) (*audit.ArchivedDay, error) {
	days, err := ask(ctx, func(ctx context.Context) ([]audit.ArchivedDay, error) {
		return r.Store.ArchivedDays(ctx, at.Time(), end.Time())
	})
	if err != nil || len(days) == 0 {
		return nil, err
	}
	return &days[0], nil
}

// feed feeds a page, with the results of the approvals that its checks asked for.
func (r *run) feed(ctx context.Context, page audit.HistoryPage) error {
	asked, err := r.askedBefore(ctx, page.Checks)
	if err != nil {
		return err
	}
	approvals, err := r.approvalsOf(ctx, page.Checks)
	if err != nil {
		return err
	}
	outcomes := page.Outcomes
	for i := range page.Checks {
		h := &page.Checks[i]
		record := backtest.Record{Check: &h.Check, Foreign: h.Foreign, Asked: asked[h.Action.ApprovalID], Approval: approvals[h.ID]}
		for len(outcomes) > 0 && outcomes[0].CheckID.Compare(h.ID) < 0 {
			outcomes = outcomes[1:] // skips outcomes of checks that the page does not have
		}
		n := 0
		for n < len(outcomes) && outcomes[n].CheckID == h.ID {
			n++
		}
		record.Reports, outcomes = outcomes[:n:n], outcomes[n:]
		if at := h.Timestamp(); r.keep == "" && !r.keepAt.Before(r.b.From) && !at.Before(r.keepAt) {
			r.keep = r.report(r.keepAt.Add(-time.Millisecond))
		}
		if err := r.engine.Feed(&record); err != nil {
			return err
		}
		if !h.Foreign {
			r.progress.Checks++
		}
		r.progress.Reached = h.Timestamp()
		if i%stride == stride-1 {
			if err := r.breathe(ctx); err != nil {
				return err
			}
		}
	}
	return r.breathe(ctx)
}

// breathe lets others run, renews the lease when it is time, and takes half of the time
// only while the node is busy.
func (r *run) breathe(ctx context.Context) error {
	if len(r.progress.Flips) >= maxFlips || time.Since(r.held) >= holdEvery {
		if err := r.hold(ctx); err != nil {
			return err
		}
	}
	if r.Busy == nil || !r.Busy() {
		runtime.Gosched()
		r.resumed = time.Now()
		return ctx.Err()
	}
	if err := pause.For(ctx, time.Since(r.resumed)); err != nil {
		return err
	}
	r.resumed = time.Now()
	return nil
}

// hold renews the lease and records progress and flips.
func (r *run) hold(ctx context.Context) error {
	_, err := ask(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.Store.HoldBacktest(ctx, r.holder, r.b.ID, r.progress, leaseFor)
	})
	if err != nil {
		return fmt.Errorf("cannot hold the backtest: %w", err)
	}
	r.progress.Behind += len(r.progress.Flips)
	r.progress.Flips, r.held = nil, time.Now()
	return nil
}

// askedBefore returns the requests for the approvals that these checks use, if the requests were made
// before the first check that is read.
func (r *run) askedBefore(ctx context.Context, checks []audit.HistoryCheck) (map[spend.ID]*spend.ApprovalRequest, error) {
	first := audit.FirstID(r.warmUp.UnixMilli())
	var ids []spend.ID
	for i := range checks {
		if id := checks[i].Action.ApprovalID; !checks[i].Foreign && !id.IsZero() && id.Compare(first) < 0 {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return nil, nil
	}
	found, err := ask(ctx, func(ctx context.Context) ([]*spend.Check, error) { return r.Store.Checks(ctx, ids) })
	asked := make(map[spend.ID]*spend.ApprovalRequest, len(found))
	for _, c := range found {
		asked[c.ID] = c.Approval
	}
	return asked, err
}

// approvalsOf returns the approvals that the checks asked for, also of other policies: the fingerprint
// of an escalation ends with its approval.
func (r *run) approvalsOf(ctx context.Context, checks []audit.HistoryCheck) (map[spend.ID]*audit.Approval, error) {
	var ids []spend.ID
	for i := range checks {
		if checks[i].Decision.Effect == spend.Escalate {
			ids = append(ids, checks[i].ID)
		}
	}
	if ids == nil {
		return nil, nil
	}
	found, err := ask(ctx, func(ctx context.Context) ([]*audit.Approval, error) { return r.Store.HistoryApprovals(ctx, ids) })
	became := make(map[spend.ID]*audit.Approval, len(found))
	for _, a := range found {
		became[a.Check.ID] = a
	}
	return became, err
}

// askAgainFor is how long a store that does not answer is asked: less than a lease.
const askAgainFor = 15 * time.Second

// ask asks the store, again while it is not available.
func ask[T any](ctx context.Context, question func(context.Context) (T, error)) (answer T, err error) {
	for until := time.Now().Add(askAgainFor); ; {
		asked, cancel := context.WithTimeout(ctx, storeTimeout)
		answer, err = question(asked)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, audit.ErrUnavailable) || time.Now().After(until) {
			return answer, err
		}
		_ = pause.For(ctx, time.Second)
	}
}
