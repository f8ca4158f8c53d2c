package sqlite

import (
	"context"
	"strings"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
	"spendgate/audit/verify"
)

// Approvals implements verify.Evidence. What a row in PostgreSQL repeats of the check that asked is
// read from that check here.
func (s *Snapshot) Approvals(ctx context.Context, each func(verify.ApprovalRow) error) error {
	return s.stream(ctx, "the approvals", func(row scanner) error {
		a := verify.ApprovalRow{UseWithinMS: -1, Required: -1}
		var deadline *int64
		var asked, owner *string
		c := spend.Check{}
		err := row.Scan(blob(a.ID[:]), &a.Made, (*millis)(&a.CreatedAt), (*millis)(&a.ExpiresAt), &a.PolicyID, &a.AgentID, &a.Principal,
			blob(a.UsedBy[:]), &deadline, &asked, &owner, blob(a.Payment[:]))
		if err != nil {
			return err
		}
		if asked != nil {
			c.Approval, _ = spend.ParseApprovalRequest(*asked) // an unreadable one was altered, and is reported
		}
		if p := c.Approval; p != nil {
			a.UseWithinMS, a.Required, a.ActionHash = p.UseWithin.Milliseconds(), int64(p.Required), p.ActionHash
		}
		if owner != nil {
			a.Owner = *owner
		}
		if deadline != nil {
			a.Deadline = new(fromMilli(*deadline))
		}
		return each(a)
	}, `SELECT coalesce(a.id, u.approval_id), a.id IS NOT NULL, a.created_at, a.expires_at, coalesce(a.policy_id, ''),
		coalesce(a.agent_id, ''), coalesce(a.principal, ''),
			u.check_id, d.at, c.approval, c.owner,
			-- A value that is no payment's becomes one that no payment has.
			iif(a.payment IS NULL OR length(a.payment) = 32 AND a.payment <> zeroblob(32), a.payment, randomblob(32))
		FROM approvals AS a FULL JOIN approval_uses AS u ON u.approval_id = a.id
		LEFT JOIN approval_deadlines AS d ON d.approval_id = coalesce(a.id, u.approval_id) LEFT JOIN checks AS c ON c.check_id = a.id ORDER BY 1`)
}

// EventState implements verify.Evidence.
func (s *Snapshot) EventState(ctx context.Context) (state verify.EventState, err error) {
	state.Rows = 1 // events get their numbers when they are made
	err = s.stream(ctx, "how far events have numbers", func(row scanner) error { return row.Scan(&state.Last) },
		"SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'")
	return state, err
}

// Events implements verify.Evidence.
func (s *Snapshot) Events(ctx context.Context, each func(verify.Event) error) error {
	return s.stream(ctx, "the events", func(row scanner) error {
		var e verify.Event
		var at *int64
		if err := row.Scan(&e.Sequence, (*string)(&e.Type), blob(e.Source[:]), &at, blob(e.Used[:])); err != nil {
			return err
		}
		if at != nil {
			e.At = new(fromMilli(*at))
		}
		return each(e)
	}, selectEvents())
}

// selectEvents selects the events, with what their sources say.
func selectEvents() string {
	return `WITH c AS MATERIALIZED (SELECT unhex(format('%032x', seq)) AS source, at FROM changes WHERE kind IS NOT NULL)
		SELECT e.sequence, e.type, e.source, coalesce(c.at, b.at), u.check_id FROM events AS e
		LEFT JOIN c ON c.source = e.source AND e.type IN (` + typesOf(audit.SourceChange) + `)
		LEFT JOIN budget_exhaustions AS b ON b.id = e.source AND e.type IN (` + typesOf(audit.SourceExhaustion) + `)
		LEFT JOIN approval_uses AS u ON u.approval_id = e.source AND e.type IN (` + typesOf(audit.SourceUse) + `) ORDER BY e.sequence`
}

