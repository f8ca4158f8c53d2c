package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

const selectApprovals = `SELECT a.id, s.status, a.created_at, a.expires_at, s.approved_at, s.used_by
	FROM approvals AS a, LATERAL state_of_approval(a) AS s `

// Approvals implements audit.Approvals.
func (s *Store) Approvals(ctx context.Context, ids []spend.ID) ([]*audit.Approval, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.approvals(ctx, selectApprovals+"WHERE a.id = ANY ($1::uuid[])", uuids(ids))
}

// ListApprovals implements audit.Approvals. A filter of the status, which is
// derived, reads what the others leave.
func (s *Store) ListApprovals(ctx context.Context, q audit.ApprovalQuery) ([]*audit.Approval, bool, error) {
	if q.Before.IsZero() {
		q.Before = newest
	}
	page, err := s.approvals(ctx, selectApprovals+`WHERE a.id < $1 AND ($2 = '' OR a.policy_id = $2) AND ($3 = '' OR a.agent_id = $3)
		AND ($4::text[] IS NULL OR a.policy_id = ANY ($4)) AND ($5::text[] IS NULL OR a.agent_id = ANY ($5)) AND ($6 = '' OR a.principal = $6)
		AND ($7 = '' OR s.status = $7) ORDER BY a.id DESC LIMIT $8`,
		[16]byte(q.Before), q.PolicyID, q.AgentID, q.PolicyIDs, q.AgentIDs, q.Principal, string(q.Status), q.Limit+1)
	if len(page) > q.Limit {
		return page[:q.Limit], true, err
	}
	return page, false, err
}

// approvals completes what a query selects by the checks that asked and the
// decisions.
func (s *Store) approvals(ctx context.Context, query string, args ...any) ([]*audit.Approval, error) {
	const doing = "cannot read approvals"
	var ids []spend.ID
	found := make(map[spend.ID]*audit.Approval)
	all, err := collect(ctx, s, doing, func(row pgx.CollectableRow) (*audit.Approval, error) {
		a := new(audit.Approval)
		var id spend.ID
		var status string
		var approved *time.Time
		var used *[16]byte
		if err := row.Scan(uuid(&id), &status, &a.CreatedAt, &a.ExpiresAt, &approved, &used); err != nil {
			return nil, err
		}
		a.Status, a.CreatedAt, a.ExpiresAt = audit.ApprovalStatus(status), a.CreatedAt.UTC(), a.ExpiresAt.UTC()
		if approved != nil {
			a.ApprovedAt = approved.UTC()
		}
		if used != nil {
			a.UsedBy = *used
		}
		ids, found[id] = append(ids, id), a
		return a, nil
	}, query, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	checks, err := s.Checks(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, c := range checks {
		found[c.ID].Check = c
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		if names[i] = id.Text(spend.PrefixApproval); found[id].Check == nil {
			return nil, fmt.Errorf("%s: the check of %s is archived", doing, names[i])
		}
	}
	_, err = collect(ctx, s, doing, func(row pgx.CollectableRow) (_ struct{}, err error) {
		var d audit.Decision
		var name string
		if err = row.Scan(&name, &d.Approves, &d.KeyID, &d.Principal, &d.Note, &d.At); err != nil {
			return struct{}{}, err
		}
		id, err := spend.ParseID(name, spend.PrefixApproval)
		d.At = d.At.UTC()
		found[id].Decisions = append(found[id].Decisions, d)
		return struct{}{}, err
	}, `SELECT subject, kind = 'approval.approved', coalesce(key_id, ''), coalesce(principal, ''), coalesce(details::jsonb ->> 'note', ''), at
		FROM changes WHERE subject = ANY ($1) AND kind IN ('approval.approved', 'approval.denied') ORDER BY seq`, names)
	return all, err
}

// expiredAtOnce bounds a transaction that records expiries: other changes wait for
// it.
const expiredAtOnce = 100

// ExpireApprovals implements audit.Approvals.
func (s *Store) ExpireApprovals(ctx context.Context) error {
	for {
		row, err := s.control(ctx, byActor("SELECT expire_approvals($1, ", audit.Expirer(), strconv.AppendInt(nil, expiredAtOnce, 10)))
		if err != nil {
			return fmt.Errorf("cannot record which approvals have expired: %w", err)
		}
		if string(row[0]) != "t" {
			return nil
		}
	}
}

// OldestPending implements audit.Approvals. What is approved has another deadline.
func (s *Store) OldestPending(ctx context.Context) (oldest time.Time, err error) {
	err = s.read(ctx, "cannot look for pending approvals", func(ctx context.Context, db *pgx.Conn) error {
		err := db.QueryRow(ctx, `SELECT a.created_at FROM approval_deadlines AS d JOIN approvals AS a ON a.id = d.approval_id
			WHERE d.at = a.expires_at AND d.at > clock_timestamp() ORDER BY d.approval_id LIMIT 1`).Scan(&oldest)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return oldest.UTC(), err
}

// Decide implements audit.Approvals.
func (s *Store) Decide(ctx context.Context, d audit.DecisionRequest) (audit.DecisionOutcome, error) {
	const doing = "cannot record a decision"
	row, err := s.control(ctx, byActor("SELECT decide_approval($1, decode($2, 'hex'), $3, $4, $5, ", d.By,
		hexText(d.ApprovalID[:]), hexText(d.ActionHash[:]), strconv.AppendBool(nil, d.Approves), textOrNull(d.Owner), textOrNull(d.Note)))
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	return audit.DecisionOutcome(row[0]), nil
}
