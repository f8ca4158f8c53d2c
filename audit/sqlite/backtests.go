package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// CreateBacktest implements audit.Backtests.
func (s *Store) CreateBacktest(ctx context.Context, b *audit.Backtest) error {
	return s.write(ctx, "cannot store a backtest", func(tx *sql.Tx) error {
		var open int
		if err := tx.QueryRow("SELECT count(*) FROM backtests WHERE status IN ('queued', 'running')").Scan(&open); err != nil {
			return err
		}
		if open >= audit.MaxBacktests {
			return audit.ErrBacktestsFull
		}
		_, err := tx.Exec(`INSERT INTO backtests (id, policy_id, version, rules, from_ms, to_ms, recorded, key_id, principal, created_at, draft)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			b.ID[:], b.PolicyID, b.Version, b.Rules, b.From.UnixMilli(), b.To.UnixMilli(), b.Recorded,
			b.KeyID, b.Principal,
			b.CreatedAt.UnixMilli(), b.Draft)
		return err
	})
}

// ContinueBacktest implements audit.Backtests.
func (s *Store) ContinueBacktest(ctx context.Context, id spend.ID, to, now time.Time, after time.Duration) error {
	return s.write(ctx, "cannot continue a backtest", func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE backtests SET status = 'queued', to_ms = max(to_ms, ?), created_at = ?, started_at = NULL, ended_at = NULL,
			attempts = 0, error = '', reached_ms = NULL WHERE id = ? AND status NOT IN ('queued', 'running') AND ended_at <= ?`,
			to.UnixMilli(), now.UnixMilli(), id[:], time.Now().Add(-after).UnixMilli())
		return err
	})
}

const (
	listedBacktest = `id, policy_id, version, from_ms, to_ms, recorded, key_id, principal, status, created_at,
		started_at, ended_at,
		attempts, checks, reached_ms, error, draft`
	wholeBacktest  = listedBacktest + ", rules, report, kept"
	selectBacktest = "SELECT " + wholeBacktest + " FROM backtests "
)

// backtestTargets returns the scan targets of listedBacktest.
func backtestTargets(b *audit.Backtest) []any {
	return []any{
		blob(b.ID[:]), &b.PolicyID, &b.Version, (*millis)(&b.From), (*millis)(&b.To), &b.Recorded, &b.KeyID, &b.Principal, &b.Status,
		(*millis)(&b.CreatedAt), (*millis)(&b.StartedAt), (*millis)(&b.EndedAt), &b.Attempts, &b.Checks, (*millis)(&b.Reached),
		&b.Error, &b.Draft,
	}
}

func scanBacktest(row scanner) (b audit.Backtest, err error) {
	err = row.Scan(append(backtestTargets(&b), &b.Rules, &b.Report, &b.Kept)...)
	return b, err
}

func scanListedBacktest(row scanner) (b audit.Backtest, err error) {
	err = row.Scan(backtestTargets(&b)...)
	return b, err
}

// Backtest implements audit.Backtests.
func (s *Store) Backtest(ctx context.Context, id spend.ID) (*audit.Backtest, error) {
	return orNil(one(ctx, s.reader, "cannot read a backtest", scanBacktest, selectBacktest+"WHERE id = ?", id[:]))
}

// ListBacktests implements audit.Backtests.
func (s *Store) ListBacktests(ctx context.Context, q audit.BacktestQuery) (page []audit.Backtest, more bool, err error) {
	before := cmp.Or(q.Before, audit.MaxID())
	w := where{args: []any{before[:]}}
	w.is("policy_id", q.PolicyID)
	w.is("status", string(q.Status))
	w.within(audit.Bounds{PolicyIDs: q.PolicyIDs})
	page, err = collect(ctx, s.reader, "cannot list backtests", scanListedBacktest,
		"SELECT "+listedBacktest+" FROM backtests WHERE id < ?"+w.text+" ORDER BY id DESC LIMIT ?", append(w.args, q.Limit+1)...)
	page, more = audit.Cut(page, q.Limit)
	return page, more, err
}

// CancelBacktest implements audit.Backtests.
func (s *Store) CancelBacktest(ctx context.Context, id spend.ID) (*audit.Backtest, error) {
	err := s.write(ctx, "cannot cancel a backtest", func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE backtests SET status = 'canceled', ended_at = ?, holder = NULL, held_until = 0 WHERE id = ? "+
			"AND status IN ('queued', 'running')",
			time.Now().UnixMilli(), id[:])
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.Backtest(ctx, id)
}

