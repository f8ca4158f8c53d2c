package snapshot

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// dueEvents selects the events that have a number by the bound in event_state, as derived from
// their sources: see event_sources.
const dueEvents = `SELECT lpad(to_hex(c.seq), 32, '0')::uuid AS source, n.type,
		CASE WHEN c.kind LIKE 'policy.%' THEN c.subject WHEN c.kind LIKE 'freeze.%' THEN c.details::jsonb -> 'scope' ->> 'policy_id'
			WHEN c.kind LIKE 'grant.%' THEN c.details::jsonb ->> 'policy_id' ELSE a.policy_id END AS policy_id,
		CASE WHEN c.kind LIKE 'freeze.%' THEN c.details::jsonb -> 'scope' ->> 'agent_id'
			WHEN c.kind LIKE 'grant.%' THEN c.details::jsonb ->> 'agent_id' ELSE a.agent_id END AS agent_id,
		true AS known, c.at, NULL::uuid AS made
		FROM {schema}.changes AS c CROSS JOIN state AS s LEFT JOIN {schema}.approvals AS a
			ON c.kind LIKE 'approval.%' AND 'apr_' || replace(a.id::text, '-', '') = c.subject
			CROSS JOIN LATERAL (VALUES ('approval.decided', c.kind IN ('approval.approved', 'approval.denied')),
				(CASE c.kind WHEN 'policy.draft_put' THEN 'policy.draft_submitted' WHEN 'key.created' THEN 'key.changed' ELSE c.kind END, CASE c.kind
					WHEN 'approval.approved' THEN c.details LIKE '%"completes": true%' -- as jsonb writes it; in a text its quotes are escaped
					WHEN 'policy.draft_put' THEN c.version IS NOT NULL
					ELSE c.kind IN ('approval.denied', 'approval.reopened', 'approval.expired', 'approval.withdrawn', 'policy.created', 'policy.forced',
					'policy.draft_approved', 'policy.draft_rejected', 'key.created', 'key.changed', 'key.expiring') OR c.kind LIKE 'freeze.%'
					OR c.kind LIKE 'grant.%' END)) AS n (type, occurred)
		WHERE c.position < s.below AND c.xid <> ALL (s.pending) AND n.occurred
	UNION ALL SELECT u.approval_id, 'approval.used', a.policy_id, a.agent_id, true, NULL, u.check_id
		FROM state AS s, {schema}.approval_uses AS u JOIN {schema}.approvals AS a ON a.id = u.approval_id
		WHERE u.position < s.below AND u.xid <> ALL (s.pending)
	UNION ALL SELECT b.id, CASE WHEN b.percent = 100 THEN 'budget.exhausted' ELSE 'budget.threshold' END,
			b.policy_id, b.agent_id, true, b.at, NULL
		FROM state AS s, {schema}.budget_exhaustions AS b WHERE b.xid < s.below AND b.xid <> ALL (s.pending)
	UNION ALL SELECT v.id, 'violation.recorded', v.policy_id, v.agent_id, true, NULL, v.id
		FROM state AS s, {schema}.violations AS v WHERE v.xid < s.below AND v.xid <> ALL (s.pending)
	UNION ALL SELECT a.id, 'approval.requested', a.policy_id, a.agent_id, true, NULL, a.id
		FROM state AS s, {schema}.approvals AS a WHERE a.xid < s.below AND a.xid <> ALL (s.pending)
	UNION ALL SELECT o.outcome_id, n.type, k.policy_id, k.agent_id, k.check_id IS NOT NULL, NULL, o.outcome_id
		FROM state AS s CROSS JOIN {schema}.outcomes AS o LEFT JOIN {schema}.checks AS k ON k.check_id = o.check_id
			CROSS JOIN LATERAL (VALUES ('outcome.reported', o.number > 0), ('outcome.release_pending', o.release = 'p'),
				('outcome.exceeded', o.excess IN ('e', 'p')), ('check.redeemed', o.status = 'r'), ('check.in_doubt', o.status = 'd'),
				('check.taken_over', o.status = 't'), ('payment.paid_twice', o.payment LIKE '%"flags":[%"paid_twice"%')) AS n (type, occurred)
		WHERE o.xid < s.below AND o.xid <> ALL (s.pending) AND n.occurred`

// strayEvents selects, with numbers above $1, numbered events without a source, sources without
// their event, and events of another policy or agent than their source. An event of an archived
// month counts as having its source.
const strayEvents = `WITH state AS MATERIALIZED (SELECT below, pending FROM {schema}.event_state),
	due AS (` + dueEvents + `)
	SELECT coalesce(e.sequence, 0), coalesce(e.source, d.source), coalesce(e.type, d.type), e.sequence IS NOT NULL, d.source IS NOT NULL,
		d.at, d.made
	FROM (SELECT * FROM {schema}.events WHERE sequence > $1) AS e FULL JOIN due AS d ON d.source = e.source AND d.type = e.type
	WHERE e.sequence IS NULL
		OR d.source IS NULL AND NOT (e.type = 'violation.recorded' AND EXISTS (SELECT FROM {schema}.archived_violations AS m
			WHERE e.source >= ` + monthID + ` AND e.source < ` + nextMonthID + `))
		OR d.source IS NOT NULL AND d.known AND (e.policy_id, e.agent_id) IS DISTINCT FROM (d.policy_id, d.agent_id)`

