package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

const (
	approvalState   = "SELECT a.id, s.status, a.created_at, a.expires_at, s.approved_at, s.used_by"
	selectApprovals = approvalState + " FROM approvals AS a, LATERAL state_of_approval(a) AS s "
	// Pending and approved approvals have a deadline, by which they are found without reading
	// others.
	selectOpenApprovals = approvalState +
		" FROM approval_deadlines AS d JOIN approvals AS a ON a.id = d.approval_id, LATERAL state_of_approval(a) AS s "
)

// Approvals implements audit.Approvals.
func (s *Store) Approvals(ctx context.Context, ids []spend.ID) ([]*audit.Approval, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.approvals(ctx, s.read, selectApprovals+"WHERE a.id = ANY ($1::uuid[])", pg.UUIDs(ids))
}

// ListApprovals implements audit.Approvals. The status is derived, so a filter by it is applied to
// the rows that the other filters leave.
func (s *Store) ListApprovals(ctx context.Context, q audit.ApprovalQuery) ([]*audit.Approval, bool, error) {
	var text query
	if q.Status == audit.ApprovalPending || q.Status == audit.ApprovalApproved {
		text.add(selectOpenApprovals)
	} else {
		text.add(selectApprovals)
	}
	low, end := q.IDRange()
	text.add("WHERE NOT EXISTS (SELECT FROM archived_days AS x WHERE x.day = day_of(a.id)) AND a.id >= ").arg([16]byte(low))
	text.add(" AND a.id < ").arg([16]byte(end))
	text.is("policy_id", q.PolicyID)
	text.is("agent_id", q.AgentID)
	text.is("s.status", string(q.Status))
	text.asking(q.ApprovalFilter)
	text.is("principal", q.Principal)
	text.within(audit.Bounds{PolicyIDs: q.PolicyIDs, AgentIDs: q.AgentIDs})
	if q.Soonest { // the deadline of a pending one is its end
		text.add(" AND (d.at, d.approval_id) > (").arg(q.After.ExpiresAt)
		text.add(", ").arg([16]byte(q.After.ID))
		text.add(") ORDER BY d.at, d.approval_id")
	} else {
		text.add(" ORDER BY a.id DESC")
	}
	text.add(" LIMIT ").arg(q.Limit + 1)
	page, err := s.approvals(ctx, s.list, text.String(), text.args...)
	page, more := audit.Cut(page, q.Limit)
	return page, more, err
}

// asking adds the conditions of who decided and of the check that asked. They are scalar, so each reads the rows of
// its own approval, which are found by their keys, and no plan reads all checks or all changes.
func (q *query) asking(f audit.ApprovalFilter) {
	if f.DecidedBy != "" {
		q.add(` AND (SELECT bool_or(coalesce(c.principal, c.key_id) = `).arg(f.DecidedBy)
		q.add(`) FROM changes AS c WHERE c.subject = name_approval(a.id) AND c.kind IN ('approval.approved', 'approval.denied'))`)
	}
	if f.Counterparty == "" && f.AmountFrom == nil && f.AmountTo == nil {
		return
	}
	q.add(" AND (SELECT true")
	q.is("c.counterparty", f.Counterparty)
	q.amounts(f.Amounts)
	q.add(" FROM checks AS c WHERE c.check_id = a.id)")
}

// amounts adds the bounds of amounts.
func (q *query) amounts(a audit.Amounts) {
	bound := func(sign string, of *spend.Amount) {
		if of != nil {
			q.add(" AND amount " + sign).arg(of.String())
			q.add("::numeric")
		}
	}
	bound(" >= ", a.AmountFrom)
	bound(" <= ", a.AmountTo)
}

