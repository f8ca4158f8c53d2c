package snapshot

import (
	"context"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/verify"
)

// Counters implements verify.Evidence.
func (s *Snapshot) Counters(ctx context.Context, each func(verify.Counter) error) error {
	return s.read(ctx, "the counters of budgets", func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.Conn().PgConn().Exec(ctx, noIndex).Close(); err != nil {
			return err
		}
		agent := ""
		c := verify.Counter{AgentID: &agent}
		return stream(ctx, tx, []any{
			pg.UUID(&c.ID), &c.StartMS, &c.BucketMS, &c.EndMS, &c.Count, &c.Since, &c.Used, &c.PolicyID, &c.RuleID, &c.Subject, &agent,
		},
			func() error { return each(c) },
			s.in(`SELECT counter_id, start_ms, coalesce(bucket_ms, -1), coalesce(end_ms, 0), coalesce(count, -1), coalesce(since, -1),
				coalesce(used::text, 'null'),
				coalesce(policy_id, ''), coalesce(rule_id, ''), coalesce(subject, ''), coalesce(agent_id, '')
				FROM {schema}.budget_counters ORDER BY counter_id, start_ms`))
	})
}

// Principals implements verify.Evidence.
func (s *Snapshot) Principals(ctx context.Context, each func(verify.CounterPrincipal) error) error {
	return s.read(ctx, "the principals of counters", func(ctx context.Context, tx pgx.Tx) error {
		var p verify.CounterPrincipal
		return stream(ctx, tx, []any{pg.UUID(&p.Counter), &p.Principal}, func() error { return each(p) },
			s.in(`SELECT counter_id, principal FROM {schema}.budget_principals
				ORDER BY substr(sha256(uuid_send(counter_id) || convert_to(principal, 'UTF8')), 1, 16)`))
	})
}
