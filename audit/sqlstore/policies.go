package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const policyColumns = "policy_id, version, name, description, rules, metadata, created_at, updated_at, CAST(budgets AS text), redeem, " +
	"coalesce(changes, '')"

// scanPolicy reads policyColumns and the columns after them.
func scanPolicy(row Row, rest ...any) (p audit.Policy, err error) {
	err = row.Scan(append([]any{
		&p.PolicyID, &p.Version, &p.Name, &p.Description, &p.Rules, &p.Metadata, &p.CreatedAt, &p.UpdatedAt,
		Parse(&p.Budgets, audit.ParseBudgets), Parse(&p.Redeem, spend.ParseRedeemTerms), &p.Changes,
	}, rest...)...)
	return p, err
}

// Policy implements audit.Policies.
func (s *Store) Policy(ctx context.Context, policyID string, version int) (*audit.Policy, error) {
	return find(ctx, s, fmt.Sprintf("cannot read policy %q", policyID), func(row Row) (audit.Policy, error) { return scanPolicy(row) },
		"SELECT "+policyColumns+" FROM policies WHERE policy_id = $1 AND (version = $2 OR $2 = 0) ORDER BY version DESC LIMIT 1",
		policyID, version)
}

// ListPolicies implements audit.Policies.
func (s *Store) ListPolicies(ctx context.Context, q audit.PolicyQuery) (page audit.PolicyPage, err error) {
	const doing = "cannot list policies"
	var w Where
	In(&w, "policy_id", q.PolicyIDs)
	// Each policy has exactly one version 1.
	total, err := value[int64](ctx, s, doing, "SELECT count(*) FROM policies WHERE version = 1"+w.Text, w.Args...)
	if err != nil {
		return page, err
	}
	w.And("policy_id > ", q.After)
	page, err = s.readPolicies(ctx, doing, "SELECT policy_id, max(version) AS version FROM policies"+w.String()+" GROUP BY policy_id",
		"policy_id", q.Limit, w.Args...)
	page.Total = total
	return page, err
}

// PolicyVersions implements audit.Policies.
func (s *Store) PolicyVersions(ctx context.Context, q audit.VersionQuery) (page audit.PolicyPage, err error) {
	const doing = "cannot list the versions of a policy"
	total, err := value[int64](ctx, s, doing,
		"SELECT version FROM policies WHERE policy_id = $1 ORDER BY version DESC LIMIT 1", q.PolicyID)
	if err != nil {
		return page, err
	}
	page, err = s.readPolicies(ctx, doing, "SELECT policy_id, version FROM policies WHERE policy_id = $1 AND (version < $2 OR $2 = 0)",
		"version DESC", q.Limit, q.PolicyID, q.Before)
	if page.Total = total; err != nil {
		return page, err
	}
	oldest, newest := page.Versions()
	made, err := list(ctx, s, doing, func(row Row) (m audit.VersionMade, err error) {
		var drafted string
		err = row.Scan(&m.Version, &m.By.KeyID, &m.By.Principal, &m.By.Credential, Parse(&m.Note, parseNote), &m.Forced,
			&m.Draft, &m.Drafter.KeyID, &m.Drafter.Principal, Parse(&drafted, parseNote))
		m.Note = cmp.Or(m.Note, drafted)
		return m, err
	}, `SELECT v.version, coalesce(v.key_id, ''), coalesce(v.principal, ''), coalesce(v.credential, ''), v.details,
			EXISTS (SELECT 1 FROM changes AS f WHERE f.subject = v.subject AND f.kind = 'policy.forced' AND f.version = v.version),
			coalesce(d.seq, 0), coalesce(d.key_id, ''), coalesce(d.principal, ''), coalesce(d.details, '{}')
		FROM changes AS v LEFT JOIN changes AS d ON d.seq = `+SelectDraftOf+`
		WHERE v.subject = $1 AND v.kind = 'policy.created' AND v.version BETWEEN $2 AND $3`, q.PolicyID, oldest, newest)
	if err != nil {
		return page, err
	}
	approved, err := list(ctx, s, doing, func(row Row) (audit.DraftDecision, error) {
		c := audit.Change{Kind: audit.DraftApproved}
		if err := row.Scan(&c.Version, &c.By.KeyID, &c.By.Principal, &c.At, &c.Details); err != nil {
			return audit.DraftDecision{}, err
		}
		return audit.DraftDecisionOf(&c)
	}, `SELECT version, coalesce(key_id, ''), coalesce(principal, ''), at, details FROM changes
		WHERE subject = $1 AND kind = 'policy.draft_approved' AND version BETWEEN $2 AND $3 ORDER BY seq`, q.PolicyID, oldest-1, newest-1)
	for i := range made {
		for _, a := range approved {
			if a.Draft == made[i].Draft && a.Version == made[i].Version-1 {
				made[i].Approved = append(made[i].Approved, a)
			}
		}
	}
	page.Complete(made)
	return page, err
}

// SelectDraftOf selects the change that put the draft from which version v was promoted; null for
// other versions.
const SelectDraftOf = `(SELECT max(d.seq) FROM changes AS d WHERE d.subject = v.subject AND d.kind = 'policy.draft_put' AND d.seq < v.seq
	AND EXISTS (SELECT 1 FROM changes AS p WHERE p.seq = v.seq - 1 AND p.subject = v.subject AND p.kind = 'policy.draft_promoted'))`

// parseNote returns the note in the details of a change.
func parseNote(details string) (note string, err error) {
	said, err := members(details)
	if err != nil || said["note"] == nil {
		return "", err
	}
	return note, json.Unmarshal(said["note"], &note)
}

// members returns what the details of a change say, by names as they are: a struct would take those in other letters.
func members(details string) (said map[string]json.RawMessage, err error) {
	return said, json.Unmarshal([]byte(details), &said)
}

// readPolicies reads a page of the policy_ids and versions that a query selects. The statement knows the sizes of texts before
// it reads them, and reads no text for which the page has no room.
func (s *Store) readPolicies(
	ctx context.Context, doing, selected, order string, limit int, args ...any,
) (page audit.PolicyPage, err error) {
	const size = "(octet_length(rules) + octet_length(metadata))"
	order = " ORDER BY " + order
	found := 0 // at most one more than the limit
	page.Policies, err = list(ctx, s, doing, func(row Row) (audit.Policy, error) { return scanPolicy(row, &found) },
		"SELECT "+policyColumns+", found FROM (SELECT policies.*, count(*) OVER () AS found, "+
			"sum("+size+") OVER ("+order+") - "+size+" AS earlier FROM policies JOIN ("+
			selected+order+" LIMIT "+strconv.Itoa(limit+1)+") AS selected USING (policy_id, version)) AS sized"+
			" WHERE earlier < "+strconv.Itoa(audit.MaxPageBytes)+order+" LIMIT "+strconv.Itoa(limit), args...)
	page.More = len(page.Policies) < found
	return page, err
}
