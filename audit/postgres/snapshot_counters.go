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
		agent := ""
		c := verify.Counter{AgentID: &agent}
		return stream(ctx, tx, []any{
			uuid(&c.ID), &c.StartMS, &c.BucketMS, &c.EndMS, &c.Count, &c.Since, &c.Used, &c.PolicyID, &c.RuleID, &c.Subject, &agent,
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
		return stream(ctx, tx, []any{uuid(&p.Counter), &p.Principal}, func() error { return each(p) },
			s.in(`SELECT counter_id, principal FROM {schema}.budget_principals
				ORDER BY substr(sha256(uuid_send(counter_id) || convert_to(principal, 'UTF8')), 1, 16)`))
	})
}

// Exhaustions implements verify.Evidence.
func (s *Snapshot) Exhaustions(ctx context.Context, each func(verify.Exhaustion) error) error {
	return s.read(ctx, "the exhaustions of budgets", func(ctx context.Context, tx pgx.Tx) error {
		var e verify.Exhaustion
		return stream(ctx, tx, []any{
			uuid(&e.Counter.ID), &e.StartMS, uuid(&e.ID), utc(&e.At), &e.PolicyID, &e.RuleID, &e.Since, &e.Subject, &e.BucketMS,
			&e.Limit, &e.MaxCount, &e.Used, &e.Count, &e.AgentID,
		},
			func() error { return each(e) },
			s.in(`SELECT counter_id, start_ms, id, at, policy_id, rule_id, since, subject, bucket_ms,
				coalesce(max_used::text, ''), coalesce(max_count::text, ''), coalesce(used::text, 'null'),
				coalesce(count, -1), coalesce(agent_id, '') FROM {schema}.budget_exhaustions
				ORDER BY counter_id, start_ms`))
	})
}
