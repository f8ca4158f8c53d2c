package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/sqlstore"
)

// seenReview returns, as JSON, the state on which a review was judged; decide_draft and promote_draft prove that it still holds.
// missing are the people who still have to approve a promotion.
func seenReview(r *sqlstore.Review, missing int) string {
	text, err := json.Marshal(map[string]any{
		"decisions": r.Decisions, "keys": generationsOf(r.Keys), "version": r.Version, "missing": missing,
	})
	if err != nil {
		panic(fmt.Sprintf("BUG: a review has no JSON: %v", err))
	}
	return string(text)
}

// reviewed calls do with the review of a policy's draft, and again while do fails with
// audit.ErrDraftChanged because the review changed meanwhile. Names are compared only here, so that there
// is one algorithm.
func (s *Store) reviewed(ctx context.Context, policyID string, do func(*sqlstore.Review) error) error {
	for {
		r, err := s.review(ctx, policyID, "")
		if err != nil {
			return err
		}
		if err := do(&r); !errors.Is(err, audit.ErrDraftChanged) || ctx.Err() != nil {
			return err
		}
	}
}

// review reads a draft, its approvals and the parties behind their keys and another key.
func (s *Store) review(ctx context.Context, policyID, other string) (r sqlstore.Review, err error) {
	d, err := s.Draft(ctx, policyID)
	if err != nil {
		return r, err
	}
	err = database{s}.Read(ctx, "cannot read the approvals of a draft", func(ctx context.Context, tx sqlstore.Tx) (err error) {
		r, err = sqlstore.ReadReview(ctx, tx, d, other)
		return err
	})
	return r, err
}

// Review implements audit.Drafts.
func (s *Store) Review(ctx context.Context, policyID string) (*audit.Review, error) {
	r, err := s.review(ctx, policyID, "")
	return r.Review, err
}

// DecideDraft implements audit.Drafts.
func (s *Store) DecideDraft(ctx context.Context, d audit.DraftDecisionRequest) (result audit.ApprovalDecisionResult, err error) {
	for {
		r, err := s.review(ctx, d.PolicyID, d.By.KeyID)
		if err != nil {
			return "", err
		}
		if k, ok := r.Keys[d.By.KeyID]; ok {
			d.By.Principal, d.Owner, d.Groups = k.Party().Principal, k.Grants.Owner, k.Grants.Groups
		}
		if result = r.Takes(&d); result != audit.DecisionRecorded {
			return result, nil
		}
		err = s.control(ctx, fmt.Sprintf("cannot decide about the draft of policy %q", d.PolicyID), []any{&result},
			byActor("SELECT decide_draft($1, $2, $3, $4, $5, $6, ", d.By, string(d.Kind()), d.PolicyID, r.Draft.Generation, r.Version,
				seenReview(&r, 0), d.Details(r.Draft.Generation)))
		if err != nil || result != decisionStale {
			return result, err
		}
	}
}
