package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// Events implements audit.Events. Events get their numbers when they are read (docs/internals/events.md), so
// commits do no work for the feed.
func (s *Store) Events(ctx context.Context, q audit.EventQuery) (page audit.EventPage, err error) {
	const doing = "cannot read events"
	var rows []audit.EventRow
	var floor int64 // events up to it were removed
	err = s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		for {
			// A page that is full without new numbers does not wait for them.
			var complete bool
			err := db.QueryRow(ctx, `SELECT sequence_events($1) WHERE NOT EXISTS (SELECT FROM events
				WHERE sequence > greatest($2, events_floor()) ORDER BY sequence OFFSET $3 LIMIT 1)`,
				pg.SequencedAtOnce, q.After, q.Examine()-1).Scan(&complete)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			// A removal is noted before its rows are deleted, so one snapshot has all events above
			// its floor. The rows return the error.
			found, _ := db.Query(ctx, `SELECT sequence, source, type, coalesce(policy_id, ''), coalesce(agent_id, '')
				FROM events WHERE sequence > greatest($1, events_floor()) ORDER BY sequence LIMIT $2`, q.After, q.Examine())
			examined, err := pgx.CollectRows(found, scanEvent)
			if err != nil {
				return err
			}
			if rows, page = q.Page(examined); complete || page.More {
				return db.QueryRow(ctx, "SELECT events_floor()").Scan(&floor)
			}
		}
	})
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
func (s *Store) EventsHead(ctx context.Context) (head int64, err error) {
	err = s.read(ctx, "cannot read the end of the events", func(ctx context.Context, db *pgx.Conn) error {
		if err := pg.SequenceEvents(ctx, db); err != nil {
			return err
		}
		return db.QueryRow(ctx, "SELECT greatest(max(sequence), events_floor()) FROM events").Scan(&head)
	})
	return head, err
}

func scanEvent(row pgx.CollectableRow) (r audit.EventRow, err error) {
	err = row.Scan(&r.Sequence, pg.UUID(&r.Source), &r.Type, &r.PolicyID, &r.AgentID)
	return r, err
}

// ViolationsOf implements audit.EventSources.
func (s *Store) ViolationsOf(ctx context.Context, ids []spend.ID) ([]audit.Violation, error) {
	const doing = "cannot look up violations"
	all, err := collect(ctx, s, doing, scanViolation,
		"SELECT "+violationColumns+" FROM violations WHERE id = ANY ($1::uuid[]) AND id >= violations_from()", pg.UUIDs(ids))
	if err != nil || len(all) == len(ids) {
		return all, err
	}
	archived, err := collect(ctx, s, doing, func(row pgx.CollectableRow) (v audit.Violation, err error) {
		v.Archived = true
		return v, row.Scan(pg.UUID(&v.ID))
	}, "SELECT id FROM unnest($1::uuid[]) AS id WHERE id < violations_from()", pg.UUIDs(ids))
	return append(all, archived...), err
}

// OutcomesOf implements audit.EventSources.
func (s *Store) OutcomesOf(ctx context.Context, ids []spend.ID) ([]*spend.Outcome, error) {
	return collect(ctx, s, "cannot look up outcomes", scanOutcome, "SELECT "+pg.ColumnList(chain.Outcomes())+
		" FROM outcomes WHERE outcome_id = ANY ($1::uuid[])",
		pgx.QueryResultFormats{pgx.BinaryFormatCode}, pg.UUIDs(ids))
}

// ApprovalsOf implements audit.EventSources.
func (s *Store) ApprovalsOf(ctx context.Context, ids []spend.ID) ([]audit.ApprovalEvent, error) {
	return collect(ctx, s, "cannot read approvals", func(row pgx.CollectableRow) (a audit.ApprovalEvent, err error) {
		var within int64
		err = row.Scan(pg.UUID(&a.ID), pg.UTC(&a.CreatedAt), pg.UTC(&a.ExpiresAt), &within, &a.Required,
			pg.Bytea(&a.ActionHash), pg.UUID(&a.UsedBy))
		a.UseWithin = time.Duration(within) * time.Millisecond
		return a, err
	}, `SELECT a.id, a.created_at, a.expires_at, a.use_within_ms, a.required, a.action_hash, u.check_id
		FROM approvals AS a LEFT JOIN approval_uses AS u ON u.approval_id = a.id WHERE a.id = ANY ($1::uuid[])`, pg.UUIDs(ids))
}
