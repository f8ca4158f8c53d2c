package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// released is whether check c, or the use of its approval, was given back by the last report, or
// whether the expiry or the withdrawal of its approval is recorded. Inside an expression the planner looks up each
// check, however many outcomes it expects.
const released = `(CASE WHEN c.approval IS NOT NULL THEN EXISTS (
	SELECT FROM changes AS e WHERE e.subject = name_approval(c.check_id)
		AND e.kind IN ('approval.expired', 'approval.withdrawn')) ELSE false END
	OR coalesce((SELECT bool_or(o.release = 'd' AND o.status <> 'x') FROM outcomes AS o WHERE o.check_id IN (c.check_id,
	CASE WHEN c.approval IS NOT NULL THEN (SELECT u.check_id FROM approval_uses AS u WHERE u.approval_id = c.check_id) END)
	AND o.step = (SELECT max(l.step) FROM outcomes AS l WHERE l.check_id = o.check_id)), false))`

// PassStates implements audit.Passes.
func (s *Store) PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]audit.PassState, error) {
	states := make(map[spend.ID]audit.PassState, len(ids))
	if len(ids) == 0 {
		return states, nil
	}
	_, err := collect(ctx, s, "cannot look up passes", func(row pgx.CollectableRow) (_ struct{}, err error) {
		var id spend.ID
		var f audit.PassFacts
		err = row.Scan(pg.UUID(&id), &f.Allowed, &f.Asks, &f.Released, &f.Overdue)
		states[id] = f.State()
		return struct{}{}, err
	}, "SELECT c.check_id, c.decision = 'a', c.approval IS NOT NULL, c.claimed_ms IS NULL OR "+released+`,
		CASE WHEN c.approval IS NOT NULL THEN EXISTS (
			SELECT FROM approval_deadlines AS d WHERE d.approval_id = c.check_id AND d.at <= clock_timestamp()) ELSE false END
		FROM checks AS c WHERE c.check_id = ANY ($1::uuid[])`, pg.UUIDs(ids))
	return states, err
}

// Outcomes implements audit.Trail.
func (s *Store) Outcomes(ctx context.Context, checkIDs []spend.ID) ([]*spend.Outcome, error) {
	if len(checkIDs) == 0 {
		return nil, nil
	}
	return collect(ctx, s, "cannot look up outcomes", scanOutcome, "SELECT "+pg.ColumnList(chain.Outcomes())+
		" FROM outcomes WHERE check_id = ANY ($1::uuid[]) ORDER BY check_id, step",
		pgx.QueryResultFormats{pgx.BinaryFormatCode}, pg.UUIDs(checkIDs))
}

func scanOutcome(row pgx.CollectableRow) (*spend.Outcome, error) {
	return chain.OutcomeOf(row.RawValues())
}

// appendCorrection adds a counter_correction, a composite value in the binary
// format.
func appendCorrection(b []byte, ch audit.CounterChange) []byte {
	w := chain.NewComposite(b)
	w.ID(ch.ID)
	w.Int64(ch.StartMS)
	w.Int64(ch.BucketMS)
	w.Int64(-ch.Correct.Count)
	difference, ok := ch.Correct.Over.Minus(ch.Correct.Back)
	if !ok {
		difference, _ = ch.Correct.Back.Minus(ch.Correct.Over)
	}
	w.Numeric(difference, !ok)
	return w.End()
}
