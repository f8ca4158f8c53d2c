package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const policyColumns = "policy_id, version, name, description, rules, metadata, created_at, updated_at, budgets::text, " +
	"coalesce(redeem, ''), coalesce(changes, '')"

// Policy implements audit.Policies.
func (s *Store) Policy(ctx context.Context, policyID string, version int) (*audit.Policy, error) {
	return orNil(one(ctx, s, fmt.Sprintf("cannot read policy %q", policyID), scanPolicy, "SELECT "+policyColumns+
		" FROM policies WHERE policy_id = $1 AND (version = $2 OR $2 = 0) ORDER BY version DESC LIMIT 1", policyID, version))
}

func scanPolicy(row pgx.CollectableRow) (audit.Policy, error) { return scanPolicyAnd(row) }

// scanPolicyAnd reads policyColumns and the columns after them.
func scanPolicyAnd(row pgx.CollectableRow, rest ...any) (p audit.Policy, err error) {
	err = row.Scan(append([]any{
		&p.PolicyID, &p.Version, &p.Name, &p.Description, &p.Rules, &p.Metadata, utc(&p.CreatedAt), utc(&p.UpdatedAt),
		parse(&p.Budgets, audit.ParseBudgets), parse(&p.Redeem, spend.ParseRedeemTerms), &p.Changes,
	}, rest...)...)
	return p, err
}

// ListPolicies implements audit.Policies.
func (s *Store) ListPolicies(ctx context.Context, q audit.PolicyQuery) (page audit.PolicyPage, err error) {
	const doing, within = "cannot list policies", " AND ($1::text[] IS NULL OR policy_id = ANY ($1))"
	// Each policy has exactly one version 1.
	total, err := one(ctx, s, doing, pgx.RowTo[int64], "SELECT count(*) FROM policies WHERE version = 1"+within, q.PolicyIDs)
	if err != nil {
		return page, err
	}
	page, err = s.readPolicies(ctx, doing, audit.PolicySelection{
		Query: "SELECT policy_id, max(version) AS version FROM policies WHERE policy_id > $2" + within + " GROUP BY policy_id",
		Order: "policy_id", Limit: q.Limit,
	}, q.PolicyIDs, q.After)
	page.Total = total
	return page, err
}

// PolicyVersions implements audit.Policies.
func (s *Store) PolicyVersions(ctx context.Context, q audit.VersionQuery) (page audit.PolicyPage, err error) {
	const doing = "cannot list the versions of a policy"
	total, err := one(ctx, s, doing, pgx.RowTo[int64], "SELECT version FROM policies WHERE policy_id = $1 ORDER BY version DESC LIMIT 1",
		q.PolicyID)
	if err != nil {
		return page, err
	}
	page, err = s.readPolicies(ctx, doing, audit.PolicySelection{
		Query: "SELECT policy_id, version FROM policies WHERE policy_id = $1 AND (version < $2 OR $2 = 0)",
		Order: "version DESC", Limit: q.Limit,
	}, q.PolicyID, q.Before)
	if page.Total = total; err != nil {
		return page, err
	}
	oldest, newest := page.Versions()
	made, err := collect(ctx, s, doing, func(row pgx.CollectableRow) (m audit.VersionMade, err error) {
		err = row.Scan(&m.Version, &m.By.KeyID, &m.By.Principal, &m.By.Credential, &m.Note,
			&m.Drafter.KeyID, &m.Drafter.Principal)
		return m, err
	}, `SELECT v.version, coalesce(v.key_id, ''), coalesce(v.principal, ''), coalesce(v.credential, ''),
			coalesce(v.details::jsonb ->> 'note', ''),
			coalesce(d.key_id, ''), coalesce(d.principal, '')
		FROM changes AS v LEFT JOIN changes AS d ON d.seq = `+audit.SelectDraftOf+`
		WHERE v.subject = $1 AND v.kind = 'policy.created' AND v.version BETWEEN $2 AND $3`, q.PolicyID, oldest, newest)
	page.Complete(made)
	return page, err
}

// readPolicies reads a page of selected versions.
func (s *Store) readPolicies(ctx context.Context, doing string, of audit.PolicySelection, args ...any) (page audit.PolicyPage, err error) {
	found := 0
	page.Policies, err = collect(ctx, s, doing, func(row pgx.CollectableRow) (audit.Policy, error) {
		return scanPolicyAnd(row, &found)
	}, of.SQL(policyColumns), args...)
	page.More = len(page.Policies) < found
	return page, err
}
