package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Untouched implements audit.Redemptions.
func (s *Store) Untouched(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	known, ids := s.remembered.take(ids)
	if len(ids) == 0 {
		return known, nil
	}
	read, err := s.readUntouched(ctx, ids)
	return append(known, read...), err
}

func (s *Store) readUntouched(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	low, high := slices.MinFunc(ids, spend.ID.Compare), slices.MaxFunc(ids, spend.ID.Compare)
	return collect(ctx, s, "cannot look up checks", scanCheck, "SELECT "+columnList(chain.CheckColumns())+" FROM untouched_checks($1, $2, $3)",
		pgx.QueryResultFormats{pgx.BinaryFormatCode}, uuids(ids), [16]byte(low), [16]byte(high))
}

// RedeemedUnder implements audit.Redemptions.
func (s *Store) RedeemedUnder(ctx context.Context, once spend.Hash) (spend.ID, error) {
	return one(ctx, s, "cannot look up a lasting key", scanID, "SELECT check_id FROM redemption_keys WHERE key_hash = $1", once[:])
}

// Doubts implements audit.Redemptions.
func (s *Store) Doubts(ctx context.Context, limit int) (d audit.Doubts, err error) {
	const doing = "cannot look for redeemed checks without an outcome"
	d.Due, err = collect(ctx, s, doing, scanID, `SELECT check_id FROM redemptions_open
		WHERE doubted_at IS NULL AND redeemed_at <= clock_timestamp() - $1 * interval '1 second' ORDER BY redeemed_at LIMIT $2`,
		int(spend.DoubtAfter.Seconds()), limit)
	if err != nil {
		return d, err
	}
	d.InDoubt, err = one(ctx, s, doing, pgx.RowTo[int64], "SELECT count(*) FROM redemptions_open WHERE doubted_at IS NOT NULL")
	return d, err
}
