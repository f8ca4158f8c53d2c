package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// Events implements audit.Events.
func (s *Store) Events(ctx context.Context, q audit.EventQuery) (audit.EventPage, error) {
	const doing = "cannot read events"
	examined, err := collect(ctx, s.reader, doing, func(row scanner) (r audit.EventRow, err error) {
		var source []byte
		err = row.Scan(&r.Sequence, &source, &r.Type, &r.PolicyID, &r.AgentID)
		copy(r.Source[:], source)
		return r, err
	}, `SELECT sequence, source, type, coalesce(policy_id, ''), coalesce(agent_id, '')
		FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?`, q.After, q.Examine())
	if err != nil {
		return audit.EventPage{}, err
	}
	rows, page := q.Page(examined)
	if page.Events, err = audit.ReadEvents(ctx, s, rows); err != nil {
		return audit.EventPage{}, fmt.Errorf("%s: %w", doing, err)
	}
	return page, nil
}

// EventsHead implements audit.Events.
func (s *Store) EventsHead(ctx context.Context) (head int64, err error) {
	if err = s.reader.QueryRowContext(ctx, "SELECT coalesce(max(sequence), 0) FROM events").Scan(&head); err != nil {
		return 0, unavailable("cannot read the end of the events", err)
	}
	return head, nil
}

// ViolationsOf implements audit.EventSources.
func (s *Store) ViolationsOf(ctx context.Context, ids []spend.ID) ([]audit.Violation, error) {
	return collect(ctx, s.reader, "cannot look up violations", scanViolation,
		"SELECT "+violationColumns+" FROM violations WHERE id IN ("+marks(len(ids))+")", idArgs(ids)...)
}

// OutcomesOf implements audit.EventSources.
func (s *Store) OutcomesOf(ctx context.Context, ids []spend.ID) ([]*spend.Outcome, error) {
	return collect(ctx, s.reader, "cannot look up outcomes", scanOutcome,
		"SELECT "+outcomeColumns()+" FROM outcomes WHERE outcome_id IN ("+marks(len(ids))+")", idArgs(ids)...)
}

// ExhaustionsOf implements audit.EventSources.
func (s *Store) ExhaustionsOf(ctx context.Context, ids []spend.ID) ([]audit.Exhaustion, error) {
	return collect(ctx, s.reader, "cannot look up exhausted budgets", scanExhaustion,
		`SELECT id, at, counter_id, start_ms, bucket_ms, policy_id, rule_id, since, subject, coalesce(agent_id, ''), max_used, max_count, used, count
		FROM budget_exhaustions WHERE id IN (`+marks(len(ids))+")", idArgs(ids)...)
}

func scanExhaustion(row scanner) (e audit.Exhaustion, err error) {
	var id, counter []byte
	var at int64
	var limit sql.NullString
	var count sql.NullInt64
	var used string
	err = row.Scan(&id, &at, &counter, &e.Counter.StartMS, &e.Counter.BucketMS, &e.PolicyID, &e.RuleID, &e.Since, &e.Subject, &e.AgentID,
		&limit, &count, &used, &e.Usage.Count)
	if err != nil {
		return e, err
	}
	copy(e.ID[:], id)
	copy(e.Counter.ID[:], counter)
	e.At, e.Limited, e.Counted, e.MaxCount = fromMilli(at), limit.Valid, count.Valid, count.Int64
	if e.Limited {
		if e.Limit, err = spend.ParseAmount(limit.String); err != nil {
			return e, fmt.Errorf("the limit of budget %s: %w", e.RuleID, err)
		}
	}
	e.Usage.Used, err = spend.ParseTotal(used)
	return e, err
}

// ChangesOf implements audit.EventSources.
func (s *Store) ChangesOf(ctx context.Context, seqs []int64) ([]audit.Change, error) {
	args := make([]any, len(seqs))
	for i := range seqs {
		args[i] = seqs[i]
	}
	return collect(ctx, s.reader, "cannot read the changes", scanChange,
		"SELECT "+readChangeColumns+" FROM changes WHERE seq IN ("+marks(len(seqs))+")", args...)
}

// ApprovalsOf implements audit.EventSources.
func (s *Store) ApprovalsOf(ctx context.Context, ids []spend.ID) ([]audit.ApprovalEvent, error) {
	found, err := approvals(ctx, s.reader, "WHERE a.id IN ("+marks(len(ids))+")", idArgs(ids)...)
	all := make([]audit.ApprovalEvent, len(found))
	for i, a := range found {
		asked := a.Check.Approval
		all[i] = audit.ApprovalEvent{
			ID: a.Check.ID, ActionHash: asked.ActionHash, Required: asked.Required, CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt,
			UseWithin: asked.UseWithin, UsedBy: a.UsedBy,
		}
	}
	return all, err
}
