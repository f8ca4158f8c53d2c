package sqlstore

import (
	"context"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Deployment implements audit.Fences.
func (s *Store) Deployment(ctx context.Context) (spend.ID, error) {
	return value[spend.ID](ctx, s, "cannot read the deployment's ID", "SELECT id FROM deployment")
}

// Epoch implements audit.Fences.
func (s *Store) Epoch(ctx context.Context) (spend.ID, error) {
	return value[spend.ID](ctx, s, "cannot read the epoch", "SELECT id FROM epoch")
}

// Doubts implements audit.Redemptions.
func (s *Store) Doubts(ctx context.Context, limit int) (d audit.Doubts, err error) {
	const doing = "cannot look for redeemed checks without an outcome"
	d.Due, err = list(ctx, s, doing, scalar[spend.ID], `SELECT check_id FROM redemptions_open
		WHERE doubted_at IS NULL AND redeemed_at <= from_ms(now_ms() - $1) ORDER BY doubted_at, redeemed_at LIMIT $2`,
		spend.DoubtAfter.Milliseconds(), limit)
	if err != nil {
		return d, err
	}
	d.InDoubt, err = value[int64](ctx, s, doing, "SELECT count(*) FROM redemptions_open WHERE doubted_at IS NOT NULL")
	return d, err
}
