package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

const (
	summedColumns = "agent_id, counterparty, currency, amount::text, decision, policy_id, coalesce(rule_id, ''), " +
		"coalesce(reason_code, ''), latency_ms::bigint"
	// archivedUntil selects when the last archived day of a range of IDs ends; null if none is archived.
	archivedUntil = `SELECT (max(day) + 1)::timestamp AT TIME ZONE 'UTC' FROM archived_days
		WHERE day >= day_of($1) AND day <= day_of($2)`
)

// CheckSums implements audit.Lists. It reads checks as ListChecks does.
func (s *Store) CheckSums(ctx context.Context, q audit.CheckQuery) (*audit.CheckSums, error) {
	return inSnapshot(ctx, s.list, "cannot add checks up", func(ctx context.Context, tx pgx.Tx) (*audit.CheckSums, error) {
		return sumChecks(ctx, tx, &q)
	})
}

func sumChecks(ctx context.Context, tx pgx.Tx, q *audit.CheckQuery) (*audit.CheckSums, error) {
	low, end := q.IDRange()
	var since time.Time
	var archived *time.Time
	if err := tx.QueryRow(ctx, archivedUntil, [16]byte(low), [16]byte(end)).Scan(&archived); err != nil {
		return nil, err
	}
	if archived != nil {
		low, since = audit.FirstID(archived.UnixMilli()), archived.UTC()
	}
	starts, err := listingStarts(ctx, tx, low, end)
	if err != nil {
		return nil, err
	}
	sums, left := audit.NewSumming(), q.Examine
	for _, start := range starts {
		query, args := checksQuery(summedColumns, q, start, end, left, left)
		if err := addSums(ctx, tx, sums, query, args); err != nil {
			return nil, err
		}
		var examined int
		if err := tx.QueryRow(ctx, examinedQuery(left), [16]byte(start), [16]byte(end)).Scan(&examined, pg.UUID(&end)); err != nil {
			return nil, err
		}
		if left -= examined; left == 0 {
			return sums.Sums(end.Time()), nil
		}
		end = start
	}
	return sums.Sums(since), nil
}

// addSums adds the checks that a query selects.
func addSums(ctx context.Context, tx pgx.Tx, sums *audit.Summing, query string, args []any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	var c audit.Summed
	var amount, reason string
	var effect byte
	_, err = pgx.ForEachRow(rows, []any{
		&c.Agent, &c.Counterparty, &c.Currency, &amount, &effect, &c.Rule.PolicyID, &c.Rule.RuleID, &reason, &c.LatencyMS,
	}, func() (err error) {
		c.Effect, c.Rule.Reason = effectOf(effect), spend.Reason(reason)
		if c.Amount, err = spend.ParseAmount(amount); err == nil {
			sums.Add(&c)
		}
		return err
	})
	return err
}
