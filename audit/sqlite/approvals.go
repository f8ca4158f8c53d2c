package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// insertApprovals inserts the approvals that escalated checks ask for, and notes when they expire.
func insertApprovals(tx *sql.Tx, checks []*spend.Check) error {
	now := time.Now()
	for _, c := range checks {
		if c.Approval == nil {
			continue
		}
		expires := now.Add(c.Approval.Expires)
		_, err := tx.Exec(`INSERT INTO approvals (id, created_at, expires_at, policy_id, agent_id, principal, payment)
			VALUES (?, ?, ?, ?, ?, ?, ?)`,
			c.ID[:], now.UnixMilli(), expires.UnixMilli(), c.Action.PolicyID, c.Action.AgentID, c.PrincipalName(), hashOrNull(c.PaymentHash()))
		if err != nil {
			return err
		}
		if err := setDeadline(tx, c.ID, expires); err != nil {
			return err
		}
	}
	return nil
}

// setDeadline notes when an approval expires; never, if at is zero.
func setDeadline(tx *sql.Tx, id spend.ID, at time.Time) error {
	if at.IsZero() {
		_, err := tx.Exec("DELETE FROM approval_deadlines WHERE approval_id = ?", id[:])
		return err
	}
	_, err := tx.Exec("INSERT OR REPLACE INTO approval_deadlines (approval_id, at) VALUES (?, ?)", id[:], at.UnixMilli())
	return err
}

// useApprovals uses and proves approvals, each use for one check (G13), and withdraws those that checks withdraw (S84), or
// refuses with the checks that may not use, prove or withdraw theirs.
func useApprovals(tx *sql.Tx, checks []*spend.Check) error {
	refused := make(map[spend.ID]*audit.ApprovalError)
	for _, c := range checks {
		reason, err := withdrawApprovals(tx, c)
		if err != nil {
			return err
		} else if reason != nil {
			refused[c.ID] = reason
			continue
		}
		if !c.ProvesApproval() {
			continue
		}
		approval, err := approvalOf(tx, c.Action.ApprovalID)
		if err != nil {
			return err
		}
		if reason := approval.Refuses(c); reason != nil {
			refused[c.ID] = reason
			continue
		}
		if !c.UsesApproval() {
			continue
		}
		if _, err := tx.Exec("INSERT INTO approval_uses (approval_id, check_id) VALUES (?, ?)", c.Action.ApprovalID[:], c.ID[:]); err != nil {
			return err
		}
		if err := setDeadline(tx, c.Action.ApprovalID, time.Time{}); err != nil {
			return err
		}
	}
	if len(refused) > 0 {
		return &audit.ApprovalsError{Refused: refused}
	}
	return nil
}

// approvals reads complete approvals in their current state.
func approvals(ctx context.Context, from querier, where string, args ...any) ([]*audit.Approval, error) {
	const doing = "cannot read approvals"
	all, err := collect(ctx, from, doing, func(row scanner) (*audit.Approval, error) {
		a := &audit.Approval{Check: new(spend.Check)}
		return a, row.Scan(blob(a.Check.ID[:]), (*millis)(&a.CreatedAt), (*millis)(&a.ExpiresAt), blob(a.UsedBy[:]))
	}, `SELECT a.id, a.created_at, a.expires_at, u.check_id
		FROM approvals AS a LEFT JOIN approval_uses AS u ON u.approval_id = a.id `+where, args...)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if a.Check, err = one(ctx, from, doing, scanCheck, "SELECT "+checkColumns.String()+" FROM checks WHERE check_id = ?",
			a.Check.ID[:]); err != nil {
			return nil, err
		}
	}
	if err := sqlstore.CompleteApprovals(ctx, databaseTx{from}, all); err != nil {
		return nil, unavailable(doing, err)
	}
	for _, a := range all {
		a.SetStatus(time.Now())
	}
	return all, nil
}

// keyOf returns a key as it is now; nil without such a key.
func keyOf(ctx context.Context, from querier, keyID string) (*audit.Key, error) {
	found, err := sqlstore.KeysNow(ctx, databaseTx{from}, keyID)
	if err != nil {
		return nil, unavailable("cannot read a key", err)
	}
	return found[keyID].Key, nil
}

