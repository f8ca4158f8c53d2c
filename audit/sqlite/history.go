package sqlite

import (
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// PageHistory implements audit.History, in one snapshot.
func (s *Store) PageHistory(ctx context.Context, q audit.HistoryQuery) (page audit.HistoryPage, err error) {
	const doing = "cannot read the history of checks"
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return page, unavailable(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	page.Checks, err = collect(ctx, tx, doing, func(row scanner) (h audit.HistoryCheck, err error) {
		c, err := scanCheck(row)
		if err != nil {
			return h, err
		}
		if c.Action.PolicyID != q.PolicyID {
			h.SetForeign(c)
		} else {
			h.Check = *c
		}
		return h, nil
	}, "SELECT "+checkColumns.String()+" FROM checks WHERE check_id > ? AND check_id < ? ORDER BY check_id LIMIT ?",
		q.After[:], q.End[:], q.Limit)
	if n := len(page.Checks); n > 0 && err == nil {
		page.Outcomes, err = historyOutcomes(ctx, tx, page.Checks[0].ID, page.Checks[n-1].ID)
	}
	return page, err
}

// HistoryOutcomes implements audit.History.
func (s *Store) HistoryOutcomes(ctx context.Context, from, to spend.ID) ([]*spend.Outcome, error) {
	return historyOutcomes(ctx, s.reader, from, to)
}

func historyOutcomes(ctx context.Context, from querier, first, last spend.ID) ([]*spend.Outcome, error) {
	return collect(ctx, from, "cannot read the history of outcomes", scanOutcome, "SELECT "+outcomeColumns()+` FROM outcomes
		WHERE check_id >= ? AND check_id <= ? AND (release = 'done' OR excess = 'exceeded' OR number > 1) ORDER BY check_id, number`, first[:],
		last[:])
}

// HistoryApprovals implements audit.History.
func (s *Store) HistoryApprovals(ctx context.Context, ids []spend.ID) ([]*audit.Approval, error) {
	return s.Approvals(ctx, ids)
}

// ArchivedDays implements audit.History: an embedded store archives nothing.
func (*Store) ArchivedDays(context.Context, time.Time, time.Time) ([]audit.ArchivedDay, error) {
	return nil, nil
}

// ViolationsFrom implements audit.History.
func (*Store) ViolationsFrom(context.Context) (spend.ID, error) { return spend.ID{}, nil }
