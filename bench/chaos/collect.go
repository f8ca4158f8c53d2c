package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/chaos/judge"
)

// readBack reads every check that was answered once more, through all nodes.
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

// readTrail adds what is recorded in PostgreSQL.
func (s *deployment) readTrail(ctx context.Context, h *judge.History) (err error) {
	if h.Rows, err = query(ctx, s, checksSQL, scanCheck); err != nil {
		return err
	}
	if h.Violations, err = query(ctx, s, violationsSQL, scanViolation); err != nil {
		return err
	}
	h.Counters, err = query(ctx, s, "SELECT policy_id, rule_id, subject, start_ms, used::text, count FROM budget_counters WHERE start_ms >= 0", pgx.RowToStructByPos[judge.Counter])
	if err != nil {
		return err
	}
	if h.Outcomes, err = query(ctx, s, outcomesSQL, scanOutcome); err != nil {
		return err
	}
	h.Decisions, err = query(ctx, s, "SELECT subject, kind, coalesce(principal, ''), at FROM changes WHERE kind IN ('approval.approved', 'approval.denied')", pgx.RowToStructByPos[judge.Decision])
	if err != nil {
		return err
	}
	h.Uses, err = query(ctx, s, "SELECT 'apr_' || replace(approval_id::text, '-', ''), 'chk_' || replace(check_id::text, '-', '') FROM approval_uses",
		pgx.RowToStructByPos[judge.Use])
	if err != nil {
		return err
	}
	h.Policies, err = query(ctx, s, "SELECT policy_id, version, rules FROM policies ORDER BY generation",
		func(row pgx.CollectableRow) (p judge.Policy, err error) {
			var rules string
			err = row.Scan(&p.ID, &p.Version, &rules)
			p.Rules = []byte(rules)
			return p, err
		})
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

const checksSQL = `SELECT check_id, claimed_ms, policy_id, policy_version, latency_ms, decision::text, confidence::text, reason_code,
	message, rule_id, rule_description, next_step, key_id, action_type::text, agent_id, amount::text, currency, counterparty,
	payment_method, merchant_or_vendor, reason_text, idempotency_key, metadata, 'apr_' || replace(approval_id::text, '-', ''),
	coalesce((approval::jsonb->>'required')::int, 0) FROM checks ORDER BY check_id`

func scanCheck(row pgx.CollectableRow) (r judge.Row, err error) {
	var id [16]byte
	err = row.Scan(&id, &r.ClaimedMS, &r.PolicyID, &r.PolicyVersion, &r.LatencyMS, &r.Decision, &r.Confidence, &r.ReasonCode,
		&r.Message, &r.RuleID, &r.RuleText, &r.NextStep, &r.KeyID, &r.ActionType, &r.AgentID, &r.Amount, &r.Currency, &r.Counterparty,
		&r.PaymentMethod, &r.Vendor, &r.ReasonText, &r.IdempotencyKey, &r.Metadata, &r.ApprovalID, &r.Asks)
	r.CheckID, r.AtMS = "chk_"+hex.EncodeToString(id[:]), millisecondOf(id)
	r.Decision, r.Confidence, r.ActionType = spelled(r.Decision), spelled(r.Confidence), spelledType(r.ActionType)
	return r, err
}

// millisecondOf returns when an ID was made: it begins with that, like a UUIDv7.
func millisecondOf(id [16]byte) (ms int64) {
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return ms
}

const outcomesSQL = `SELECT outcome_id, check_id, number, status::text, amount::text, key_id FROM outcomes ORDER BY check_id, number`

func scanOutcome(row pgx.CollectableRow) (o judge.Outcome, err error) {
	var id, check [16]byte
	var status string
	err = row.Scan(&id, &check, &o.Number, &status, &o.Amount, &o.KeyID)
	o.OutcomeID, o.CheckID, o.AtMS = hex.EncodeToString(id[:]), "chk_"+hex.EncodeToString(check[:]), millisecondOf(id)
	o.Status = map[string]string{"x": "executed", "f": "failed", "v": "voided"}[status]
	return o, err
}

const violationsSQL = `SELECT id, policy_id, policy_version, latency_ms, action_type::text, decision::text, confidence::text,
	amount::text, currency, agent_id, counterparty, rule_id, rule_description FROM violations ORDER BY id`

func scanViolation(row pgx.CollectableRow) (v judge.Violation, err error) {
	var id [16]byte
	err = row.Scan(&id, &v.PolicyID, &v.PolicyVersion, &v.LatencyMS, &v.ActionType, &v.Decision, &v.Confidence,
		&v.Amount, &v.Currency, &v.AgentID, &v.Counterparty, &v.RuleID, &v.RuleText)
	v.CheckID = "chk_" + hex.EncodeToString(id[:])
	v.Decision, v.Confidence, v.ActionType = spelled(v.Decision), spelled(v.Confidence), spelledType(v.ActionType)
	return v, err
}

func spelled(code string) string {
	return map[string]string{"a": "allow", "b": "block", "e": "escalate", "l": "low", "m": "medium", "h": "high"}[code]
}

func spelledType(code string) string {
	return map[string]string{"r": "refund", "c": "credit", "d": "discount", "s": "spend"}[code]
}
