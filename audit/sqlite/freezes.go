package sqlite

import (
	"context"
	"database/sql"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// CreateFreeze implements audit.Freezes. Taking its turn on the one writing connection is the wait for the commits in
// progress.
func (s *Store) CreateFreeze(ctx context.Context, by audit.Actor, f audit.NewFreeze) (created *audit.Freeze, replayed bool, err error) {
	err = s.write(ctx, "cannot create a freeze", func(tx *sql.Tx) (err error) {
		replayed, err = recordStop(tx, audit.FreezeCreated, f.ID.Text(spend.PrefixFreeze), f.Seen, func(seq int64) audit.Change {
			return audit.ChangeOfFreeze(audit.FreezeCreated, f.ID, f.Scope, f.Details(&by), seq, by)
		})
		return err
	})
	if err != nil {
		return nil, false, err
	}
	created, err = s.Freeze(ctx, f.ID)
	return created, replayed, err
}

// RecordGrant implements audit.BudgetGrants.
func (s *Store) RecordGrant(ctx context.Context, by audit.Actor, c audit.GrantChange) (replayed bool, err error) {
	err = s.write(ctx, "cannot record "+string(c.Kind), func(tx *sql.Tx) (err error) {
		replayed, err = recordStop(tx, c.Kind, c.ID.Text(spend.PrefixGrant), c.Seen, func(seq int64) audit.Change {
			return audit.ChangeOfGrant(&c, seq, by)
		})
		return err
	})
	return replayed, err
}

// recordStop records a change that stops what was judged before, and returns whether a creation was recorded before.
func recordStop(
	tx *sql.Tx, kind audit.ChangeKind, name string, seen int64, change func(seq int64) audit.Change,
) (replayed bool, err error) {
	var known bool
	var stops int64
	err = tx.QueryRow("SELECT EXISTS (SELECT 1 FROM changes WHERE subject = ?), (SELECT stops FROM epoch)", name).Scan(&known, &stops)
	switch {
	case err != nil:
		return false, err
	case known && (kind == audit.FreezeCreated || kind == audit.GrantCreated):
		return true, nil
	case seen >= 0 && seen != stops:
		return false, audit.ErrStaleStops
	}
	seq, err := raise(tx)
	if err != nil {
		return false, err
	}
	if err := record(tx, change(seq)); err != nil {
		return false, err
	}
	return false, stopAt(tx, seq)
}

// stopAt refuses commits that were judged before a change.
func stopAt(tx *sql.Tx, seq int64) error {
	_, err := tx.Exec("UPDATE epoch SET stops = ?", seq)
	return err
}

// recordFreeze records a change of a freeze, which stops what was judged before.
func recordFreeze(tx *sql.Tx, kind audit.ChangeKind, id spend.ID, scope audit.FreezeScope, details string, by audit.Actor) error {
	seq, err := raise(tx)
	if err != nil {
		return err
	}
	if err := record(tx, audit.ChangeOfFreeze(kind, id, scope, details, seq, by)); err != nil {
		return err
	}
	return stopAt(tx, seq)
}

// ReleaseFreeze implements audit.Freezes.
func (s *Store) ReleaseFreeze(ctx context.Context, by audit.Actor, r audit.FreezeRelease) error {
	f := r.Freeze
	return s.write(ctx, "cannot release freeze "+f.ID.Text(spend.PrefixFreeze), func(tx *sql.Tx) error {
		var stale bool
		err := tx.QueryRow("SELECT ?2 <> (SELECT max(seq) FROM changes WHERE subject = ?1) OR EXISTS (SELECT 1 FROM keys WHERE generation > ?3)",
			f.ID.Text(spend.PrefixFreeze), f.Last, r.Keys).Scan(&stale)
		switch {
		case err != nil:
			return err
		case stale:
			return audit.ErrStaleFreeze
		}
		details := r.Details(&by)
		for _, kind := range r.Kinds(&by) {
			if err := recordFreeze(tx, kind, f.ID, f.Scope, details, by); err != nil {
				return err
			}
			details = f.EndDetails()
		}
		return nil
	})
}

// EndFreeze implements audit.Freezes.
func (s *Store) EndFreeze(ctx context.Context, f *audit.Freeze) error {
	return s.write(ctx, "cannot end freeze "+f.ID.Text(spend.PrefixFreeze), func(tx *sql.Tx) error {
		var ended bool
		err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM changes WHERE subject = ? AND kind IN ('freeze.released', 'freeze.ended'))",
			f.ID.Text(spend.PrefixFreeze)).Scan(&ended)
		if err != nil || ended || time.Now().Before(f.Until) {
			return err
		}
		return recordFreeze(tx, audit.FreezeEnded, f.ID, f.Scope, f.EndDetails(), audit.Actor{})
	})
}