// approvals adds the checks that asked and the decisions to the approvals that a query selects. Those whose checks are archived
// are missing: they are over (close_day).
func (s *Store) approvals(ctx context.Context, ask asking, query string, args ...any) ([]*audit.Approval, error) {
	const doing = "cannot read approvals"
	all, err := collectBy(ctx, ask, doing, func(row pgx.CollectableRow) (*audit.Approval, error) {
		a := &audit.Approval{Check: new(spend.Check)}
		return a, row.Scan(pg.UUID(&a.Check.ID), &a.Status, pg.UTC(&a.CreatedAt), pg.UTC(&a.ExpiresAt), pg.UTC(&a.ApprovedAt), pg.UUID(&a.UsedBy))
	}, query, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	ids, found := make([]spend.ID, len(all)), make(map[spend.ID]*audit.Approval, len(all))
	for i, a := range all {
		ids[i], found[a.Check.ID] = a.Check.ID, a
	}
	checks, err := s.Checks(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, c := range checks {
		found[c.ID].Check = c
	}
	all = slices.DeleteFunc(all, func(a *audit.Approval) bool { return a.Check.Approval == nil })
	err = database{s}.Read(ctx, doing, func(ctx context.Context, tx sqlstore.Tx) error { return sqlstore.CompleteApprovals(ctx, tx, all) })
	return all, err
}

// Reopen implements audit.Approvals.
func (s *Store) Reopen(ctx context.Context, id spend.ID, keyIDs []string, judged int64) (reopened bool, err error) {
	keys, err := json.Marshal(keyIDs)
	if err != nil {
		return false, err
	}
	err = s.control(ctx, "cannot reopen "+id.Text(spend.PrefixApproval), []any{&reopened},
		byActor("SELECT reopen_unused($1, $2, $3, ", audit.Expirer(), id[:], string(keys), judged))
	return reopened, err
}

// expiredAtOnce bounds a transaction that records expiries, because other changes wait for it.
const expiredAtOnce = 100

// ExpireApprovals implements audit.Approvals.
func (s *Store) ExpireApprovals(ctx context.Context) (oldest time.Time, err error) {
	for more := true; more && err == nil; {
		err = s.control(ctx, "cannot record which approvals have expired", []any{&more, pg.UTC(&oldest)},
			byActor("SELECT * FROM expire_approvals($1, ", audit.Expirer(), expiredAtOnce))
	}
	return oldest, err
}

// keysNow returns those of the keys that exist, by key_id.
func (s *Store) keysNow(ctx context.Context, keyIDs []string) (keys map[string]sqlstore.KeyNow, err error) {
	err = database{s}.Read(ctx, "cannot read who stands behind keys", func(ctx context.Context, tx sqlstore.Tx) (err error) {
		keys, err = sqlstore.KeysNow(ctx, tx, keyIDs...)
		return err
	})
	return keys, err
}

// generationsOf returns the generations of keys by UUID.
func generationsOf(keys map[string]sqlstore.KeyNow) map[string]int64 {
	generations := make(map[string]int64, len(keys))
	for _, k := range keys {
		generations[k.ID.Text("")] = k.Generation
	}
	return generations
}

// decisionStale says that the state on which a decision was judged has changed.
const decisionStale audit.ApprovalDecisionResult = "stale"

// Decide implements audit.Approvals. Names are compared only here, so that there is one algorithm:
// decide_approval then proves that the compared state is unchanged.
func (s *Store) Decide(ctx context.Context, d audit.ApprovalDecisionRequest) (result audit.ApprovalDecisionResult, err error) {
	for {
		all, err := s.Approvals(ctx, []spend.ID{d.ApprovalID})
		if err != nil {
			return "", err
		}
		var a *audit.Approval
		keyIDs := []string{d.By.KeyID}
		if len(all) > 0 {
			a = all[0]
			keyIDs = append(keyIDs, a.Check.KeyID)
			for _, author := range a.Authors {
				keyIDs = append(keyIDs, author.KeyID)
			}
		}
		keys, err := s.keysNow(ctx, keyIDs)
		if err != nil {
			return "", err
		}
		if a != nil {
			a.Asker = keys[a.Check.KeyID].Party()
			for _, author := range slices.Clone(a.Authors) {
				a.Authors = append(a.Authors, keys[author.KeyID].Party())
			}
		}
		if k, ok := keys[d.By.KeyID]; ok {
			d.By.Principal, d.Owner, d.Groups = k.Party().Principal, k.Grants.Owner, k.Grants.Groups
		}
		if result = a.Takes(d); result != audit.DecisionRecorded {
			return result, nil
		}
		d.Completes = a.Completes(d)
		generations, err := json.Marshal(generationsOf(keys))
		if err != nil {
			return "", err
		}
		var groups any
		if len(d.Groups) > 0 {
			text, err := json.Marshal(d.Groups)
			if err != nil {
				return "", err
			}
			groups = string(text)
		}
		err = s.control(ctx, "cannot record a decision", []any{&result},
			byActor("SELECT decide_approval($1, decode($2, 'hex'), $3, $4, $5, $6, $7, $8, $9, $10, $11, ", d.By,
				d.ApprovalID[:], d.ActionHash[:], d.Approves, orNull(d.Owner), groups, d.Completes, orNull(d.Note), orNull(d.Name), orNull(d.Email),
				a.Last, string(generations)))
		if err != nil || result != decisionStale {
			return result, err
		}
	}
}
