package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// UnchangedPayments implements audit.Payments.
func (s *Store) UnchangedPayments(ctx context.Context, since time.Time, each func([]spend.Hash) error) error {
	const atOnce = 1000
	for last := (spend.Hash{}); ; {
		found, err := collect(ctx, s.reader, "cannot look for old payments", func(row scanner) (h spend.Hash, err error) {
			return h, row.Scan(blob(h[:]))
		}, "SELECT payment_hash FROM payments WHERE payment_hash > ?1 AND changed_at < ?2 AND ?2 >= (SELECT from_ms FROM redeemable) "+
			"ORDER BY payment_hash LIMIT ?3", last[:], since.UnixMilli(), atOnce)
		if err != nil || len(found) == 0 {
			return err
		}
		if err := each(found); err != nil {
			return err
		}
		last = found[len(found)-1]
	}
}

// RemovePayments implements audit.Payments.
func (s *Store) RemovePayments(ctx context.Context, ended []*spend.Payment, before time.Time) (removed int, err error) {
	const doing = "cannot remove payments"
	if before.After(time.Now().Add(-spend.PaymentsKept)) {
		return 0, fmt.Errorf("%s: they are kept for %s at least", doing, spend.PaymentsKept)
	}
	err = s.write(ctx, doing, func(tx *sql.Tx) error {
		var gone []*spend.Payment
		for _, p := range ended {
			hash := p.Hash()
			rows, err := affected(tx.Exec(`DELETE FROM payments AS p WHERE payment_hash = ? AND version = ? AND changed_at < ?
				AND first_check NOT IN (SELECT check_id FROM redemptions_open)
				AND NOT EXISTS (SELECT 1 FROM payment_checks AS c JOIN redemptions_open USING (check_id) WHERE c.payment_hash = p.payment_hash)`,
				hash[:], p.Version, before.UnixMilli()))
			if err != nil {
				return err
			}
			if rows == 0 {
				continue
			}
			gone = append(gone, p)
			if _, err := tx.Exec("DELETE FROM payment_checks WHERE payment_hash = ?", hash[:]); err != nil {
				return err
			}
		}
		if removed = len(gone); removed == 0 {
			return nil
		}
		return record(tx, audit.ChangeOfPayments(audit.RemovalOf(gone, before), time.Now()))
	})
	return removed, err
}
