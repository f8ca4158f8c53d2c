package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Reopen implements audit.Approvals.
func (s *Store) Reopen(ctx context.Context, id spend.ID, keyIDs []string, judged int64) (reopened bool, err error) {
	err = s.write(ctx, "cannot reopen "+id.Text(spend.PrefixApproval), func(tx *sql.Tx) error {
		var changed bool
		if err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM keys WHERE generation > ?)", judged).Scan(&changed); err != nil || changed {
			return err
		}
		a, err := approvalOf(tx, id)
		if reopened = err == nil && a != nil && unused(a); reopened {
			err = reopen(tx, a, keyIDs, audit.Expirer())
		}
		return err
	})
	return reopened, err
}

// reopenApprovedBy reopens the unused approvals that a key approved, of checks for which what it approved counts no more.
func reopenApprovedBy(ctx context.Context, tx *sql.Tx, keyID string, by audit.Actor, lost func(*spend.Check) bool) error {
	open, err := approvals(ctx, tx, `WHERE a.id IN (SELECT d.approval_id FROM approval_deadlines AS d JOIN changes AS c
		ON c.subject = 'apr_' || lower(hex(d.approval_id)) WHERE c.kind = 'approval.approved' AND c.key_id = ?) ORDER BY a.id`, keyID)
	if err != nil {
		return err
	}
	for _, a := range open {
		counts := func(d audit.ApprovalDecision) bool { return d.KeyID == keyID && !d.Void }
		if unused(a) && lost(a.Check) && slices.ContainsFunc(a.Decisions, counts) {
			if err := reopen(tx, a, []string{keyID}, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// reopen records that what these keys approved counts no more, and gives people their time anew.
func reopen(tx *sql.Tx, a *audit.Approval, keyIDs []string, by audit.Actor) error {
	change := audit.ChangeOfReopening(a, keyIDs, by, time.Now())
	if err := record(tx, change); err != nil {
		return err
	}
	a.Follow([]audit.Change{change})
	return setDeadline(tx, a.Check.ID, a.ExpiresAt)
}
