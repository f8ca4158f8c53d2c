package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// asks returns whom the latest version of a policy asks before it changes, nil for nobody, and the
// number of that version; 0 if the policy does not exist.
func asks(from querier, policyID string) (asked *spend.ApprovalRequest, version int, err error) {
	err = from.QueryRowContext(context.Background(),
		"SELECT version, coalesce(changes, '') FROM policies WHERE policy_id = ? ORDER BY version DESC LIMIT 1",
		policyID).Scan(&version, parse(&asked, spend.ParseChanges))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	return asked, version, err
}

// approved fails unless the people whom the version in force asks have approved the draft, or the
// admin forces it.
func approved(tx *sql.Tx, by audit.Actor, d *audit.Draft, drop []string, now time.Time) (*audit.Forcing, error) {
	r, err := review(context.Background(), tx, d, now)
	if err != nil {
		return nil, err
	}
	missing := r.Missing(drop)
	switch {
	case missing.People() == 0:
		return nil, nil
	case by.Kind() != audit.KindAdmin:
		return nil, &audit.ChangeNeedsApprovalError{PolicyID: d.PolicyID, Version: r.Version}
	}
	return &audit.Forcing{Draft: d.Generation, Missing: missing.People()}, nil
}

// review adds to a draft its approvals and the current parties behind their keys.
func review(ctx context.Context, from querier, d *audit.Draft, now time.Time) (*audit.Review, error) {
	const doing = "cannot read the approvals of a draft"
	r := &audit.Review{Draft: d}
	var err error
	if r.Asked, r.Version, err = asks(from, d.PolicyID); err != nil {
		return nil, err
	}
	if d.Author.KeyID != "" {
		r.Author, err = one(ctx, from, doing, func(row scanner) (author audit.Party, err error) {
			return author, row.Scan(&author.KeyID, &author.Principal, &author.Owner)
		}, `SELECT c.key_id, coalesce(c.principal, ''), coalesce(c.details ->> 'owner', (SELECT k.details ->> 'owner' FROM changes AS k
				WHERE k.subject = c.key_id AND k.kind IN ('key.created', 'key.changed') AND k.seq < c.seq ORDER BY k.seq DESC LIMIT 1), '')
			FROM changes AS c WHERE c.seq = ?`, d.Generation)
		if err != nil {
			return nil, err
		}
		author, err := keyOf(ctx, from, d.Author.KeyID)
		if err != nil {
			return nil, err
		}
		r.AuthorNow = author.Party()
	}
	changes, err := collect(ctx, from, doing, scanChange, "SELECT "+readChangeColumns+
		" FROM changes WHERE subject = ? AND kind IN ('policy.draft_approved', 'policy.draft_rejected') AND seq > ? ORDER BY seq",
		d.PolicyID, d.Generation)
	if err != nil {
		return nil, err
	}
	for i := range changes {
		a, err := audit.DraftDecisionOf(&changes[i])
		if err != nil {
			return nil, err
		}
		if a.Draft != d.Generation {
			continue
		}
		key, err := keyOf(ctx, from, a.By.KeyID)
		if err != nil {
			return nil, err
		}
		a.Now = audit.ApproverOf(key, d.PolicyID, now)
		r.Add(a)
	}
	return r, nil
}

// Review implements audit.Drafts.
func (s *Store) Review(ctx context.Context, policyID string) (r *audit.Review, err error) {
	doing := fmt.Sprintf("cannot read the draft of policy %q", policyID)
	// A read transaction sees one state of the file.
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, unavailable(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	d, err := sqlstore.ReadDraft(ctx, databaseTx{tx}, policyID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, classify(err))
	}
	return review(ctx, tx, d, time.Now())
}

// DecideDraft implements audit.Drafts.
func (s *Store) DecideDraft(ctx context.Context, d audit.DraftDecisionRequest) (result audit.ApprovalDecisionResult, err error) {
	err = s.write(ctx, fmt.Sprintf("cannot decide about the draft of policy %q", d.PolicyID), func(tx *sql.Tx) error {
		draft, err := sqlstore.ReadDraft(ctx, databaseTx{tx}, d.PolicyID)
		if err != nil {
			return err
		}
		now := time.Now()
		r, err := review(ctx, tx, draft, now)
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
		if result = r.Takes(&d); result != audit.DecisionRecorded {
			return nil
		}
		return record(tx, r.ChangeOfDraftDecision(&d, now))
	})
	return result, err
}
