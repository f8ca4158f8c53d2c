package sqlite

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
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
	var of sqlstore.Where
	from := " FROM checks"
	if !q.Payment.IsZero() {
		from = " FROM payment_checks CROSS JOIN checks USING (check_id)"
		of.And("payment_hash = ", q.Payment)
	}
	of.Range("check_id", low, end)
	examined := from + of.String() + " ORDER BY check_id DESC LIMIT "
	w := sqlstore.Where{Args: slices.Clip(of.Args)}
	matching(&w, &q)
	page.Checks, err = collect(ctx, tx, doing, scanCheck, "SELECT "+checkColumns.String()+" FROM (SELECT *"+examined+
		strconv.Itoa(q.Examine)+") AS examined WHERE true"+w.Text+" ORDER BY check_id DESC LIMIT "+w.Arg(q.Limit+1), w.Args...)
	if err != nil {
		return page, err
	}
	if page.Cut(q.Limit); page.More {
		return page, nil
	}
	page.Next, err = one(ctx, tx, doing, scanID, "SELECT check_id"+examined+"1 OFFSET "+of.Arg(q.Examine-1), of.Args...)
	if errors.Is(err, audit.ErrNotFound) { // there are fewer
		return page, nil
	}
	page.More = err == nil
	return page, err
}

// matching adds the conditions of a query on checks that are examined.
func matching(w *sqlstore.Where, q *audit.CheckQuery) {
	w.Is("agent_id", q.AgentID)
	w.Is("policy_id", q.PolicyID)
	w.Is("counterparty", q.Counterparty)
	w.Is("idempotency_key", q.IdempotencyKey)
	w.Is("coalesce(principal, key_id)", q.AskedBy)
	addAmounts(w, q.Amounts)
	w.Is("action_type", q.ActionType.String())
	w.Is("reason_code", string(q.Reason))
	w.Is("rule_id", q.RuleID)
	if !q.ApprovalID.IsZero() {
		w.And("approval_id = ", q.ApprovalID)
	}
	if q.Effect != nil {
		w.And("decision = ", q.Effect.String())
	}
	switch q.Outcome {
	case "":
	case audit.NoOutcome:
		w.Text += " AND decision = 'allow' AND check_id NOT IN (SELECT check_id FROM outcomes WHERE number > 0)"
	default:
		w.And("(SELECT o.status FROM outcomes AS o WHERE o.check_id = examined.check_id ORDER BY o.step DESC LIMIT 1) = ", string(q.Outcome))
	}
	w.Within(q.Bounds)
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
		" LIMIT 1 OFFSET ?", low, end, q.Examine-1)
	switch {
	case err == nil:
		low, since = oldest, oldest.Time()
	case !errors.Is(err, audit.ErrNotFound): // there are as many
		return nil, err
	}
	var w sqlstore.Where
	w.Range("check_id", low, end)
	matching(&w, &q)
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
		" FROM checks AS examined"+w.String(), w.Args...)
	if err != nil {
		return nil, err
	}
	return sums.Sums(since), nil
}
