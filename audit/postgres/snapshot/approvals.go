package snapshot

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
	"spendgate/audit/verify"
)

// Approvals implements verify.Evidence.
func (s *Snapshot) Approvals(ctx context.Context, each func(verify.ApprovalRow) error) error {
	return s.read(ctx, "the approvals", func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.Conn().PgConn().Exec(ctx, noIndex).Close(); err != nil {
			return err
		}
		var a verify.ApprovalRow
		into := []any{
			pg.UUID(&a.ID), &a.Made, pg.UTC(&a.CreatedAt), pg.UTC(&a.ExpiresAt), &a.UseWithinMS, &a.Required, pg.Bytea(&a.ActionHash),
			&a.PolicyID, &a.AgentID, &a.Principal, &a.Owner, pg.Bytea(&a.Payment), pg.UUID(&a.UsedBy),
			pg.NullTime{At: &a.Deadline},
		}
		return stream(ctx, tx, into, func() error { return each(a) },
			s.in(`SELECT coalesce(a.id, u.approval_id), a.id IS NOT NULL, coalesce(a.created_at, 'epoch'), coalesce(a.expires_at, 'epoch'),
				coalesce(a.use_within_ms, -1), coalesce(a.required, -1)::bigint, a.action_hash,
				coalesce(a.policy_id, ''), coalesce(a.agent_id, ''),
				coalesce(a.principal, ''), coalesce(a.owner, ''),
				-- A value that is no payment's becomes one that no payment has.
				coalesce(CASE WHEN octet_length(a.payment) = 32 AND a.payment <> decode(repeat('00', 32), 'hex')
					THEN a.payment ELSE sha256(a.payment) END, ''), u.check_id, d.at
				FROM {schema}.approvals AS a FULL JOIN {schema}.approval_uses AS u ON u.approval_id = a.id
				LEFT JOIN {schema}.approval_deadlines AS d ON d.approval_id = coalesce(a.id, u.approval_id) ORDER BY 1`))
	})
}

// Approval returns an approval as it was when the snapshot was taken, or audit.ErrNotFound. Of the
// check that asked, it has only the request.
func (s *Snapshot) Approval(ctx context.Context, id spend.ID) (*audit.Approval, error) {
	what := "approval " + id.Text(spend.PrefixApproval)
	a := &audit.Approval{Check: &spend.Check{ID: id, Approval: new(spend.ApprovalRequest)}}
	var now time.Time
	var within int64
	err := s.one(ctx, what, []any{
		&now, pg.UTC(&a.CreatedAt), pg.UTC(&a.ExpiresAt), &within, &a.Check.Approval.Required, pg.UUID(&a.UsedBy),
	},
		`SELECT now(), a.created_at, a.expires_at, a.use_within_ms, a.required, u.check_id
		FROM {schema}.approvals AS a LEFT JOIN {schema}.approval_uses AS u ON u.approval_id = a.id WHERE a.id = $1`, [16]byte(id))
	if err != nil {
		return nil, err
	}
	err = s.ApprovalChanges(ctx, []spend.ID{id}, func(c audit.Change) error {
		a.Follow([]audit.Change{c})
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.Check.Approval.UseWithin = time.Duration(within) * time.Millisecond
	a.SetStatus(now)
	return a, nil
}

// ApprovalChanges calls each with every decision about these approvals, and with every expiry of
// one, in the order of their numbers.
func (s *Snapshot) ApprovalChanges(ctx context.Context, ids []spend.ID, each func(audit.Change) error) error {
	subjects := make([]string, len(ids))
	for i, id := range ids {
		subjects[i] = id.Text(spend.PrefixApproval)
	}
	return s.read(ctx, "the decisions about approvals", func(ctx context.Context, tx pgx.Tx) error {
		// the rows return its error
		rows, _ := tx.Query(ctx, s.in("SELECT "+sqlstore.ChangeColumns+
			" FROM {schema}.changes WHERE kind LIKE 'approval.%' AND subject = ANY($1) ORDER BY seq"), subjects)
		changes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Change, error) {
			return sqlstore.ScanChange(pg.Row{CollectableRow: row})
		})
		for i := range changes {
			if err := each(changes[i]); err != nil {
				return err
			}
		}
		return err
	})
}

// ApprovalUses returns which checks used these approvals; unused approvals are not in the map.
func (s *Snapshot) ApprovalUses(ctx context.Context, ids []spend.ID) (map[spend.ID]spend.ID, error) {
	uses, wanted := make(map[spend.ID]spend.ID), make([][16]byte, len(ids))
	for i, id := range ids {
		wanted[i] = id
	}
	err := s.read(ctx, "the uses of approvals", func(ctx context.Context, tx pgx.Tx) error {
		var approval, check spend.ID
		return stream(ctx, tx, []any{pg.UUID(&approval), pg.UUID(&check)}, func() error {
			uses[approval] = check
			return nil
		}, s.in("SELECT approval_id, check_id FROM {schema}.approval_uses WHERE approval_id = ANY($1)"), wanted)
	})
	return uses, err
}

func (s *Snapshot) one(ctx context.Context, what string, into []any, query string, args ...any) error {
	return s.read(ctx, what, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, s.in(query), args...).Scan(into...)
		if errors.Is(err, pgx.ErrNoRows) {
			return audit.ErrNotFound
		}
		return err
	})
}
