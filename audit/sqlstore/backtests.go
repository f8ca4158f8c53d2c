package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	listedBacktest = `id, policy_id, version, from_ms, to_ms, recorded, key_id, principal, status, created_at, started_at, ended_at, attempts,
		checks, reached_ms, error, draft`
	wholeBacktest = listedBacktest + ", rules, report, kept"
	openBacktest  = "status IN ('queued', 'running')"
)

// CreateBacktest implements audit.Backtests. Two concurrent calls may exceed the bound by one.
func (s *Store) CreateBacktest(ctx context.Context, b *audit.Backtest) error {
	const doing = "cannot store a backtest"
	stored, err := s.db.Exec(ctx, doing, `INSERT INTO backtests (
			id, policy_id, version, rules, from_ms, to_ms, recorded, key_id, principal, created_at, draft)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11
		WHERE (SELECT count(*) FROM backtests WHERE `+openBacktest+`) < $12 OR EXISTS (SELECT 1 FROM backtests WHERE id = $1)
		ON CONFLICT (id) DO UPDATE SET id = excluded.id`, b.ID, b.PolicyID, b.Version, b.Rules, b.From.UnixMilli(), b.To.UnixMilli(),
		b.Recorded, b.KeyID, b.Principal, b.CreatedAt.UnixMilli(), b.Draft, audit.MaxBacktests)
	if err == nil && stored == 0 {
		err = fmt.Errorf("%s: %w", doing, audit.ErrBacktestsFull)
	}
	return err
}

// ContinueBacktest implements audit.Backtests.
func (s *Store) ContinueBacktest(ctx context.Context, id spend.ID, to, now time.Time, after time.Duration) error {
	_, err := s.db.Exec(ctx, "cannot continue a backtest", `UPDATE backtests SET status = 'queued',
			to_ms = CASE WHEN to_ms < $2 THEN $2 ELSE to_ms END, created_at = $3, started_at = NULL, ended_at = NULL, attempts = 0, error = '',
			reached_ms = NULL
		WHERE id = $1 AND NOT `+openBacktest+` AND ended_at <= now_ms() - $4`, id, to.UnixMilli(), now.UnixMilli(), after.Milliseconds())
	return err
}

// scanListedBacktest reads listedBacktest and the columns after them.
func scanListedBacktest(row Row, b *audit.Backtest, rest ...any) error {
	return row.Scan(append([]any{
		&b.ID, &b.PolicyID, &b.Version, &b.From, &b.To, &b.Recorded, &b.KeyID, &b.Principal, &b.Status, &b.CreatedAt, &b.StartedAt, &b.EndedAt,
		&b.Attempts, &b.Checks, &b.Reached, &b.Error, &b.Draft,
	}, rest...)...)
}

func scanBacktest(row Row) (b audit.Backtest, err error) {
	return b, scanListedBacktest(row, &b, &b.Rules, &b.Report, &b.Kept)
}

// Backtest implements audit.Backtests.
func (s *Store) Backtest(ctx context.Context, id spend.ID) (*audit.Backtest, error) {
	return find(ctx, s, "cannot read a backtest", scanBacktest, "SELECT "+wholeBacktest+" FROM backtests WHERE id = $1", id)
}

// ListBacktests implements audit.Backtests.
func (s *Store) ListBacktests(ctx context.Context, q audit.BacktestQuery) (page []audit.Backtest, more bool, err error) {
	var w Where
	w.And("id < ", cmp.Or(q.Before, audit.MaxID()))
	w.Is("policy_id", q.PolicyID)
	w.Is("status", string(q.Status))
	In(&w, "policy_id", q.PolicyIDs)
	page, err = list(ctx, s, "cannot list backtests", func(row Row) (b audit.Backtest, err error) {
		return b, scanListedBacktest(row, &b)
	}, "SELECT "+listedBacktest+" FROM backtests"+w.String()+" ORDER BY id DESC LIMIT "+w.Arg(q.Limit+1), w.Args...)
	page, more = audit.Cut(page, q.Limit)
	return page, more, err
}

// CancelBacktest implements audit.Backtests.
func (s *Store) CancelBacktest(ctx context.Context, id spend.ID) (*audit.Backtest, error) {
	_, err := s.db.Exec(ctx, "cannot cancel a backtest",
		"UPDATE backtests SET status = 'canceled', ended_at = now_ms(), holder = NULL, held_until = 0 WHERE id = $1 AND "+openBacktest, id)
	if err != nil {
		return nil, err
	}
	return s.Backtest(ctx, id)
}

// BacktestFlips implements audit.Backtests.
func (s *Store) BacktestFlips(ctx context.Context, id spend.ID, behind, limit int) (page []string, more bool, err error) {
	page, err = list(ctx, s, "cannot list flips", scalar[string],
		"SELECT flip FROM backtest_flips WHERE backtest_id = $1 AND n > $2 ORDER BY n LIMIT $3", id, behind, limit+1)
	page, more = audit.Cut(page, limit)
	return page, more, err
}

