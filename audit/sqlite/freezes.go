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
		replayed, err = recordStop(tx, audit.ChangeOfFreeze(audit.FreezeCreated, f.ID, f.Scope, f.Details(&by), by), f.Seen)
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
		replayed, err = recordStop(tx, audit.ChangeOfGrant(&c, by), c.Seen)
		return err
	})
	return replayed, err
}

// recordStop records a change that stops what was judged before, and returns whether a creation was recorded before.
func recordStop(tx *sql.Tx, c audit.Change, seen int64) (replayed bool, err error) {
	var known bool
	var stops int64
	err = tx.QueryRow("SELECT EXISTS (SELECT 1 FROM changes WHERE subject = ?), (SELECT stops FROM epoch)", c.Subject).Scan(&known, &stops)
	switch {
	case err != nil:
		return false, err
	case known && (c.Kind == audit.FreezeCreated || c.Kind == audit.GrantCreated):
		return true, nil
	case seen >= 0 && seen != stops:
		return false, audit.ErrStaleStops
	}
	return false, stop(tx, c)
}

// stop records a change, and refuses commits that were judged before it.
func stop(tx *sql.Tx, c audit.Change) error {
	if err := record(tx, c); err != nil {
		return err
	}
	_, err := tx.Exec("UPDATE epoch SET stops = (SELECT generation FROM config)")
	return err
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
			if err := stop(tx, audit.ChangeOfFreeze(kind, f.ID, f.Scope, details, by)); err != nil {
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
		return stop(tx, audit.ChangeOfFreeze(audit.FreezeEnded, f.ID, f.Scope, f.EndDetails(), audit.Actor{}))
	})
}
