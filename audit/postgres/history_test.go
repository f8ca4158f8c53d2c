package postgres

import (
	"context"
	"testing"

	"spendgate/audit"
	"spendgate/bench/must"
)

// addOutcomes adds one of each check.
const addOutcomes = `INSERT INTO outcomes
	(outcome_id, check_id, node, epoch, step, number, status, release, key_id, request_id, may_release)
	SELECT gen_random_uuid(), check_id, node, epoch, 1, 1, 'v', 'd', 'key', 'req_0123456789ab', true FROM checks`

// historyReads checks that a page of a backtest's history reads only the rows that it returns, by
// primary keys, and scans no table, for checks over many days and their outcomes.
func historyReads(t *testing.T, s *Store, when string) {
	t.Helper()
	const limit = 500
	for _, c := range []struct {
		name       string
		day, last  int // the range
		partitions int // partitions whose ends the planner may look at
		checks     int // at least
	}{
		{"the midst of a full day", 3, 4, 1, limit},
		{"from a full day over one without a partition", 6, 30, maxHistoryDays, limit},
		{"days with few checks", 31, 50, maxHistoryDays, 20},
		{"days without any", 60, 90, maxHistoryDays, 0},
	} {
		tx := must.Get(s.Reads.Begin(t.Context()))(t)
		counted := func() (scans, checks, outcomes int) {
			must.Do(t, tx.QueryRow(t.Context(), `SELECT sum(seq_scan), sum(idx_tup_fetch) FILTER (WHERE relname LIKE 'checks%'),
				sum(idx_tup_fetch) FILTER (WHERE relname = 'outcomes') FROM pg_stat_xact_user_tables
				WHERE relname LIKE 'checks%' OR relname = 'outcomes'`).Scan(&scans, &checks, &outcomes))
			return scans, checks, outcomes
		}
		scans, checks, outcomes := counted() // of transactions before on this connection
		page := must.Get(pageHistory(t.Context(), tx, audit.HistoryQuery{
			PolicyID: "policy-1", Limit: limit,
			After: audit.FirstID(listedStart.AddDate(0, 0, c.day).UnixMilli() + 3600_000),
			End:   audit.FirstID(listedStart.AddDate(0, 0, c.last).UnixMilli()),
		}))(t)
		scansAfter, checksAfter, outcomesAfter := counted()
		scans, checks, outcomes = scansAfter-scans, checksAfter-checks, outcomesAfter-outcomes
		_ = tx.Rollback(context.Background()) // it only reads
		if scans > 0 || len(page.Checks) < c.checks || len(page.Outcomes) != len(page.Checks) ||
			checks > len(page.Checks)+3*c.partitions || outcomes > len(page.Outcomes)+3 {
			t.Errorf("%s, %s: %d checks and %d outcomes are read for %d and %d, with %d scans of whole tables",
				c.name, when, checks, outcomes, len(page.Checks), len(page.Outcomes), scans)
		}
	}
}