// typesOf returns a source's types of events as an SQL list.
func typesOf(source audit.EventSource) string {
	var types []string
	for _, t := range audit.EventTypes() {
		if t.Source() == source {
			types = append(types, "'"+string(t)+"'")
		}
	}
	return strings.Join(types, ", ")
}

// strayEvents compares what the triggers of the schema would have made with the events.
const strayEvents = `WITH due (source, type, policy_id, agent_id, at, made) AS (
		SELECT id, 'violation.recorded', policy_id, agent_id, NULL, id FROM violations
		UNION ALL SELECT id, 'approval.requested', policy_id, agent_id, NULL, id FROM approvals
		UNION ALL SELECT u.approval_id, 'approval.used', a.policy_id, a.agent_id, NULL, u.check_id FROM approval_uses AS u
		JOIN approvals AS a ON a.id = u.approval_id
		UNION ALL SELECT o.outcome_id, CASE o.status WHEN 'redeemed' THEN 'check.redeemed' WHEN 'taken_over' THEN 'check.taken_over'
		WHEN 'in_doubt' THEN 'check.in_doubt' ELSE 'outcome.reported' END,
			k.policy_id, k.agent_id, NULL, o.outcome_id FROM outcomes AS o JOIN checks AS k ON k.check_id = o.check_id
		UNION ALL SELECT o.outcome_id, 'outcome.release_pending', k.policy_id, k.agent_id, NULL, o.outcome_id FROM outcomes AS o
		JOIN checks AS k ON k.check_id = o.check_id WHERE o.release = 'pending'
		UNION ALL SELECT o.outcome_id, 'outcome.exceeded', k.policy_id, k.agent_id, NULL, o.outcome_id FROM outcomes AS o
		JOIN checks AS k ON k.check_id = o.check_id WHERE o.excess <> 'unapproved'
		UNION ALL SELECT o.outcome_id, 'payment.paid_twice', k.policy_id, k.agent_id, NULL, o.outcome_id FROM outcomes AS o
		JOIN checks AS k ON k.check_id = o.check_id
		WHERE EXISTS (SELECT 1 FROM json_each(iif(json_valid(o.payment), o.payment, '{}'), '$.flags') WHERE value = 'paid_twice')
		UNION ALL SELECT id, iif(percent = 100, 'budget.exhausted', 'budget.threshold'), policy_id, agent_id, at, NULL FROM budget_exhaustions
		UNION ALL SELECT unhex(format('%032x', seq)),
		CASE WHEN kind = 'policy.draft_put' THEN 'policy.draft_submitted' WHEN kind = 'key.created' THEN 'key.changed' ELSE kind END,
		iif(kind LIKE 'policy.%', subject, NULL), NULL, at, NULL
			FROM changes WHERE kind IN ('policy.created', 'policy.forced', 'policy.draft_approved', 'policy.draft_rejected', 'key.created',
				'key.changed', 'key.expiring') OR kind = 'policy.draft_put' AND version IS NOT NULL
		UNION ALL SELECT unhex(format('%032x', seq)), kind, coalesce(said ->> '$.scope.policy_id', said ->> 'policy_id'),
			coalesce(said ->> '$.scope.agent_id', said ->> 'agent_id'), at, NULL
			FROM (SELECT seq, kind, at, iif(json_valid(details), details, '{}') AS said FROM changes)
			WHERE kind IN ('freeze.created', 'freeze.release_approved', 'freeze.released', 'freeze.forced', 'freeze.ended',
				'grant.created', 'grant.approved', 'grant.revoked')
		UNION ALL SELECT unhex(format('%032x', c.seq)), 'approval.decided', k.policy_id, k.agent_id, c.at, NULL
			FROM changes AS c JOIN checks AS k ON k.check_id = unhex(substr(c.subject, 5)) WHERE c.kind IN ('approval.approved', 'approval.denied')
		UNION ALL SELECT unhex(format('%032x', c.seq)), c.kind, k.policy_id, k.agent_id, c.at, NULL
			FROM changes AS c JOIN checks AS k ON k.check_id = unhex(substr(c.subject, 5))
			WHERE c.kind IN ('approval.denied', 'approval.reopened', 'approval.expired', 'approval.withdrawn')
				OR c.kind = 'approval.approved' AND iif(json_valid(c.details), c.details, '{}') ->> 'completes'
	)
	SELECT e.sequence, e.source, e.type, true, d.source IS NOT NULL, d.at, d.made
	FROM events AS e LEFT JOIN due AS d ON d.source = e.source AND d.type = e.type
	WHERE e.sequence > $1 AND (d.source IS NULL OR (e.policy_id, e.agent_id) IS NOT (d.policy_id, d.agent_id))
	UNION ALL SELECT 0, d.source, d.type, false, true, d.at, d.made FROM due AS d
	WHERE NOT EXISTS (SELECT 1 FROM events AS e WHERE e.source = d.source AND e.type = d.type AND e.sequence > $1)`