const (
	monthID     = `(lpad(to_hex((extract(epoch FROM m.month::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`
	nextMonthID = `(lpad(to_hex((extract(epoch FROM m.month::timestamp + interval '1 month') * 1000)::bigint), 12, '0') || repeat('0', ` +
		`20))::uuid`
)

// hiddenSources selects sources whose transaction has not begun, so that they would never get an
// event. Transaction numbers of another cluster mean nothing.
const hiddenSources = `SELECT h.source, h.type
	FROM {schema}.event_state AS s, pg_control_system() AS c, pg_snapshot_xmax(pg_current_snapshot()) AS next, LATERAL (
		SELECT lpad(to_hex(seq), 32, '0')::uuid, 'key.changed' FROM {schema}.changes WHERE xid >= next OR position >= next
		UNION ALL SELECT approval_id, 'approval.used' FROM {schema}.approval_uses WHERE xid >= next OR position >= next
		UNION ALL SELECT id, 'budget.exhausted' FROM {schema}.budget_exhaustions WHERE xid >= next
		UNION ALL SELECT id, 'violation.recorded' FROM {schema}.violations WHERE xid >= next
		UNION ALL SELECT id, 'approval.requested' FROM {schema}.approvals WHERE xid >= next
		UNION ALL SELECT outcome_id, 'outcome.reported' FROM {schema}.outcomes WHERE xid >= next) AS h (source, type)
	WHERE s.cluster = c.system_identifier`

// EventState implements verify.Evidence.
func (s *Snapshot) EventState(ctx context.Context) (state verify.EventState, err error) {
	err = s.read(ctx, "how far events have numbers", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, s.in(`SELECT count(*), coalesce(max(last), 0), coalesce(bool_or(s.cluster <> c.system_identifier), false)
			FROM {schema}.event_state AS s, pg_control_system() AS c`)).Scan(&state.Rows, &state.Last, &state.Stands)
	})
	return state, err
}

// Events implements verify.Evidence.
func (s *Snapshot) Events(ctx context.Context, each func(verify.Event) error) error {
	return s.read(ctx, "the events", func(ctx context.Context, tx pgx.Tx) error {
		var e verify.Event
		return stream(ctx, tx, []any{&e.Sequence, (*string)(&e.Type), pg.UUID(&e.Source), pg.NullTime{At: &e.At}, pg.UUID(&e.Used)},
			func() error { return each(e) },
			s.in(`SELECT e.sequence, e.type, e.source, coalesce(c.at, b.at), u.check_id FROM {schema}.events AS e
				LEFT JOIN {schema}.changes AS c ON lpad(to_hex(c.seq), 32, '0')::uuid = e.source
				LEFT JOIN {schema}.budget_exhaustions AS b ON b.id = e.source
				LEFT JOIN {schema}.approval_uses AS u ON e.type = 'approval.used' AND u.approval_id = e.source
				ORDER BY e.sequence`))
	})
}

// StrayEvents implements verify.Evidence.
func (s *Snapshot) StrayEvents(ctx context.Context, floor int64, each func(verify.StrayEvent) error) error {
	return s.readChecks(ctx, "the events and their sources", func(ctx context.Context, tx pgx.Tx) error {
		var e verify.StrayEvent
		var at *time.Time
		var made spend.ID
		into := []any{&e.Sequence, pg.UUID(&e.Source), (*string)(&e.Type), &e.Numbered, &e.Due, pg.NullTime{At: &at}, pg.UUID(&made)}
		err := stream(ctx, tx, into, func() error {
			if e.At = made.Time(); at != nil {
				e.At = *at
			}
			return each(e)
		}, s.in(strayEvents), floor)
		if err != nil {
			return err
		}
		e = verify.StrayEvent{Hidden: true}
		return stream(ctx, tx, []any{pg.UUID(&e.Source), (*string)(&e.Type)}, func() error { return each(e) }, s.in(hiddenSources))
	})
}

// ViolationEvents implements verify.Evidence.
func (s *Snapshot) ViolationEvents(ctx context.Context, r verify.Range, floor int64) (n int64, err error) {
	err = s.read(ctx, "the events of a month", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, s.in(`SELECT count(*) FROM {schema}.events
			WHERE type = 'violation.recorded' AND source BETWEEN $1 AND $2 AND sequence > $3`),
			[16]byte(r.Low), [16]byte(r.High), floor).Scan(&n)
	})
	return n, err
}
