package sqlstore

import (
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// ofStopped selects the allowed checks of key $1 that its stop $2 stopped, of those with the alias c.
const ofStopped = ` c.key_id = $1 AND coalesce(c.stops, 0) < $2 AND c.decision IN ('a', 'allow')`

// stopMargin is how much later than its own time a stop may be noted to be by another clock.
const stopMargin = time.Minute

// CountStopped implements audit.Keys.
func (s *Store) CountStopped(ctx context.Context, keyID string, stop int64, since time.Time) (n audit.Stopped, err error) {
	stopped, err := find(ctx, s, "cannot count what a key was allowed", func(row Row) (n audit.Stopped, err error) {
		return n, row.Scan(&n.Checks, &n.Voided)
	}, `SELECT (SELECT count(*) FROM checks AS c WHERE c.check_id >= $3 AND`+ofStopped+` AND NOT EXISTS (
			SELECT 1 FROM outcomes AS o WHERE o.check_id = c.check_id AND o.step = 1 AND coalesce(o.stops, 0) < $2)),
		(SELECT count(*) FROM allows_open AS a JOIN checks AS c ON c.check_id = a.check_id WHERE`+ofStopped+` AND NOT EXISTS (
			SELECT 1 FROM outcomes AS o WHERE o.check_id = a.check_id AND o.step = 1))
		+ (SELECT count(*) FROM outcomes AS o JOIN checks AS c ON c.check_id = o.check_id WHERE`+ofStopped+` AND o.outcome_id >= $4
			AND o.step = 1 AND o.stops >= $2 AND o.payment LIKE '%"`+string(spend.FlagStopped)+`"%')`,
		keyID, stop, audit.FirstID(since.UnixMilli()), audit.FirstID(time.Now().Add(-stopMargin).UnixMilli()))
	if err != nil {
		return n, err
	}
	return *stopped, nil
}

// OpenAllows implements audit.Payments.
func (s *Store) OpenAllows(ctx context.Context, after spend.ID, limit int) ([]audit.OpenAllow, error) {
	return list(ctx, s, "cannot look for checks that nobody redeemed", func(row Row) (a audit.OpenAllow, err error) {
		return a, row.Scan(&a.Check, &a.KeyID, &a.Stops)
	}, `SELECT a.check_id, c.key_id, coalesce(c.stops, 0) FROM allows_open AS a JOIN checks AS c ON c.check_id = a.check_id
		WHERE a.check_id > $1 AND NOT EXISTS (SELECT 1 FROM outcomes AS o WHERE o.check_id = a.check_id AND o.step = 1)
		ORDER BY a.check_id LIMIT $2`, after, limit)
}