// StrayEvents implements verify.Evidence.
func (s *Snapshot) StrayEvents(ctx context.Context, floor int64, each func(verify.StrayEvent) error) error {
	return s.stream(ctx, "the events and their sources", func(row scanner) error {
		var e verify.StrayEvent
		var at *int64
		var made spend.ID
		err := row.Scan(&e.Sequence, blob(e.Source[:]), (*string)(&e.Type), &e.Numbered, &e.Due, &at, blob(made[:]))
		if err != nil {
			return err
		}
		if e.At = made.Time(); at != nil {
			e.At = fromMilli(*at)
		}
		return each(e)
	}, strayEvents, floor)
}

// ViolationEvents implements verify.Evidence.
func (s *Snapshot) ViolationEvents(ctx context.Context, r verify.Range, floor int64) (n int64, err error) {
	err = s.stream(ctx, "the events of a month", func(row scanner) error { return row.Scan(&n) },
		"SELECT count(*) FROM events WHERE type = 'violation.recorded' AND source BETWEEN ? AND ? AND sequence > ?", r.Low[:], r.High[:], floor)
	return n, err
}

// Approval returns an approval as it was when the snapshot was taken, or audit.ErrNotFound.
func (s *Snapshot) Approval(ctx context.Context, id spend.ID) (*audit.Approval, error) {
	found, err := approvals(ctx, s.tx, "WHERE a.id = ?", id[:])
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, audit.ErrNotFound
	}
	return found[0], nil
}

// ApprovalChanges calls each with every decision about these approvals, and every expiry of one, in
// the order of their numbers.
func (s *Snapshot) ApprovalChanges(ctx context.Context, ids []spend.ID, each func(audit.Change) error) error {
	return s.stream(ctx, "the decisions about approvals", func(row scanner) error {
		c, err := sqlstore.ScanChange(row)
		if err != nil {
			return err
		}
		return each(c)
	}, "SELECT "+sqlstore.ChangeColumns+" FROM changes WHERE kind LIKE 'approval.%' AND subject IN ("+marks(len(ids))+") ORDER BY seq",
		anys(ids, func(id *spend.ID) any { return id.Text(spend.PrefixApproval) })...)
}

// ApprovalUses returns which checks used these approvals; unused approvals are not in the map.
func (s *Snapshot) ApprovalUses(ctx context.Context, ids []spend.ID) (map[spend.ID]spend.ID, error) {
	uses := make(map[spend.ID]spend.ID)
	err := s.stream(ctx, "the uses of approvals", func(row scanner) error {
		var approval, check spend.ID
		err := row.Scan(blob(approval[:]), blob(check[:]))
		uses[approval] = check
		return err
	}, "SELECT approval_id, check_id FROM approval_uses WHERE approval_id IN ("+marks(len(ids))+")", idArgs(ids)...)
	return uses, err
}
