package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// CreateBacktest implements audit.Backtests. Two concurrent calls may exceed the bound by one.
func (s *Store) CreateBacktest(ctx context.Context, b *audit.Backtest) error {
	return s.read(ctx, "cannot store a backtest", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		done, err := db.Exec(ctx, `INSERT INTO backtests (
				id, policy_id, version, rules, from_ms, to_ms, recorded, key_id, principal, created_at, draft)
			SELECT $1, $2, nullif($3::integer, 0), nullif($4::text, ''), $5, $6, $7, $8, $9, $10, nullif($12::bigint, 0)
			WHERE (SELECT count(*) FROM backtests WHERE status IN ('queued', 'running')) < $11 OR EXISTS (SELECT FROM backtests WHERE id = $1)
			ON CONFLICT (id) DO UPDATE SET id = excluded.id`, [16]byte(b.ID), b.PolicyID, b.Version, b.Rules, b.From.UnixMilli(), b.To.UnixMilli(),
			b.Recorded, b.KeyID, b.Principal,
			b.CreatedAt, audit.MaxBacktests, b.Draft)
		if err == nil && done.RowsAffected() == 0 {
			return audit.ErrBacktestsFull
		}
		return err
	})
}

// ContinueBacktest implements audit.Backtests.
func (s *Store) ContinueBacktest(ctx context.Context, id spend.ID, to, now time.Time, after time.Duration) error {
	return s.read(ctx, "cannot continue a backtest", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		_, err := db.Exec(ctx, `UPDATE backtests SET status = 'queued', to_ms = greatest(to_ms, $2), created_at = $3, started_at = NULL,
			ended_at = NULL, attempts = 0, error = NULL, reached_ms = NULL
			WHERE id = $1 AND status NOT IN ('queued', 'running') AND ended_at <= clock_timestamp() - $4 * interval '1 millisecond'`,
			[16]byte(id), to.UnixMilli(), now, after.Milliseconds())
		return err
	})
}

const (
	listedBacktest = `b.id, b.policy_id, coalesce(b.version, 0), b.from_ms, b.to_ms, b.recorded, b.key_id, b.principal, b.status,
		b.created_at, b.started_at,
		b.ended_at, b.attempts, b.checks, coalesce(b.reached_ms, 0), coalesce(b.error, ''), coalesce(b.draft, 0)`
	wholeBacktest  = listedBacktest + ", coalesce(b.rules, ''), coalesce(b.report, ''), coalesce(b.kept, '')"
	selectBacktest = "SELECT " + wholeBacktest + " FROM backtests AS b "
)

// backtestTargets returns the scan targets of listedBacktest; done completes b after the scan.
func backtestTargets(b *audit.Backtest) (targets []any, done func()) {
	var from, to, reached int64
	targets = []any{
		uuid(&b.ID), &b.PolicyID, &b.Version, &from, &to, &b.Recorded, &b.KeyID, &b.Principal, &b.Status, utc(&b.CreatedAt), utc(&b.StartedAt),
		utc(&b.EndedAt), &b.Attempts, &b.Checks, &reached, &b.Error, &b.Draft,
	}
	return targets, func() {
		b.From, b.To = time.UnixMilli(from).UTC(), time.UnixMilli(to).UTC()
		if reached != 0 {
			b.Reached = time.UnixMilli(reached).UTC()
		}
	}
}

func scanBacktest(row pgx.CollectableRow) (b audit.Backtest, err error) {
	targets, done := backtestTargets(&b)
	err = row.Scan(append(targets, &b.Rules, &b.Report, &b.Kept)...)
	done()
	return b, err
}

func scanListedBacktest(row pgx.CollectableRow) (b audit.Backtest, err error) {
	targets, done := backtestTargets(&b)
	err = row.Scan(targets...)
	done()
	return b, err
}

// Backtest implements audit.Backtests.
func (s *Store) Backtest(ctx context.Context, id spend.ID) (*audit.Backtest, error) {
	return orNil(one(ctx, s, "cannot read a backtest", scanBacktest, selectBacktest+"WHERE b.id = $1", [16]byte(id)))
}

// ListBacktests implements audit.Backtests.
func (s *Store) ListBacktests(ctx context.Context, q audit.BacktestQuery) (page []audit.Backtest, more bool, err error) {
	page, err = collect(ctx, s, "cannot list backtests", scanListedBacktest, "SELECT "+listedBacktest+` FROM backtests AS b
		WHERE b.id < $1 AND ($2 = '' OR b.policy_id = $2) AND ($3 = '' OR b.status = $3) AND ($4::text[] IS NULL OR b.policy_id = ANY ($4))
		ORDER BY b.id DESC LIMIT $5`, [16]byte(cmp.Or(q.Before, audit.MaxID())), q.PolicyID, string(q.Status), q.PolicyIDs, q.Limit+1)
	page, more = audit.Cut(page, q.Limit)
	return page, more, err
}

// CancelBacktest implements audit.Backtests.
func (s *Store) CancelBacktest(ctx context.Context, id spend.ID) (*audit.Backtest, error) {
	const doing = "cannot cancel a backtest"
	err := s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		_, err := db.Exec(ctx, `UPDATE backtests SET status = 'canceled', ended_at = date_trunc('milliseconds', clock_timestamp()),
			holder = NULL, held_until = NULL
			WHERE id = $1 AND status IN ('queued', 'running')`, [16]byte(id))
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.Backtest(ctx, id)
}

