package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
)

// Partitions are made from yesterday, for a clock that is behind, to a week
// ahead, so that a database that nobody tidies for days still has today's.
const (
	daysBehind = 1
	daysAhead  = 7
)

// Tidy implements audit.Store.
func (s *Store) Tidy(ctx context.Context, now time.Time) error {
	return s.list(ctx, "cannot tidy", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		oldest := audit.FirstID(now.Add(-audit.KeepDeliveries).UnixMilli())
		until, err := makePartitions(ctx, db, now)
		s.partitionsUntil.Store(until.Unix()) // today, if the database cannot be asked
		shownMS, unknown := shown(ctx, db, now)
		return errors.Join(err, unknown, s.lookAtDefault(ctx, db),
			remove(ctx, db, "expired idempotency keys", deleteExpired),
			remove(ctx, db, "counters of budgets", deleteCounters, shownMS, audit.KeepCounters.Milliseconds()),
			remove(ctx, db, "old deliveries", deleteDeliveries, [16]byte(oldest)),
			remove(ctx, db, "old backtests", deleteBacktests, [16]byte(audit.FirstID(now.Add(-audit.KeepBacktests).UnixMilli())),
				audit.MaxEndedBacktests),
			remove(ctx, db, "old sessions", deleteSessions, [16]byte(audit.FirstID(now.Add(-audit.KeepSessions).UnixMilli()))),
			remove(ctx, db, "nodes that are gone", deleteNodes),
			remove(ctx, db, "old logout tokens", deleteLogouts, [16]byte(audit.FirstID(now.Add(-audit.KeepSessions).UnixMilli()))))
	})
}

// shown returns now in Unix milliseconds, limited to one day after the newest check that is at
// least a day older than the newest of all; 0 if there is no such check. So a clock that is far
// ahead for less than a day makes no room in budgets, whatever is recorded meanwhile.
func shown(ctx context.Context, conn *pgx.Conn, now time.Time) (ms int64, err error) {
	const day = 24 * time.Hour
	newest := audit.CheckQuery{Limit: 1, Examine: fewExamined}
	for range 2 {
		var page audit.CheckPage
		err := pgx.BeginTxFunc(ctx, conn, pg.ReadOnly(), func(tx pgx.Tx) (err error) {
			page, err = readChecks(ctx, tx, newest)
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("cannot look for the newest checks: %w", err)
		}
		if len(page.Checks) == 0 {
			return 0, nil
		}
		newest.Until = page.Checks[0].Timestamp().Add(-day)
	}
	return min(now.UnixMilli(), newest.Until.Add(2*day).UnixMilli()), nil
}

// lookAtDefault notes whether the default partition has rows.
func (s *Store) lookAtDefault(ctx context.Context, conn *pgx.Conn) error {
	var found bool
	if err := conn.QueryRow(ctx, "SELECT default_partition_occupied()").Scan(&found); err != nil {
		return fmt.Errorf("cannot look at the default partition: %w", err)
	}
	s.defaultOccupied.Store(found)
	return nil
}

// makePartitions makes the missing partitions. It skips a day that already has rows in the default
// partition, which cannot get its own partition. As far as it could see, every day from now until
// the returned time has a partition.
func makePartitions(ctx context.Context, conn *pgx.Conn, now time.Time) (until time.Time, failed error) {
	today := now.UTC().Truncate(24 * time.Hour)
	until = today
	for d := -daysBehind; d <= daysAhead; d++ {
		day := today.AddDate(0, 0, d)
		if err := makePartition(ctx, conn, day.Format(time.DateOnly)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot make the partition of %s: %w", day.Format(time.DateOnly), err))
		} else if until.Equal(day) {
			until = day.AddDate(0, 0, 1)
		}
	}
	return until, failed
}

func makePartition(ctx context.Context, conn *pgx.Conn, day string) error {
	exists, err := hasPartition(ctx, conn, day)
	if err != nil || exists {
		return err
	}
	if archived, err := isArchived(ctx, conn, day); err != nil || archived {
		return err
	}
	// Attaching waits for readers of the default partition and holds up others for as long: better
	// to give up and try later.
	_, err = conn.PgConn().Exec(ctx, `BEGIN; SET LOCAL lock_timeout = '500ms';
		SELECT make_partition('`+day+`'); COMMIT`).ReadAll()
	if err != nil {
		_, rollback := conn.Exec(ctx, "ROLLBACK")
		err = errors.Join(err, rollback)
	}
	return err
}

func hasPartition(ctx context.Context, conn *pgx.Conn, day string) (exists bool, err error) {
	err = conn.QueryRow(ctx, "SELECT to_regclass("+pg.OwnSchema+"'checks_' || to_char($1::date, 'YYYYMMDD')) IS NOT NULL", day).Scan(&exists)
	return exists, err
}

// isArchived reports whether a day was archived. Such a day gets no partition again: commits by a
// clock that is days behind are refused.
func isArchived(ctx context.Context, conn *pgx.Conn, day string) (archived bool, err error) {
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM archived_days WHERE day = $1::date)", day).Scan(&archived)
	return archived, err
}

