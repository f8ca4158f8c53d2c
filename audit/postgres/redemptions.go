package postgres

import (
	"context"

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
	return collect(ctx, s, "cannot look up checks", scanCheck, untouchedQuery(), pgx.QueryResultFormats{pgx.BinaryFormatCode}, uuids(ids))
}

// untouchedQuery is planned for its own values, as prepareRead says: a plan for all would
// take locks on each day that there is, and half a second of planning with 400 of them,
// anew after each ANALYZE. In an expression, the planner looks each check up, whatever it
// thinks how many outcomes there are.
func untouchedQuery() string {
	return "SELECT " + columnList(chain.CheckColumns()) + ` FROM checks AS c WHERE c.check_id = ANY ($1::uuid[])
		AND CASE WHEN EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = c.check_id) THEN false ELSE true END`
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