// BacktestFlips implements audit.Backtests.
func (s *Store) BacktestFlips(ctx context.Context, id spend.ID, behind, limit int) (page []string, more bool, err error) {
	page, err = collect(ctx, s, "cannot list flips", pgx.RowTo[string],
		"SELECT flip FROM backtest_flips WHERE backtest_id = $1 AND n > $2 ORDER BY n LIMIT $3", [16]byte(id), behind, limit+1)
	page, more = audit.Cut(page, limit)
	return page, more, err
}

// leaseBacktest takes the oldest backtest. A second caller waits for the first, and then finds the
// backtest held.
const leaseBacktest = `UPDATE backtests AS b SET status = 'running', holder = $1,
	held_until = clock_timestamp() + $2 * interval '1 millisecond',
		attempts = b.attempts + 1, started_at = coalesce(b.started_at, date_trunc('milliseconds', clock_timestamp())), checks = 0,
		reached_ms = NULL
	WHERE b.id = (SELECT o.id FROM backtests AS o WHERE o.status IN ('queued', 'running') ORDER BY o.created_at, o.id LIMIT 1)
		AND b.status IN ('queued', 'running') AND (b.held_until IS NULL OR b.held_until <= clock_timestamp())
		AND NOT EXISTS (SELECT FROM backtests AS r WHERE r.status = 'running' AND r.held_until > clock_timestamp())
	RETURNING `

// LeaseBacktest implements audit.Backtests.
func (s *Store) LeaseBacktest(ctx context.Context, holder spend.ID, lease time.Duration) (taken *audit.Backtest, err error) {
	err = s.read(ctx, "cannot take a backtest", func(ctx context.Context, db *pgx.Conn) error { // an attempt may be counted twice
		taken = nil
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			// the rows return its error
			rows, _ := tx.Query(ctx, leaseBacktest+wholeBacktest, [16]byte(holder), lease.Milliseconds())
			found, err := pgx.CollectRows(rows, scanBacktest)
			if err != nil || len(found) == 0 {
				return err
			}
			taken = &found[0]
			_, err = tx.Exec(ctx, "DELETE FROM backtest_flips AS f USING backtests AS b WHERE f.backtest_id = $1 AND b.id = $1 "+
				"AND f.n > coalesce((b.kept::jsonb -> 'flips' ->> 'listed')::bigint, 0)", [16]byte(taken.ID))
			return err
		})
	})
	return taken, err
}

// heldBacktest selects a backtest that the node still runs and may therefore change.
const heldBacktest = " WHERE id = $2 AND holder = $1 AND status = 'running' AND held_until > clock_timestamp()"

// HoldBacktest implements audit.Backtests.
func (s *Store) HoldBacktest(ctx context.Context, holder, id spend.ID, p audit.BacktestProgress, lease time.Duration) error {
	return s.changeBacktest(ctx, "cannot hold a backtest", func(ctx context.Context, tx pgx.Tx) (int64, error) {
		done, err := tx.Exec(ctx, "UPDATE backtests SET held_until = clock_timestamp() + $3 * interval '1 millisecond', checks = $4::bigint, "+
			"reached_ms = nullif($5::bigint, 0)"+heldBacktest,
			[16]byte(holder), [16]byte(id), lease.Milliseconds(), p.Checks, unixMilli(p.Reached))
		if err != nil || done.RowsAffected() == 0 || len(p.Flips) == 0 {
			return done.RowsAffected(), err
		}
		_, err = tx.Exec(ctx, `INSERT INTO backtest_flips (backtest_id, n, flip) SELECT $1, $2 + f.n, f.flip
			FROM unnest($3::text[]) WITH ORDINALITY AS f (flip, n)
			ON CONFLICT DO NOTHING`, [16]byte(id), p.Behind, p.Flips)
		return 1, err
	})
}

// unixMilli returns 0 for the zero time.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// changeBacktest changes a backtest that the node holds.
func (s *Store) changeBacktest(ctx context.Context, doing string, change func(context.Context, pgx.Tx) (rows int64, err error)) error {
	return s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			rows, err := change(ctx, tx)
			if err == nil && rows == 0 {
				return pgx.ErrNoRows // which is audit.ErrNotFound
			}
			return err
		})
	})
}

// EndBacktest implements audit.Backtests.
func (s *Store) EndBacktest(ctx context.Context, holder, id spend.ID, end audit.BacktestEnd) error {
	return s.changeBacktest(ctx, "cannot end a backtest", func(ctx context.Context, tx pgx.Tx) (int64, error) {
		done, err := tx.Exec(ctx, `UPDATE backtests SET
				status = $3, error = nullif($4, ''), report = coalesce(nullif($5, ''), report), checks = $6,
			kept = CASE WHEN $3 = 'succeeded' THEN nullif($7, '') ELSE kept END,
			ended_at = date_trunc('milliseconds', clock_timestamp()), holder = NULL, held_until = NULL`+heldBacktest,
			[16]byte(holder), [16]byte(id), string(end.Status), end.Error, end.Report, end.Checks, end.Kept)
		return done.RowsAffected(), err
	})
}

// ReleaseBacktest implements audit.Backtests.
func (s *Store) ReleaseBacktest(ctx context.Context, holder spend.ID) error {
	return s.read(ctx, "cannot release a backtest", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		_, err := db.Exec(ctx, "UPDATE backtests SET holder = NULL, held_until = NULL, attempts = attempts - 1 WHERE holder = $1 "+
			"AND status = 'running'", [16]byte(holder))
		return err
	})
}
