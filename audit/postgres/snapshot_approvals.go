package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/verify"
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
		return stream(ctx, tx, []any{uuid(&a.ID), &a.Made, &a.CreatedAt, &a.ExpiresAt, &a.UseWithinMS, &a.Required, &hash,
			&a.PolicyID, &a.AgentID, &a.Principal, &a.Owner, uuid(&a.UsedBy)},
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
