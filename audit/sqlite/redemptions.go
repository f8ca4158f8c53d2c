package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// late reports whether the outcome is a redemption that comes too late, or that is for a check from
// before a restore.
func late(tx *sql.Tx, o *spend.Outcome) (bool, error) {
	if o.Status != spend.Redeemed || time.Now().UnixMilli() > o.RedeemBy.UnixMilli() {
		return o.Status == spend.Redeemed, nil
	}
	fromMS, err := scalar[int64](tx.QueryRow("SELECT from_ms FROM redeemable"))
	return o.CheckID.Compare(audit.FirstID(fromMS)) < 0, err
}

// noteStep maintains redemptions_open and allows_open.
func noteStep(tx *sql.Tx, o *spend.Outcome) (err error) {
	if o.Step == 1 {
		if _, err := tx.Exec("DELETE FROM allows_open WHERE check_id = ?", o.CheckID[:]); err != nil {
			return err
		}
	}
	now := time.Now().UnixMilli()
	switch {
	case o.Status == spend.Redeemed:
		_, err = tx.Exec("INSERT INTO redemptions_open (check_id, redeemed_at) VALUES (?, ?)", o.CheckID[:], now)
	case o.Status == spend.TakenOver:
		_, err = tx.Exec("UPDATE redemptions_open SET redeemed_at = ?, doubted_at = NULL WHERE check_id = ?", now, o.CheckID[:])
	case o.Status == spend.InDoubt:
		_, err = tx.Exec("UPDATE redemptions_open SET doubted_at = ? WHERE check_id = ?", now, o.CheckID[:])
	case o.Number == 1 && o.Step > 1:
		_, err = tx.Exec("DELETE FROM redemptions_open WHERE check_id = ?", o.CheckID[:])
	}
	return err
}

// Untouched implements audit.Redemptions.
func (s *Store) Untouched(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	return collect(ctx, s.reader, "cannot look up checks", scanCheck,
		"SELECT "+checkColumns.String()+" FROM checks AS c WHERE check_id IN ("+marks(len(ids))+`)
		AND NOT EXISTS (SELECT 1 FROM outcomes AS o WHERE o.check_id = c.check_id)`, idArgs(ids)...)
}

// Unread implements audit.Redemptions: a commit reads a check as cheaply as Untouched does.
func (s *Store) Unread(spend.ID) bool { return true }

// unread are the recorded checks of unread redemptions.
type unread map[*spend.Outcome]*spend.Check

// compare adds the check of an unread redemption, and reports whether it is recorded, is of no payment and is
// as the request says. For any other outcome it returns true.
func (u *unread) compare(tx *sql.Tx, o *spend.Outcome) (bool, error) {
	if !o.Unread {
		return true, nil
	}
	check, err := scanCheck(tx.QueryRow("SELECT "+checkColumns.String()+" FROM checks WHERE check_id = ?", o.CheckID[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if *u == nil {
		*u = make(unread)
	}
	(*u)[o] = check
	return err == nil && check.Payment == nil && check.Carries(o.Check), err
}

// give sets the checks of redemptions that are recorded, whole.
func (u unread) give() {
	for o, check := range u {
		o.Check, o.Unread = check, false
	}
}
