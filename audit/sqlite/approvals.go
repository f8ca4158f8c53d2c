package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// insertApprovals makes the approvals that escalated checks ask for, and notes when
// they expire.
func insertApprovals(tx *sql.Tx, checks []*spend.Check) error {
	now := time.Now()
	for _, c := range checks {
		if c.Approval == nil {
			continue
		}
		expires := now.Add(c.Approval.Expires)
		_, err := tx.Exec("INSERT INTO approvals (id, created_at, expires_at, policy_id, agent_id, principal) VALUES (?, ?, ?, ?, ?, ?)",
			c.ID[:], now.UnixMilli(), expires.UnixMilli(), c.Action.PolicyID, c.Action.AgentID, c.PrincipalName())
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

// useApprovals uses approvals, each for one check (G13), or refuses with the
// checks that may not.
func useApprovals(tx *sql.Tx, checks []*spend.Check) error {
	refused := make(map[spend.ID]*audit.ApprovalError)
	for _, c := range checks {
		if !c.UsesApproval() {
			continue
		}
		found, err := approvals(context.Background(), tx, "WHERE a.id = ?", c.Action.ApprovalID[:])
		if err != nil {
			return err
		}
		var approval *audit.Approval
		if len(found) > 0 {
			approval = found[0]
		}
		if reason := approval.Refuses(c); reason != nil {
			refused[c.ID] = reason
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

// approvals reads approvals whole, as they are now.
func approvals(ctx context.Context, from querier, where string, args ...any) ([]*audit.Approval, error) {
	const doing = "cannot read approvals"
	type stored struct {
		id, usedBy       []byte
		created, expires int64
		expired          bool
	}
	rows, err := collect(ctx, from, doing, func(row scanner) (r stored, err error) {
		err = row.Scan(&r.id, &r.created, &r.expires, &r.usedBy, &r.expired)
		return r, err
	}, `SELECT a.id, a.created_at, a.expires_at, u.check_id,
			EXISTS (SELECT 1 FROM changes WHERE subject = 'apr_' || lower(hex(a.id)) AND kind = 'approval.expired')
		FROM approvals AS a LEFT JOIN approval_uses AS u ON u.approval_id = a.id `+where, args...)
	if err != nil {
		return nil, err
	}
	all := make([]*audit.Approval, len(rows))
	for i, r := range rows {
		a := &audit.Approval{CreatedAt: fromMilli(r.created), ExpiresAt: fromMilli(r.expires), Expired: r.expired}
		copy(a.UsedBy[:], r.usedBy)
		checks, err := collect(ctx, from, doing, scanCheck, "SELECT "+checkColumns()+" FROM checks WHERE check_id = ?", r.id)
		if err != nil {
			return nil, err
		}
		if len(checks) != 1 {
			return nil, fmt.Errorf("%s: the check of one is not there", doing)
		}
		a.Check = checks[0]
		a.Decisions, err = collect(ctx, from, doing, scanDecision, `SELECT kind = 'approval.approved', coalesce(key_id, ''), coalesce(principal, ''), details, at
			FROM changes WHERE subject = ? AND kind IN ('approval.approved', 'approval.denied') ORDER BY seq`, a.Check.ID.Text(spend.PrefixApproval))
		if err != nil {
			return nil, err
		}
		a.Settle(time.Now())
		all[i] = a
	}
	return all, nil
}

func scanDecision(row scanner) (d audit.Decision, err error) {
	var details string
	var at int64
	if err = row.Scan(&d.Approves, &d.KeyID, &d.Principal, &details, &at); err != nil {
		return d, err
	}
	var kept struct {
		Note string `json:"note"`
	}
	err = json.Unmarshal([]byte(details), &kept)
	d.Note, d.At = kept.Note, fromMilli(at)
	return d, err
}

// Approvals implements audit.Approvals.
func (s *Store) Approvals(ctx context.Context, ids []spend.ID) ([]*audit.Approval, error) {
	args := make([]any, len(ids))
	for i := range ids {
		args[i] = ids[i][:]
	}
	return approvals(ctx, s.reader, "WHERE a.id IN ("+marks(len(ids))+")", args...)
}

// ListApprovals implements audit.Approvals. The status is derived: it is filtered
// here.
func (s *Store) ListApprovals(ctx context.Context, q audit.ApprovalQuery) (page []*audit.Approval, more bool, err error) {
	for {
		before := q.Before
		if before.IsZero() {
			before = newest
		}
		where, args := "WHERE a.id < ?", []any{before[:]}
		for _, f := range []struct{ column, value string }{{"policy_id", q.PolicyID}, {"agent_id", q.AgentID}, {"principal", q.Principal}} {
			if f.value != "" {
				where += " AND a." + f.column + " = ?"
				args = append(args, f.value)
			}
		}
		for column, allowed := range map[string][]string{"policy_id": q.PolicyIDs, "agent_id": q.AgentIDs} {
			if allowed != nil {
				where += " AND a." + column + " IN (" + marks(len(allowed)) + ")"
				for _, id := range allowed {
					args = append(args, id)
				}
			}
		}
		found, err := approvals(ctx, s.reader, where+" ORDER BY a.id DESC LIMIT ?", append(args, q.Limit+1)...)
		if err != nil {
			return nil, false, err
		}
		for _, a := range found {
			if q.Before = a.Check.ID; q.Status == "" || a.Status == q.Status {
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

// Decide implements audit.Approvals.
func (s *Store) Decide(ctx context.Context, d audit.DecisionRequest) (outcome audit.DecisionOutcome, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		found, err := approvals(ctx, tx, "WHERE a.id = ?", d.ApprovalID[:])
		if err != nil {
			return err
		}
		var approval *audit.Approval
		if len(found) > 0 {
			approval = found[0]
		}
		if outcome = approval.Takes(d); outcome != audit.DecisionRecorded {
			return nil
		}
		generation, err := raise(tx)
		if err != nil {
			return err
		}
		now := time.Now()
		if err := record(tx, audit.ChangeOfApproval(&d, generation, now)); err != nil {
			return err
		}
		approval.Decisions = append(approval.Decisions, audit.Decision{Approves: d.Approves, At: now})
		switch approval.Settle(now); approval.Status {
		case audit.ApprovalApproved:
			return setDeadline(tx, d.ApprovalID, approval.UseBy())
		case audit.ApprovalDenied:
			return setDeadline(tx, d.ApprovalID, time.Time{})
		default:
			return nil
		}
	})
	if err != nil {
		return "", fmt.Errorf("cannot record a decision: %w", err)
	}
	return outcome, nil
}

// expiredAtOnce bounds how long commits wait behind what records expiries.
const expiredAtOnce = 100

// ExpireApprovals implements audit.Approvals. Nothing is written, nor waited for,
// when none is due.
func (s *Store) ExpireApprovals(ctx context.Context) error {
	const due = "FROM approval_deadlines WHERE at <= ?"
	for {
		var found bool
		err := s.reader.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 "+due+")", time.Now().UnixMilli()).Scan(&found)
		if err == nil && found {
			err = s.write(ctx, func(tx *sql.Tx) error {
				now := time.Now()
				expired, err := approvals(ctx, tx, "WHERE a.id IN (SELECT approval_id "+due+" ORDER BY at LIMIT ?)", now.UnixMilli(), expiredAtOnce)
				if err != nil {
					return err
				}
				return expire(tx, expired, now)
			})
		}
		if err != nil {
			return fmt.Errorf("cannot record which approvals have expired: %w", err)
		}
		if !found {
			return nil
		}
	}
}

// OldestPending implements audit.Approvals. What is approved has another deadline.
func (s *Store) OldestPending(ctx context.Context) (time.Time, error) {
	var oldest int64
	err := s.reader.QueryRowContext(ctx, `SELECT a.created_at FROM approval_deadlines AS d JOIN approvals AS a ON a.id = d.approval_id
		WHERE d.at = a.expires_at AND d.at > ? ORDER BY d.approval_id LIMIT 1`, time.Now().UnixMilli()).Scan(&oldest)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, unavailable("cannot look for pending approvals", err)
	}
	return time.UnixMilli(oldest).UTC(), nil
}

func expire(tx *sql.Tx, due []*audit.Approval, now time.Time) error {
	for _, a := range due {
		if a.Settle(now); a.Status == audit.ApprovalExpired && !a.Expired {
			generation, err := raise(tx)
			if err != nil {
				return err
			}
			if err := record(tx, audit.ChangeOfExpiry(a, generation, now)); err != nil {
				return err
			}
		}
		if err := setDeadline(tx, a.Check.ID, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}
