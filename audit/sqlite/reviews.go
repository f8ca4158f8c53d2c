package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/sqlstore"
)

// approved fails unless the people whom the version in force asks have approved the draft, or the
// admin forces it.
func approved(tx *sql.Tx, by audit.Actor, d *audit.Draft, drop []string) (*audit.Forcing, error) {
	r, err := sqlstore.ReadReview(context.Background(), databaseTx{tx}, d, "")
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
	read, err := sqlstore.ReadReview(ctx, databaseTx{tx}, d, "")
	if err != nil {
		return nil, unavailable(doing, err)
	}
	return read.Review, nil
}

// DecideDraft implements audit.Drafts.
func (s *Store) DecideDraft(ctx context.Context, d audit.DraftDecisionRequest) (result audit.ApprovalDecisionResult, err error) {
	err = s.write(ctx, fmt.Sprintf("cannot decide about the draft of policy %q", d.PolicyID), func(tx *sql.Tx) error {
		draft, err := sqlstore.ReadDraft(ctx, databaseTx{tx}, d.PolicyID)
		if err != nil {
			return err
		}
		r, err := sqlstore.ReadReview(ctx, databaseTx{tx}, draft, d.By.KeyID)
		if err != nil {
			return err
		}
		if by := r.Keys[d.By.KeyID].Key; by != nil {
			d.By.Principal, d.Owner, d.Groups = by.Party().Principal, by.Grants.Owner, by.Grants.Groups
		}
		if result = r.Takes(&d); result != audit.DecisionRecorded {
			return nil
		}
		return record(tx, r.ChangeOfDraftDecision(&d, time.Now()))
	})
	return result, err
}
