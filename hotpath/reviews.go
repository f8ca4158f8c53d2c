package hotpath

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// ChangeNeedsApprovalError refuses a version of a policy because the version in force requires
// approvals (S80): a draft has to be approved and promoted instead.
type ChangeNeedsApprovalError struct {
	PolicyID string
	Review   *audit.Review // nil without a draft
	Missing  audit.Missing // that the promotion lacks
	Drop     []string      // budgets that it drops
}

func (e *ChangeNeedsApprovalError) Error() string {
	path := "/v1/policies/" + e.PolicyID + "/draft"
	if e.Review == nil {
		return "changes of this policy need approval, and it has no draft: PUT " + path + ", have it approved with POST " +
			path +
			"/approve, and promote it with POST " + path + "/promote"
	}
	draft := hex.EncodeToString(e.Review.Draft.Hash[:])
	if e.Missing.People() == 0 {
		return fmt.Sprintf("changes of this policy need approval, and draft %s has it; promote it with POST %s/promote, "+
			"If-Match: %d", draft, path, e.Review.Version)
	}
	text := fmt.Sprintf("changes of this policy need approval: draft %s lacks %d of %d people", draft, e.Missing.People(),
		e.Review.Asked.Required)
	var of []string
	for i, more := range e.Missing.Of {
		if more > 0 {
			of = append(of, fmt.Sprintf("%d of %q", more, e.Review.Asked.From[i].Group))
		}
	}
	if of != nil {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	text += "; others than its author approve it with POST " + path + "/approve, then POST " + path + "/promote makes it the next version"
	if e.Drop != nil {
		text += "; their approvals must name the same drop_budgets"
	}
	return text
}

// unlessForced makes a change for which the version in force may require approvals: first as the
// caller, and if approvals are missing as the admin, if the caller is one. It returns the actor of the
// change. An admin key without an API key can only override: it gets ErrUnauthorized if no approvals
// are required. The store records what was overridden, by the version that it replaced, which may be
// another one.
func (a *Authorizer) unlessForced(
	ctx context.Context, access Access, by audit.Actor, policyID string, do func(audit.Actor) (forced bool, err error),
) (audit.Actor, error) {
	admin := access.actor(a, by)
	if access.key == nil && admin.Credential != "" {
		switch live, err := a.store.Policy(ctx, policyID, 0); {
		case errors.Is(err, audit.ErrNotFound), err == nil && live.Changes == "":
			return by, ErrUnauthorized
		case err != nil:
			return by, fmt.Errorf("%w: cannot read policy %s: %w", ErrUnavailable, policyID, err)
		}
		return admin, a.force(policyID, &admin, do)
	}
	by.Credential = ""
	by = access.actor(a, by)
	_, err := do(by)
	if _, asks := errors.AsType[*audit.ChangeNeedsApprovalError](err); asks && admin.Credential != "" {
		return admin, a.force(policyID, &admin, do)
	}
	return by, err
}

// force makes, as the admin, a change that may require approvals.
func (a *Authorizer) force(policyID string, admin *audit.Actor, do func(audit.Actor) (forced bool, err error)) error {
	forced, err := do(*admin)
	if err != nil || !forced {
		return err
	}
	a.metrics.forced.Inc()
	a.log.Warn("policy forced", "policy_id", policyID, "", admin)
	return nil
}

// needsApproval returns what a version of a policy lacks at present.
func (a *Authorizer) needsApproval(ctx context.Context, policyID string, drop []string) error {
	r, err := a.store.Review(ctx, policyID)
	switch {
	case errors.Is(err, audit.ErrNotFound):
		return &ChangeNeedsApprovalError{PolicyID: policyID}
	case err != nil:
		return fmt.Errorf("%w: cannot read the draft of policy %s: %w", ErrUnavailable, policyID, err)
	case r.Asked == nil:
		return fmt.Errorf("%w: policy %s changed meanwhile", ErrUnavailable, policyID)
	}
	return &ChangeNeedsApprovalError{PolicyID: policyID, Review: r, Missing: r.Missing(drop), Drop: drop}
}

// Review returns the draft of a policy with its approvals. Errors: as for Draft.
func (a *Authorizer) Review(ctx context.Context, policyID string) (*audit.Review, error) {
	r, err := a.store.Review(ctx, policyID)
	if errors.Is(err, audit.ErrNotFound) {
		return nil, a.noDraft(ctx, policyID, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the draft of policy %s: %w", ErrUnavailable, policyID, err)
	}
	return r, nil
}

// DecideDraft records that the caller approves the draft with that hash as the successor of the
// version in force (S80), or rejects it (S93), and returns the draft with the decisions after it. replayed reports that the
// decision was recorded before. Errors: the errors of Draft, NotRecordedError, and
// spend.Faults for drop_budgets that do not end with the draft.
func (a *Authorizer) DecideDraft(
	ctx context.Context, access Access, d audit.DraftDecisionRequest,
) (r *audit.Review, replayed bool, err error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	d.By = access.actor(a, d.By)
	d.Owner, d.Groups = access.key.Grants.Owner, access.key.Grants.Groups
	d.Name, d.Email = access.person()
	if err := a.dropsEnd(stored, &d); err != nil {
		return nil, false, err
	}
	outcome, err := a.store.DecideDraft(stored, d)
	if errors.Is(err, audit.ErrNotFound) {
		return nil, false, a.noDraft(stored, d.PolicyID, nil)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: cannot decide about the draft of policy %s: %w", ErrUnavailable, d.PolicyID, err)
	}
	switch outcome {
	case audit.DecisionRecorded:
		a.log.Info("draft decided", "policy_id", d.PolicyID, "approved", !d.Rejects, "", &d.By)
	case audit.DecisionReplayed:
	default:
		return nil, false, NotRecordedError{true, outcome}
	}
	r, err = a.Review(stored, d.PolicyID)
	return r, outcome == audit.DecisionReplayed, err
}

// dropsEnd refuses drop_budgets that are not of budgets which end when the draft is promoted:
// an approval is not changed, and one of others would be of no use.
func (a *Authorizer) dropsEnd(ctx context.Context, approval *audit.DraftDecisionRequest) error {
	if len(approval.Drop) == 0 {
		return nil
	}
	d, err := a.Draft(ctx, approval.PolicyID)
	if err != nil || d.Hash != approval.Hash {
		return err // the store says that it is another
	}
	live, err := a.store.Policy(ctx, approval.PolicyID, 0)
	if err != nil {
		return fmt.Errorf("%w: cannot read policy %s: %w", ErrUnavailable, approval.PolicyID, err)
	}
	var faults spend.Faults
	compiled, err := a.catalog.compileRules(ctx, d.PolicyID, 0, d.Rules, &faults)
	if err != nil {
		return err
	}
	if err := faults.Err(); err != nil {
		return err
	}
	ended := audit.EndedBudgets(audit.CountSince(compiled.BudgetIdentities(), live.Budgets, live.Version+1, a.now()), live.Budgets)
	for i, id := range approval.Drop {
		if !slices.Contains(ended, id) {
			faults.Add(fmt.Sprintf("drop_budgets[%d]", i), "is no budget of the version in force that ends with this draft")
		}
	}
	return faults.Err()
}