// approvalOf returns an approval, nil if there is none.
func approvalOf(tx *sql.Tx, id spend.ID) (*audit.Approval, error) {
	found, err := approvals(context.Background(), tx, "WHERE a.id = ?", id[:])
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// Approvals implements audit.Approvals.
func (s *Store) Approvals(ctx context.Context, ids []spend.ID) ([]*audit.Approval, error) {
	return approvals(ctx, s.reader, "WHERE a.id IN ("+marks(len(ids))+")", idArgs(ids)...)
}

// ListApprovals implements audit.Approvals. The status is derived, so it is filtered here.
func (s *Store) ListApprovals(ctx context.Context, q audit.ApprovalQuery) (page []*audit.Approval, more bool, err error) {
	for {
		low, end := q.IDRange()
		var w sqlstore.Where
		open, order := "", "a.id DESC"
		w.Range("a.id", low, end)
		if q.Soonest {
			w.Text += " AND (d.at, a.id) > (" + w.Arg(q.After.ExpiresAt.UnixMilli()) + ", " + w.Arg(q.After.ID) + ")"
			order = "d.at, a.id" // the deadline of a pending one is its end
		}
		if q.Status == audit.ApprovalPending || q.Status == audit.ApprovalApproved {
			open = "JOIN approval_deadlines AS d ON d.approval_id = a.id"
		}
		w.Is("policy_id", q.PolicyID)
		w.Is("agent_id", q.AgentID)
		w.Within(audit.Bounds{PolicyIDs: q.PolicyIDs, AgentIDs: q.AgentIDs})
		w.Is("principal", q.Principal)
		found, err := approvals(ctx, s.reader, open+w.String()+" ORDER BY "+order+" LIMIT "+w.Arg(q.Limit+1), w.Args...)
		if err != nil {
			return nil, false, err
		}
		for _, a := range found {
			q.Before, q.After = a.Check.ID, a.Place()
			if !a.ApprovedAt.IsZero() {
				q.After.ExpiresAt = a.UseBy() // its deadline
			}
			if (q.Status == "" || a.Status == q.Status) && selects(q.ApprovalFilter, a) {
				page = append(page, a)
			}
		}
		if len(page) > q.Limit {
			return page[:q.Limit], true, nil
		}
		if len(found) <= q.Limit {
			return page, false, nil
		}
	}
}

// selects reports whether a filter selects an approval by the check that asked and by who decided.
func selects(f audit.ApprovalFilter, a *audit.Approval) bool {
	by := func(d audit.ApprovalDecision) bool { return d.Principal == f.DecidedBy }
	action := &a.Check.Action
	return (f.Counterparty == "" || action.Counterparty == f.Counterparty) && (f.DecidedBy == "" || slices.ContainsFunc(a.Decisions, by)) &&
		f.Select(action.Amount)
}

// Decide implements audit.Approvals.
func (s *Store) Decide(ctx context.Context, d audit.ApprovalDecisionRequest) (result audit.ApprovalDecisionResult, err error) {
	err = s.write(ctx, "cannot record a decision", func(tx *sql.Tx) error {
		approval, err := approvalOf(tx, d.ApprovalID)
		if err != nil {
			return err
		}
		by, err := keyOf(ctx, tx, d.By.KeyID)
		if err != nil {
			return err
		}
		if by != nil {
			d.By.Principal, d.Owner, d.Groups = by.Party().Principal, by.Grants.Owner, by.Grants.Groups
		}
		if result = approval.Takes(d); result != audit.DecisionRecorded {
			return nil
		}
		d.Completes = approval.Completes(d)
		now := time.Now()
		change := audit.ChangeOfApproval(&d, now)
		if err := record(tx, change); err != nil {
			return err
		}
		approval.Follow([]audit.Change{change})
		switch approval.SetStatus(now); approval.Status {
		case audit.ApprovalApproved:
			return setDeadline(tx, d.ApprovalID, approval.UseBy())
		case audit.ApprovalDenied:
			if err := setDeadline(tx, d.ApprovalID, time.Time{}); err != nil {
				return err
			}
			return withdrawOthers(ctx, tx, approval, d.By, now)
		default:
			return nil
		}
	})
	return result, err
}

// expiredAtOnce bounds how long commits wait while expiries are recorded.
const expiredAtOnce = 100

// ExpireApprovals implements audit.Approvals. If none is due, it writes nothing and waits for
// nothing.
func (s *Store) ExpireApprovals(ctx context.Context) (oldest time.Time, err error) {
	const doing = "cannot record which approvals have expired"
	for {
		due, err := one(ctx, s.reader, doing, func(row scanner) (due bool, err error) {
			err = row.Scan(&due, (*millis)(&oldest))
			return due, err
		}, `SELECT EXISTS (SELECT 1 FROM approval_deadlines WHERE at <= ?1), (
			SELECT a.created_at FROM approval_deadlines AS d JOIN approvals AS a ON a.id = d.approval_id
			WHERE d.at > ?1 AND coalesce((SELECT kind <> 'approval.approved' OR details -> 'completes' IS NULL FROM changes -- pending
				WHERE subject = 'apr_' || lower(hex(a.id)) ORDER BY seq DESC LIMIT 1), true)
			ORDER BY d.approval_id LIMIT 1)`, time.Now().UnixMilli())
		if err != nil || !due {
			return oldest, err
		}
		err = s.write(ctx, doing, func(tx *sql.Tx) error {
			now := time.Now()
			expired, err := approvals(ctx, tx, "WHERE a.id IN (SELECT approval_id FROM approval_deadlines WHERE at <= ? ORDER BY at LIMIT ?)",
				now.UnixMilli(), expiredAtOnce)
			if err != nil {
				return err
			}
			_, err = expire(tx, expired, now, false)
			return err
		})
		if err != nil {
			return oldest, err
		}
	}
}

// expire records expiries: of the due approvals, or after a restore of all open ones, whatever the
// clock says. It returns how many.
func expire(tx *sql.Tx, due []*audit.Approval, now time.Time, restored bool) (expired int, err error) {
	for _, a := range due {
		a.SetStatus(now)
		if !a.Expired && (a.Status == audit.ApprovalExpired || restored && unused(a)) {
			if err := record(tx, audit.ChangeOfExpiry(a, now, restored)); err != nil {
				return expired, err
			}
			expired++
		}
		if err := setDeadline(tx, a.Check.ID, time.Time{}); err != nil {
			return expired, err
		}
	}
	return expired, nil
}
