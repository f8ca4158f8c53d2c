package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/chaos/judge"
)

// readBack reads every answered check once more, through all nodes.
func (w *workload) readBack() {
	seen := make(map[string]struct{})
	ids := make(chan string, len(w.rec.history.Ops))
	for _, o := range w.rec.history.Ops {
		if o.Kind != judge.Check || o.Status != 200 {
			continue
		}
		if _, id, ok := strings.Cut(o.Answer, `"check_id":"`); ok {
			id, _, _ = strings.Cut(id, `"`)
			if _, twice := seen[id]; !twice {
				seen[id] = struct{}{}
				ids <- id
			}
		}
	}
	close(ids)
	var reading sync.WaitGroup
	for i, a := range w.agents {
		reading.Go(func() {
			for id := range ids {
				a.get(i%(nodeCount+1), id)
			}
		})
	}
	reading.Wait()
}

// readTrail adds what PostgreSQL has recorded.
func (s *deployment) readTrail(ctx context.Context, h *judge.History) (err error) {
	if h.Rows, err = query(ctx, s, checksSQL, pgx.RowToStructByPos[judge.Row]); err != nil {
		return err
	}
	if h.Violations, err = query(ctx, s, violationsSQL, pgx.RowToStructByPos[judge.Violation]); err != nil {
		return err
	}
	h.Counters, err = query(ctx, s, "SELECT policy_id, rule_id, subject, start_ms, used::text, count FROM budget_counters WHERE start_ms >= 0",
		pgx.RowToStructByPos[judge.Counter])
	if err != nil {
		return err
	}
	if h.Outcomes, err = query(ctx, s, outcomesSQL, pgx.RowToStructByPos[judge.Outcome]); err != nil {
		return err
	}
	if h.Redemptions, err = query(ctx, s, redemptionsSQL, pgx.RowToStructByPos[judge.Redemption]); err != nil {
		return err
	}
	if h.Payments, err = query(ctx, s, paymentsSQL, pgx.RowToStructByPos[judge.PaymentStep]); err != nil {
		return err
	}
	if h.Freezes, err = query(ctx, s, freezesSQL, pgx.RowToStructByPos[judge.FreezeStep]); err != nil {
		return err
	}
	if h.GrantSteps, err = query(ctx, s, grantsSQL, pgx.RowToStructByPos[judge.GrantStep]); err != nil {
		return err
	}
	h.Decisions, err = query(ctx, s,
		"SELECT subject, kind, coalesce(principal, ''), at FROM changes WHERE kind IN ('approval.approved', 'approval.denied')",
		pgx.RowToStructByPos[judge.ApprovalDecision])
	if err != nil {
		return err
	}
	h.Uses, err = query(ctx, s, "SELECT 'apr_' || replace(approval_id::text, '-', ''), 'chk_' || replace(check_id::text, '-', '') "+
		"FROM approval_uses",
		pgx.RowToStructByPos[judge.Use])
	if err != nil {
		return err
	}
	h.Policies, err = query(ctx, s, "SELECT policy_id, version, rules FROM policies ORDER BY generation", pgx.RowToStructByPos[judge.Policy])
	return err
}

func query[T any](ctx context.Context, s *deployment, sql string, scan pgx.RowToFunc[T]) ([]T, error) {
	rows, err := s.Postgres.Pool.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("cannot read the trail: %w", err)
	}
	all, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("cannot read the trail: %w", err)
	}
	return all, nil
}

// Columns are in the order of the fields. An identifier begins with its
// millisecond, as a UUIDv7 does.
const (
	checksSQL = `SELECT 'chk_' || replace(check_id::text, '-', ''), ('x' || left(replace(check_id::text, '-', ''), 12))::bit(48)::bigint,
	claimed_ms, policy_id, policy_version, latency_ms, ` + decision + `, ` + confidence + `, reason_code, message, rule_id, rule_description,
	next_step, key_id, ` + actionType + `, agent_id, amount::text, currency, counterparty, payment_method, merchant_or_vendor,
	reason_text, idempotency_key, metadata, 'apr_' || replace(approval_id::text, '-', ''), coalesce((approval::jsonb->>'required')::int, 0),
	ARRAY(SELECT f->>'group' FROM jsonb_array_elements(approval::jsonb->'from') AS f), charges::text, ` + committed + `
	FROM checks WHERE payment IS NULL ORDER BY check_id`

	outcomesSQL = `SELECT replace(outcome_id::text, '-', ''), 'chk_' || replace(check_id::text, '-', ''),
	('x' || left(replace(outcome_id::text, '-', ''), 12))::bit(48)::bigint, number,
	'{"x": "executed", "f": "failed", "v": "voided"}'::jsonb->>status::text, amount::text, key_id FROM outcomes
	WHERE number > 0 AND payment IS NULL ORDER BY check_id, number`

	redemptionsSQL = `SELECT replace(outcome_id::text, '-', ''), 'chk_' || replace(check_id::text, '-', ''),
	('x' || left(replace(outcome_id::text, '-', ''), 12))::bit(48)::bigint, step, status = 'd', key_id, ` + committed + `
	FROM outcomes WHERE number = 0 AND payment IS NULL ORDER BY check_id, step`

	paymentsSQL = `SELECT payment::jsonb->>'key' AS payment, (payment::jsonb->>'version')::bigint AS version,
	'chk_' || replace(check_id::text, '-', ''), '', ('x' || left(replace(check_id::text, '-', ''), 12))::bit(48)::bigint, '', false,
	decision = 'a', ` + committed + `
	FROM checks WHERE payment IS NOT NULL
	UNION ALL SELECT s->>'key', (s->>'version')::bigint, 'chk_' || replace(check_id::text, '-', ''), replace(outcome_id::text, '-', ''),
	('x' || left(replace(outcome_id::text, '-', ''), 12))::bit(48)::bigint,
	'{"r": "redeemed", "t": "taken_over", "x": "executed", "f": "failed", "v": "voided"}'::jsonb->>status::text,
	status IN ('f', 'v') AND release = 'd', status IN ('r', 't'), ` + committed + `
	FROM outcomes, jsonb_array_elements(payment::jsonb->'of') AS s WHERE payment IS NOT NULL
	ORDER BY payment, version`

	freezesSQL = `SELECT subject, kind, details::jsonb->'scope', coalesce((details::jsonb->>'until_ms')::bigint, 0), ` + committed + `
	FROM changes WHERE kind IN ('freeze.created', 'freeze.released', 'freeze.ended') ORDER BY seq`

	violationsSQL = `SELECT 'chk_' || replace(id::text, '-', ''), policy_id, policy_version, latency_ms, ` + actionType + `, ` + decision + `,
	` + confidence + `, amount::text, currency, agent_id, counterparty, rule_id, rule_description
	FROM violations WHERE policy_id <> '` + paid + `' ORDER BY id`

	// committed is in microseconds. A row that was changed since has the time of the change.
	committed  = `(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1e6)::bigint`
	decision   = `'{"a": "allow", "b": "block", "e": "escalate"}'::jsonb->>decision::text`
	confidence = `'{"l": "low", "m": "medium", "h": "high"}'::jsonb->>confidence::text`
	actionType = `'{"r": "refund", "c": "credit", "d": "discount", "s": "spend"}'::jsonb->>action_type::text`
)
