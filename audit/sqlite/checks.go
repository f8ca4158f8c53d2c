package sqlite

import (
	"context"
	"errors"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// ListChecks implements audit.Lists, in one snapshot.
func (s *Store) ListChecks(ctx context.Context, q audit.CheckQuery) (page audit.CheckPage, err error) {
	const doing = "cannot list checks"
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return page, unavailable(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	low, end := q.IDRange()
	examined, of := " FROM checks WHERE", []any{low[:], end[:]}
	if !q.Payment.IsZero() {
		examined = " FROM payment_checks CROSS JOIN checks USING (check_id) WHERE payment_hash = ? AND"
		of = []any{q.Payment[:], low[:], end[:]}
	}
	examined += " check_id >= ? AND check_id < ? ORDER BY check_id DESC LIMIT "
	w := where{args: append(of, q.Examine)}
	w.matching(&q)
	page.Checks, err = collect(ctx, tx, doing, scanCheck, "SELECT "+checkColumns.String()+" FROM (SELECT *"+examined+
		"?) AS examined WHERE true"+w.text+
		" ORDER BY check_id DESC LIMIT ?", append(w.args, q.Limit+1)...)
	if err != nil {
		return page, err
	}
	if page.Cut(q.Limit); page.More {
		return page, nil
	}
	page.Next, err = one(ctx, tx, doing, scanID, "SELECT check_id"+examined+"1 OFFSET ?", append(of, q.Examine-1)...)
	if errors.Is(err, audit.ErrNotFound) { // there are fewer
		return page, nil
	}
	page.More = err == nil
	return page, err
}

// matching adds the conditions of a query on checks that are examined.
func (w *where) matching(q *audit.CheckQuery) {
	w.is("agent_id", q.AgentID)
	w.is("policy_id", q.PolicyID)
	w.is("counterparty", q.Counterparty)
	w.is("idempotency_key", q.IdempotencyKey)
	w.is("coalesce(principal, key_id)", q.AskedBy)
	w.amounts(q.Amounts)
	w.is("action_type", q.ActionType.String())
	w.is("reason_code", string(q.Reason))
	w.is("rule_id", q.RuleID)
	if !q.ApprovalID.IsZero() {
		w.and("approval_id = ?", q.ApprovalID[:])
	}
	if q.Effect != nil {
		w.and("decision = ?", q.Effect.String())
	}
	switch q.Outcome {
	case "":
	case audit.NoOutcome:
		w.and("decision = 'allow' AND check_id NOT IN (SELECT check_id FROM outcomes WHERE number > 0)")
	default:
		w.and("(SELECT o.status FROM outcomes AS o WHERE o.check_id = examined.check_id ORDER BY o.step DESC LIMIT 1) = ?", string(q.Outcome))
	}
	w.within(q.Bounds)
}

// CheckSums implements audit.Lists, in one snapshot.
func (s *Store) CheckSums(ctx context.Context, q audit.CheckQuery) (*audit.CheckSums, error) {
	const doing = "cannot add checks up"
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return nil, unavailable(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	low, end := q.IDRange()
	var since time.Time
	oldest, err := one(ctx, tx, doing, scanID, "SELECT check_id FROM checks WHERE check_id >= ? AND check_id < ? ORDER BY check_id DESC"+
		" LIMIT 1 OFFSET ?", low[:], end[:], q.Examine-1)
	switch {
	case err == nil:
		low, since = oldest, oldest.Time()
	case !errors.Is(err, audit.ErrNotFound): // there are as many
		return nil, err
	}
	w := where{args: []any{low[:], end[:]}}
	w.matching(&q)
	sums := audit.NewSumming()
	err = each(ctx, tx, doing, func(row scanner) (err error) {
		var c audit.Summed
		var amount, reason string
		if err := row.Scan(&c.Agent, &c.Counterparty, &c.Currency, &amount, known(&c.Effect, spend.ParseEffect), &c.Rule.PolicyID,
			&c.Rule.RuleID, &reason, &c.LatencyMS); err != nil {
			return err
		}
		c.Rule.Reason = spend.Reason(reason)
		if c.Amount, err = spend.ParseAmount(amount); err == nil {
			sums.Add(&c)
		}
		return err
	}, "SELECT agent_id, counterparty, currency, amount, decision, policy_id, coalesce(rule_id, ''), coalesce(reason_code, ''), latency_ms"+
		" FROM checks AS examined WHERE check_id >= ? AND check_id < ?"+w.text, w.args...)
	if err != nil {
		return nil, err
	}
	return sums.Sums(since), nil
}