// BacktestFlips implements audit.Backtests.
func (s *Store) BacktestFlips(ctx context.Context, id spend.ID, behind, limit int) (page []string, more bool, err error) {
	page, err = collect(ctx, s.reader, "cannot list flips", scalar[string],
		"SELECT flip FROM backtest_flips WHERE backtest_id = ? AND n > ? ORDER BY n LIMIT ?", id[:], behind, limit+1)
	page, more = audit.Cut(page, limit)
	return page, more, err
}

// LeaseBacktest implements audit.Backtests.
func (s *Store) LeaseBacktest(ctx context.Context, holder spend.ID, lease time.Duration) (taken *audit.Backtest, err error) {
	var open int
	if err := s.reader.QueryRowContext(ctx, "SELECT count(*) FROM backtests WHERE status IN ('queued', 'running')").Scan(&open); err != nil ||
		open == 0 {
		return nil, orUnavailable("cannot look for backtests", err)
	}
	err = s.write(ctx, "cannot take a backtest", func(tx *sql.Tx) error {
		now := time.Now()
		b, err := scanBacktest(tx.QueryRow(`UPDATE backtests SET status = 'running', holder = ?1, held_until = ?2, attempts = attempts + 1,
				started_at = coalesce(started_at, ?3), checks = 0, reached_ms = NULL
			WHERE id = (SELECT id FROM backtests WHERE status IN ('queued', 'running') ORDER BY created_at, id LIMIT 1) AND held_until <= ?3
				AND NOT EXISTS (SELECT 1 FROM backtests WHERE status = 'running' AND held_until > ?3)
			RETURNING `+wholeBacktest, holder[:], now.Add(lease).UnixMilli(), now.UnixMilli()))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		taken = &b
		_, err = tx.Exec("DELETE FROM backtest_flips WHERE backtest_id = ?1 AND n > "+
			"coalesce((SELECT kept -> 'flips' ->> 'listed' FROM backtests "+
			"WHERE id = ?1 AND kept <> ''), 0)", b.ID[:])
		return err
	})
	return taken, err
}

func orUnavailable(doing string, err error) error {
	if err == nil {
		return nil
	}
	return unavailable(doing, err)
}

// HoldBacktest implements audit.Backtests.
func (s *Store) HoldBacktest(ctx context.Context, holder, id spend.ID, p audit.BacktestProgress, lease time.Duration) error {
	return s.write(ctx, "cannot hold a backtest", func(tx *sql.Tx) error {
		now := time.Now()
		if err := changed(tx.Exec("UPDATE backtests SET held_until = ?, checks = ?, reached_ms = ?"+heldBacktest,
			now.Add(lease).UnixMilli(), p.Checks, p.Reached.UnixMilli(), id[:], holder[:], now.UnixMilli())); err != nil {
			return err
		}
		for i, flip := range p.Flips {
			if _, err := tx.Exec("INSERT INTO backtest_flips (backtest_id, n, flip) VALUES (?, ?, ?)", id[:], p.Behind+i+1, flip); err != nil {
				return err
			}
		}
		return nil
	})
}

// heldBacktest selects a backtest that the node still runs and may therefore change.
const heldBacktest = " WHERE id = ? AND holder = ? AND status = 'running' AND held_until > ?"

// changed fails with sql.ErrNoRows, which becomes audit.ErrNotFound, if a statement changed
// nothing.
func changed(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || rows > 0 {
		return err
	}
	return sql.ErrNoRows
}

// EndBacktest implements audit.Backtests.
func (s *Store) EndBacktest(ctx context.Context, holder, id spend.ID, end audit.BacktestEnd) error {
	return s.write(ctx, "cannot end a backtest", func(tx *sql.Tx) error {
		now := time.Now().UnixMilli()
		return changed(tx.Exec("UPDATE backtests SET status = ?1, error = ?2, report = coalesce(nullif(?3, ''), report), "+
			"checks = ?4, ended_at = ?5, "+
			"kept = iif(?1 = 'succeeded', ?6, kept), holder = NULL, held_until = 0 WHERE id = ?7 AND holder = ?8 AND status = 'running' "+
			"AND held_until > ?9",
			string(end.Status), end.Error, end.Report, end.Checks, now, end.Kept, id[:], holder[:], now))
	})
}

// ReleaseBacktest implements audit.Backtests.
func (s *Store) ReleaseBacktest(ctx context.Context, holder spend.ID) error {
	return s.write(ctx, "cannot release a backtest", func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE backtests SET holder = NULL, held_until = 0, attempts = attempts - 1 WHERE holder = ? AND status = 'running'",
			holder[:])
		return err
	})
}