// leaseBacktest takes the oldest backtest. A second caller waits for the first, and then finds the
// backtest held.
const leaseBacktest = `UPDATE backtests SET status = 'running', holder = $1, held_until = now_ms() + $2, attempts = attempts + 1,
		started_at = coalesce(started_at, now_ms()), checks = 0, reached_ms = NULL
	WHERE id = (SELECT id FROM backtests WHERE ` + openBacktest + ` ORDER BY created_at, id LIMIT 1)
		AND ` + openBacktest + ` AND held_until <= now_ms()
		AND NOT EXISTS (SELECT 1 FROM backtests AS r WHERE r.status = 'running' AND r.held_until > now_ms())
	RETURNING ` + wholeBacktest

// LeaseBacktest implements audit.Backtests. An attempt may be counted twice.
func (s *Store) LeaseBacktest(ctx context.Context, holder spend.ID, lease time.Duration) (taken *audit.Backtest, err error) {
	const doing = "cannot take a backtest"
	open, err := value[bool](ctx, s, doing, "SELECT EXISTS (SELECT 1 FROM backtests WHERE "+openBacktest+")")
	if err != nil || !open {
		return nil, err // so that nothing is written while nothing happens
	}
	err = s.db.Write(ctx, doing, "", func(ctx context.Context, tx Tx) error {
		found, err := collect(ctx, tx, scanBacktest, leaseBacktest, holder, lease.Milliseconds())
		if taken = nil; err != nil || len(found) == 0 {
			return err
		}
		taken = &found[0]
		var kept struct {
			Flips struct {
				Listed int64 `json:"listed"`
			} `json:"flips"`
		}
		if taken.Kept != "" {
			if err := json.Unmarshal([]byte(taken.Kept), &kept); err != nil {
				return fmt.Errorf("cannot read the report that a backtest continues: %w", err)
			}
		}
		_, err = tx.Exec(ctx, "DELETE FROM backtest_flips WHERE backtest_id = $1 AND n > $2", taken.ID, kept.Flips.Listed)
		return err
	})
	return taken, err
}

// heldBacktest selects a backtest that the node still runs and may therefore change.
const heldBacktest = " WHERE id = $1 AND holder = $2 AND status = 'running' AND held_until > now_ms()"

// HoldBacktest implements audit.Backtests.
func (s *Store) HoldBacktest(ctx context.Context, holder, id spend.ID, p audit.BacktestProgress, lease time.Duration) error {
	const atOnce = 100 // flips
	return s.write(ctx, "cannot hold a backtest", "", func(ctx context.Context, tx Tx) (refused, err error) {
		var reached any
		if !p.Reached.IsZero() {
			reached = p.Reached.UnixMilli()
		}
		held, err := tx.Exec(ctx, "UPDATE backtests SET held_until = now_ms() + $3, checks = $4, reached_ms = $5"+heldBacktest,
			id, holder, lease.Milliseconds(), p.Checks, reached)
		if err != nil || held == 0 {
			return audit.ErrNotFound, err
		}
		n := p.Behind
		for flips := range slices.Chunk(p.Flips, atOnce) {
			var rows Where
			for _, flip := range flips {
				n++
				rows.Text += ", (" + rows.Arg(id) + ", " + rows.Arg(n) + ", " + rows.Arg(flip) + ")"
			}
			_, err := tx.Exec(ctx, "INSERT INTO backtest_flips (backtest_id, n, flip) VALUES "+strings.TrimPrefix(rows.Text, ", ")+
				" ON CONFLICT DO NOTHING", rows.Args...)
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
}

// EndBacktest implements audit.Backtests.
func (s *Store) EndBacktest(ctx context.Context, holder, id spend.ID, end audit.BacktestEnd) error {
	return s.change(ctx, "cannot end a backtest", `UPDATE backtests SET status = $3, error = $4,
			report = CASE WHEN $5 = '' THEN report ELSE $5 END, checks = $6, kept = CASE WHEN $3 = 'succeeded' THEN $7 ELSE kept END,
			ended_at = now_ms(), holder = NULL, held_until = 0`+heldBacktest,
		id, holder, string(end.Status), end.Error, end.Report, end.Checks, end.Kept)
}

// ReleaseBacktest implements audit.Backtests.
func (s *Store) ReleaseBacktest(ctx context.Context, holder spend.ID) error {
	_, err := s.db.Exec(ctx, "cannot release a backtest",
		"UPDATE backtests SET holder = NULL, held_until = 0, attempts = attempts - 1 WHERE holder = $1 AND status = 'running'", holder)
	return err
}
