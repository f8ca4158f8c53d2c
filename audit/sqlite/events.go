package sqlite

import (
	"context"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Events implements audit.Events.
func (s *Store) Events(ctx context.Context, q audit.EventQuery) (audit.EventPage, error) {
	const doing = "cannot read events"
	examined, err := collect(ctx, s.reader, doing, func(row scanner) (r audit.EventRow, err error) {
		err = row.Scan(&r.Sequence, blob(r.Source[:]), &r.Type, (*text)(&r.PolicyID), (*text)(&r.AgentID))
		return r, err
	}, `SELECT sequence, source, type, policy_id, agent_id FROM events WHERE sequence > max(?, `+eventsFloor+`) ORDER BY sequence LIMIT ?`,
		q.After, q.Examine())
	if err != nil {
		return audit.EventPage{}, err
	}
	rows, page := q.Page(examined)
	floor, err := one(ctx, s.reader, doing, scalar[int64], "SELECT "+eventsFloor)
	if err == nil {
		err = page.Behind(q.After, floor)
	}
	if err != nil {
		return audit.EventPage{}, err
	}
	if page.Events, err = audit.ReadEvents(ctx, s, rows); err != nil {
		return audit.EventPage{}, fmt.Errorf("%s: %w", doing, err)
	}
	return page, nil
}

// EventsHead implements audit.Events.
func (s *Store) EventsHead(ctx context.Context) (int64, error) {
	return one(ctx, s.reader, "cannot read the end of the events", scalar[int64],
		"SELECT max((SELECT coalesce(max(sequence), 0) FROM events), "+eventsFloor+")")
}

// ViolationsOf implements audit.EventSources.
func (s *Store) ViolationsOf(ctx context.Context, ids []spend.ID) ([]audit.Violation, error) {
	return collect(ctx, s.reader, "cannot look up violations", scanViolation,
		"SELECT "+listedViolationColumns+" FROM violations WHERE id IN ("+marks(len(ids))+")", idArgs(ids)...)
}

// OutcomesOf implements audit.EventSources.
func (s *Store) OutcomesOf(ctx context.Context, ids []spend.ID) ([]*spend.Outcome, error) {
	return collect(ctx, s.reader, "cannot look up outcomes", scanOutcome,
		"SELECT "+outcomeColumns()+" FROM outcomes WHERE outcome_id IN ("+marks(len(ids))+")", idArgs(ids)...)
}

// ApprovalsOf implements audit.EventSources.
func (s *Store) ApprovalsOf(ctx context.Context, ids []spend.ID) ([]audit.ApprovalEvent, error) {
	found, err := approvals(ctx, s.reader, "WHERE a.id IN ("+marks(len(ids))+")", idArgs(ids)...)
	all := make([]audit.ApprovalEvent, len(found))
	for i, a := range found {
		asked := a.Check.Approval
		all[i] = audit.ApprovalEvent{
			ID: a.Check.ID, ActionHash: asked.ActionHash, Required: asked.Required, CreatedAt: a.CreatedAt,
			ExpiresAt: a.CreatedAt.Add(asked.Expires), UseWithin: asked.UseWithin, UsedBy: a.UsedBy,
		}
	}
	return all, err
}
