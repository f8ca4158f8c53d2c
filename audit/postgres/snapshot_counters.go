package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/verify"
)

func counterColumns() []string {
	return []string{"counter_id", "start_ms", "bucket_ms", "end_ms", "count", "since", "used", "policy_id", "rule_id", "subject", "agent_id"}
}

// Counters implements verify.Evidence.
func (s *Snapshot) Counters(ctx context.Context, each func(verify.Counter) error) error {
	return s.read(ctx, "the counters of budgets", func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.Conn().PgConn().Exec(ctx, noIndex).Close(); err != nil {
			return err
		}
		var c verify.Counter
		return stream(ctx, tx, []any{uuid(&c.ID), &c.StartMS, &c.BucketMS, &c.EndMS, &c.Count, &c.Since, &c.Used, &c.PolicyID, &c.RuleID, &c.Subject},
			func() error { return each(c) },
			s.in(`SELECT counter_id, start_ms, coalesce(bucket_ms, -1), coalesce(end_ms, 0), coalesce(count, -1), coalesce(since, -1), coalesce(used::text, 'null'),
				coalesce(policy_id, ''), coalesce(rule_id, ''), coalesce(subject, '') FROM {schema}.budget_counters ORDER BY counter_id, start_ms`))
	})
}
