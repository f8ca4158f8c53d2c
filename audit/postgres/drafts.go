package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// PutDraft implements audit.Drafts.
func (s *Store) PutDraft(ctx context.Context, by audit.Actor, d *audit.Draft, now time.Time) error {
	err := s.control(ctx, fmt.Sprintf("cannot put the draft of policy %q", d.PolicyID),
		[]any{&d.Generation, &d.BaseVersion, hexColumn(&d.Hash), &d.Submitted},
		byActor("SELECT * FROM put_draft($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, ", by, d.PolicyID, d.Replaces, d.Name,
			d.Description, d.Rules, d.Metadata, orNull(d.Redeem.Text()), orNull(d.Changes),
			now.UnixMilli(), s.maxPolicyBytes, d.Note, orNull(by.AuthorText())))
	if err == nil {
		d.MadeAt, d.Author = fromMilli(now.UnixMilli()), by
	}
	return err
}

// hexColumn scans a hash in hexadecimal.
func hexColumn(into *spend.Hash) sqlstore.Parsed {
	return func(text string) error {
		raw, err := hex.DecodeString(text)
		if err == nil && copy(into[:], raw) != len(into) {
			err = fmt.Errorf("%q is no hash", text)
		}
		return err
	}
}

// DeleteDraft implements audit.Drafts.
func (s *Store) DeleteDraft(ctx context.Context, by audit.Actor, policyID string, generation int64, now time.Time) error {
	return s.control(ctx, fmt.Sprintf("cannot delete the draft of policy %q", policyID), nil,
		byActor("SELECT delete_draft($1, $2, $3, ", by, policyID, generation, now.UnixMilli()))
}

// PromoteDraft implements audit.Drafts.
func (s *Store) PromoteDraft(ctx context.Context, by audit.Actor, p audit.Promotion, now time.Time) (*audit.Policy, error) {
	doing := fmt.Sprintf("cannot promote the draft of policy %q", p.PolicyID)
	var version int
	var createdMS int64
	var budgets map[string]spend.BudgetSince
	var forced bool
	err := s.reviewed(ctx, p.PolicyID, func(r *sqlstore.Review) error {
		seen := seenReview(r, r.Missing(p.Budgets.Drop).People())
		return s.control(ctx, doing, []any{&version, &createdMS, sqlstore.Parse(&budgets, audit.ParseBudgets), &forced},
			byActor("SELECT * FROM promote_draft($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ", by, p.PolicyID, p.Generation, p.Version, seen,
				now.UnixMilli(), s.maxPolicyBytes, orNull(audit.IdentitiesText(p.Budgets.Identities)), orNull(audit.DropText(p.Budgets.Drop)), p.Note,
				orNull(by.AuthorText())))
	})
	if asks, ok := errors.AsType[*audit.ChangeNeedsApprovalError](err); ok {
		asks.PolicyID = p.PolicyID
	}
	if err != nil {
		return nil, err
	}
	d, err := s.DraftOf(ctx, doing, p.PolicyID, p.Generation)
	if err != nil {
		return nil, err
	}
	return &audit.Policy{
		PolicyID: p.PolicyID, Version: version, Name: d.Name, Description: d.Description, Rules: d.Rules, Metadata: d.Metadata, Redeem: d.Redeem,
		Changes:   d.Changes,
		CreatedAt: fromMilli(createdMS), UpdatedAt: fromMilli(now.UnixMilli()), Budgets: budgets, Note: p.Note, Forced: forced,
	}, nil
}
