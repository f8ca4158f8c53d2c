package sqlstore

import (
	"context"
	"fmt"
	"strconv"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const selectDraft = `SELECT d.policy_id, d.generation, d.base_version, d.name, d.description, d.rules, d.metadata, d.made_at, d.redeem,
	coalesce(d.changes, ''), c.hash, coalesce(c.key_id, ''), coalesce(c.principal, ''), coalesce(c.credential, ''), c.details,
	c.version IS NOT NULL
	FROM drafts AS d JOIN changes AS c ON c.seq = d.generation `

func scanDraft(row Row) (d audit.Draft, err error) {
	return d, row.Scan(&d.PolicyID, &d.Generation, &d.BaseVersion, &d.Name, &d.Description, &d.Rules, &d.Metadata, &d.MadeAt,
		Parse(&d.Redeem, spend.ParseRedeemTerms), &d.Changes, &d.Hash, &d.Author.KeyID, &d.Author.Principal, &d.Author.Credential,
		Parse(&d.Note, parseNote), &d.Submitted)
}

const newestDraft = selectDraft + "WHERE d.policy_id = $1 ORDER BY d.generation DESC LIMIT 1"

// Draft implements audit.Drafts.
func (s *Store) Draft(ctx context.Context, policyID string) (*audit.Draft, error) {
	doing := fmt.Sprintf("cannot read the draft of policy %q", policyID)
	d, err := find(ctx, s, doing, scanDraft, newestDraft, policyID)
	if err == nil && d.Rules == audit.DraftEnded {
		return nil, fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return d, err
}

// SubmittedDrafts implements audit.Drafts.
func (s *Store) SubmittedDrafts(ctx context.Context, q audit.PolicyQuery) (policyIDs []string, more bool, err error) {
	var w Where
	w.And("d.policy_id > ", q.After)
	In(&w, "d.policy_id", q.PolicyIDs)
	policyIDs, err = list(ctx, s, "cannot list the drafts that were submitted", scalar[string], `SELECT d.policy_id FROM drafts AS d
		WHERE d.rules <> '' AND d.generation = (SELECT max(l.generation) FROM drafts AS l WHERE l.policy_id = d.policy_id)
			AND (SELECT p.changes FROM policies AS p WHERE p.policy_id = d.policy_id ORDER BY p.version DESC LIMIT 1) IS NOT NULL`+
		w.Text+" ORDER BY d.policy_id LIMIT "+strconv.Itoa(q.Limit+1), w.Args...)
	policyIDs, more = audit.Cut(policyIDs, q.Limit)
	return policyIDs, more, err
}

// ReadDraft is Draft within a transaction.
func ReadDraft(ctx context.Context, tx Tx, policyID string) (*audit.Draft, error) {
	found, err := collect(ctx, tx, scanDraft, newestDraft, policyID)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Rules == audit.DraftEnded {
		return nil, audit.ErrNotFound
	}
	return &found[0], nil
}

// DraftOf returns a draft by its generation, also one that has ended.
func (s *Store) DraftOf(ctx context.Context, doing, policyID string, generation int64) (*audit.Draft, error) {
	return find(ctx, s, doing, scanDraft, selectDraft+"WHERE d.policy_id = $1 AND d.generation = $2", policyID, generation)
}
