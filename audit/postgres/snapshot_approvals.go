package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/verify"
	"spendgate/hotpath/spend"
)

func approvalColumns() []string {
	return []string{"id", "created_at", "expires_at", "use_within_ms", "required", "action_hash", "policy_id", "agent_id", "principal", "owner"}
}

// Approvals implements verify.Evidence.
func (s *Snapshot) Approvals(ctx context.Context, each func(verify.Approval) error) error {
	err := s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.Conn().PgConn().Exec(ctx, noIndex).Close(); err != nil {
			return err
		}
		var a verify.Approval
		var hash []byte
		into := []any{
			uuid(&a.ID), &a.Made, &a.CreatedAt, &a.ExpiresAt, &a.UseWithinMS, &a.Required, &hash, &a.PolicyID, &a.AgentID, &a.Principal, &a.Owner, uuid(&a.UsedBy),
		}
		return stream(ctx, tx, into,
			func() error {
				a.ActionHash = [32]byte{}
				copyHash(&a.ActionHash, hash)
				return each(a)
			},
			s.in(`SELECT coalesce(a.id, u.approval_id), a.id IS NOT NULL, coalesce(a.created_at, 'epoch'), coalesce(a.expires_at, 'epoch'),
				coalesce(a.use_within_ms, -1), coalesce(a.required, -1)::bigint, coalesce(a.action_hash, ''), coalesce(a.policy_id, ''), coalesce(a.agent_id, ''),
				coalesce(a.principal, ''), coalesce(a.owner, ''), coalesce(u.check_id, '00000000000000000000000000000000')
				FROM {schema}.approvals AS a FULL JOIN {schema}.approval_uses AS u ON u.approval_id = a.id ORDER BY 1`))
	})
	if err != nil {
		return fmt.Errorf("cannot read the approvals: %w", err)
	}
	return nil
}

// Approval returns an approval as it was when the snapshot was taken, or
// audit.ErrNotFound. Of the check that asked it has what it asks for alone.
func (s *Snapshot) Approval(ctx context.Context, id spend.ID) (*audit.Approval, error) {
	doing := "cannot read approval " + id.Text(spend.PrefixApproval)
	a := &audit.Approval{Check: &spend.Check{ID: id, Approval: new(spend.Approval)}}
	var now time.Time
	var within int64
	err := s.one(ctx, doing, []any{&now, &a.CreatedAt, &a.ExpiresAt, &within, &a.Check.Approval.Required, uuid(&a.UsedBy), &a.Expired},
		`SELECT now(), a.created_at, a.expires_at, a.use_within_ms, a.required, coalesce(u.check_id, '00000000000000000000000000000000'),
			EXISTS (SELECT FROM {schema}.changes WHERE subject = $2 AND kind = 'approval.expired')
		FROM {schema}.approvals AS a LEFT JOIN {schema}.approval_uses AS u ON u.approval_id = a.id WHERE a.id = $1`, [16]byte(id), id.Text(spend.PrefixApproval))
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var d audit.Decision
		return stream(ctx, tx, []any{&d.Approves, &d.KeyID, &d.Principal, &d.Note, &d.At}, func() error {
			d.At = d.At.UTC()
			a.Decisions = append(a.Decisions, d)
			return nil
		}, s.in(`SELECT kind = 'approval.approved', coalesce(key_id, ''), coalesce(principal, ''), coalesce(details::jsonb ->> 'note', ''), at
			FROM {schema}.changes WHERE subject = $1 AND kind IN ('approval.approved', 'approval.denied') ORDER BY seq`), id.Text(spend.PrefixApproval))
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	a.CreatedAt, a.ExpiresAt = a.CreatedAt.UTC(), a.ExpiresAt.UTC()
	a.Check.Approval.UseWithin = time.Duration(within) * time.Millisecond
	a.Settle(now)
	return a, nil
}