// deleteExpired removes some expired keys. It skips rows that a commit is using, because waiting
// for them could deadlock. It compares with the statement's time, which is constant and so limits
// the range of the index that is read; clock_timestamp() would be compared with every key.
const deleteExpired = `DELETE FROM idempotency_keys WHERE key_hash IN (
	SELECT key_hash FROM idempotency_keys WHERE expires_at <= statement_timestamp()
	ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`

const (
	// deleteCounters removes counters whose windows ended long ago, both by shown and by the
	// store's clock. Like deleteExpired, it skips rows that a commit is using.
	deleteCounters = `DELETE FROM budget_counters WHERE (counter_id, start_ms) IN
		(SELECT counter_id, start_ms FROM budget_counters WHERE end_ms <= least($2, to_ms(statement_timestamp())) - $3::bigint
		LIMIT $1 FOR UPDATE SKIP LOCKED)`
	// deleteDeliveries removes attempts that are no longer listed.
	deleteDeliveries = "DELETE FROM webhook_deliveries WHERE id IN (SELECT id FROM webhook_deliveries WHERE id < $2 ORDER BY id LIMIT $1)"

	// deleteBacktests removes old ones, and those that have ended but for the newest. That of a draft stays
	// as long as the draft.
	endedBacktest   = " status NOT IN ('queued', 'running') "
	deleteBacktests = "DELETE FROM backtests WHERE id IN (SELECT b.id FROM backtests AS b WHERE (b.id < $2 OR" + endedBacktest +
		"AND b.id <= (SELECT id FROM backtests WHERE draft = 0 AND" + endedBacktest + "ORDER BY id DESC OFFSET $3 LIMIT 1)) " +
		"AND (b.draft = 0 " +
		"OR NOT EXISTS (SELECT FROM current_draft(b.policy_id) AS d WHERE d.generation = b.draft)) ORDER BY b.id LIMIT $1)"
	deleteNodes = "DELETE FROM nodes WHERE process IN " +
		"(SELECT process FROM nodes WHERE seen < statement_timestamp() - interval '1 day' LIMIT $1)"
	deleteSessions = "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE id < $2 ORDER BY id LIMIT $1)"
	deleteLogouts  = "DELETE FROM session_logouts WHERE token IN (SELECT token FROM session_logouts WHERE request < $2 LIMIT $1)"
)

// remove deletes the rows that a statement finds, a limited number per transaction.
func remove(ctx context.Context, conn *pgx.Conn, what, statement string, args ...any) error {
	const batch = 5000
	for {
		done, err := conn.Exec(ctx, statement, append([]any{batch}, args...)...)
		if err != nil {
			return fmt.Errorf("cannot remove %s: %w", what, err)
		}
		if done.RowsAffected() < batch {
			return nil
		}
	}
}
