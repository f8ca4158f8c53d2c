package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// BeginRestored prepares a file that was restored from a backup, or copied, for a node, as
// postgres.BeginRestored does with a fleet's database: existing checks can no longer be redeemed
// and open approvals expire, since both may have been used after the backup; webhooks are disabled,
// nobody is signed in, everything is frozen, and a new epoch begins. No node may have the file open. It
// refuses a damaged file, in which keys and windows may be missing.
func (s *Store) BeginRestored(ctx context.Context) (r audit.Restored, err error) {
	if err := s.undamaged(ctx); err != nil {
		return r, err
	}
	r.Epoch = spend.NewID(time.Now())
	err = s.write(ctx, "cannot begin after a restore", func(tx *sql.Tx) error {
		now := time.Now()
		r.Last, err = scanID(tx.QueryRow("SELECT check_id FROM checks ORDER BY check_id DESC LIMIT 1"))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		open, err := approvals(ctx, tx, "WHERE a.id IN (SELECT approval_id FROM approval_deadlines) ORDER BY a.id")
		if err != nil {
			return err
		}
		if r.Approvals, err = expire(tx, open, now, true); err != nil {
			return err
		}
		if r.Freeze, err = freezeRestored(tx); err != nil {
			return err
		}
		if r.Webhooks, err = disableWebhooks(ctx, tx, now); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE epoch SET id = ?", r.Epoch[:]); err != nil {
			return err
		}
		if _, err := tx.Exec(sqlstore.EndSessions); err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE redeemable SET from_ms = ?", max(now.UnixMilli(), r.After()))
		return err
	})
	return r, err
}

// freezeRestored freezes everything, unless a freeze of an earlier restore still does, of which nobody has approved the
// release: that was of another gap.
func freezeRestored(tx *sql.Tx) (id spend.ID, err error) {
	by := audit.Restorer()
	var name string
	err = tx.QueryRow(`SELECT c.subject FROM changes AS c WHERE c.kind = 'freeze.created' AND c.actor = 'system' AND c.principal = ?
			AND NOT EXISTS (SELECT 1 FROM changes AS e WHERE e.subject = c.subject AND e.kind <> 'freeze.created')
		ORDER BY c.seq LIMIT 1`, by.Principal).Scan(&name)
	if err == nil {
		return spend.ParseID(name, spend.PrefixFreeze)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	f := audit.RestoreFreeze()
	return f.ID, stop(tx, audit.ChangeOfFreeze(audit.FreezeCreated, f.ID, f.Scope, f.Details(&by), by))
}

// undamaged fails if the file cannot be read or an index lacks rows of its table.
func (s *Store) undamaged(ctx context.Context) error {
	found, err := one(ctx, s.reader, "cannot read the file", scalar[string], "PRAGMA integrity_check(1)")
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err == nil && found == "ok":
		return nil
	case err == nil:
		err = errors.New(found)
	}
	return fmt.Errorf("the file is damaged, as when it was copied while a node was at work; take another copy: %w", err)
}

func disableWebhooks(ctx context.Context, tx *sql.Tx, now time.Time) (disabled int, err error) {
	active, err := collect(ctx, tx, "cannot list webhooks", sqlstore.ScanWebhook, selectWebhooks+"WHERE active ORDER BY id")
	if err != nil {
		return 0, err
	}
	for i := range active {
		no := false
		if err := changeWebhook(tx, audit.Restorer(), &active[i], audit.WebhookChange{Active: &no}, now); err != nil {
			return 0, err
		}
	}
	return len(active), nil
}
