package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// UnchangedPayments implements audit.Payments. It reads the table part by part: an index of when payments changed would cost
// each commit.
func (s *Store) UnchangedPayments(ctx context.Context, since time.Time, each func([]spend.Hash) error) error {
	const (
		doing  = "cannot look for old payments"
		atOnce = 128 // pages of the table
	)
	var pages int64
	err := s.list(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, "SELECT pg_relation_size('payments') / current_setting('block_size')::bigint").Scan(&pages)
	})
	for page := int64(0); page < pages && err == nil; page += atOnce {
		var found []spend.Hash
		found, err = collectBy(ctx, s.list, doing, func(row pgx.CollectableRow) (h spend.Hash, err error) {
			return h, row.Scan(pg.Bytea(&h))
		}, "SELECT payment_hash FROM payments WHERE ctid >= $1::text::tid AND ctid < $2::text::tid AND changed_at < $3 "+
			"AND $3 >= (SELECT from_ms(r.from_ms) FROM redeemable AS r)",
			fmt.Sprintf("(%d,0)", page), fmt.Sprintf("(%d,0)", page+atOnce), since)
		if err == nil && len(found) > 0 {
			err = each(found)
		}
	}
	return err
}

// RemovePayments implements audit.Payments.
func (s *Store) RemovePayments(ctx context.Context, ended []*spend.Payment, before time.Time) (removed int, err error) {
	wanted := audit.RemovalOf(ended, before)
	err = s.control(ctx, "cannot remove payments", []any{&removed}, byActor("SELECT remove_payments($1, ", audit.Keeper(), wanted.Details()))
	return removed, err
}
