package hotpath

import (
	"context"
	"errors"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// ErrDraftNotFound means that a policy has no draft.
var ErrDraftNotFound = errors.New("the policy has no draft")

// PutDraft stores the draft of a policy, in place of the draft before. It judges no check: DraftReport
// tells what it would have made of them. A draft with the same content and note as the current one
// changes nothing, so the request may be repeated. Errors: as for CreatePolicy, and ErrPolicyNotFound.
func (a *Authorizer) PutDraft(ctx context.Context, access Access, by audit.Actor, d *audit.Draft, faults spend.Faults) error {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	if _, err := a.catalog.compileRules(stored, d.PolicyID, 0, d.Rules, &faults); err != nil {
		return err
	}
	d.Changes = policy.CompileChanges(d.Changes, &faults)
	if err := faults.Err(); err != nil {
		return err
	}
	by = access.actor(a, by)
	switch before, err := a.store.Draft(stored, d.PolicyID); {
	case err == nil && sameDraft(before, d):
		*d = *before
		return nil
	case err != nil && !errors.Is(err, audit.ErrNotFound):
		return fmt.Errorf("%w: cannot read the draft of policy %s: %w", ErrUnavailable, d.PolicyID, err)
	}
	switch err := a.store.PutDraft(stored, by, d, a.now()); {
	case errors.Is(err, audit.ErrNotFound):
		return &PolicyNotFoundError{d.PolicyID}
	case errors.Is(err, audit.ErrPoliciesFull):
		return err
	case err != nil:
		return fmt.Errorf("%w: cannot store the draft of policy %s: %w", ErrUnavailable, d.PolicyID, err)
	}
	a.log.Info("draft put", "policy_id", d.PolicyID, "", &by)
	return nil
}

func sameDraft(a, b *audit.Draft) bool {
	return a.Name == b.Name && a.Description == b.Description && a.Rules == b.Rules && a.Metadata == b.Metadata && a.Redeem == b.Redeem &&
		a.Changes == b.Changes && a.Note == b.Note
}

// actor completes the actor by the caller's key, which is noted as used, or by the caller's session.
func (a Access) actor(au *Authorizer, by audit.Actor) audit.Actor {
	a.used().note(au.now())
	if a.key != nil {
		by.KeyID, by.Principal = a.key.name, a.principal()
	}
	if s := a.Session(); s != nil {
		by.Owner, by.Email = s.Grants.Owner, s.Email
	}
	return by
}

// Draft returns the draft of a policy. Errors: ErrPolicyNotFound, ErrDraftNotFound.
func (a *Authorizer) Draft(ctx context.Context, policyID string) (*audit.Draft, error) {
	d, err := a.store.Draft(ctx, policyID)
	if errors.Is(err, audit.ErrNotFound) {
		return nil, a.noDraft(ctx, policyID, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the draft of policy %s: %w", ErrUnavailable, policyID, err)
	}
	return d, nil
}

// noDraft reports what is missing: the draft, the policy, or, unless version is nil, the version that
// was to be replaced.
func (a *Authorizer) noDraft(ctx context.Context, policyID string, version *int) error {
	switch live, err := a.store.Policy(ctx, policyID, 0); {
	case errors.Is(err, audit.ErrNotFound):
		return &PolicyNotFoundError{policyID}
	case err != nil:
		return fmt.Errorf("%w: cannot read policy %s: %w", ErrUnavailable, policyID, err)
	case version != nil && *version != live.Version:
		return &audit.VersionError{Version: live.Version}
	}
	return ErrDraftNotFound
}

// DeleteDraft ends the draft of a policy. Errors as Draft.
func (a *Authorizer) DeleteDraft(ctx context.Context, access Access, by audit.Actor, policyID string) error {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	by = access.actor(a, by)
	switch err := a.store.DeleteDraft(stored, by, policyID, a.now()); {
	case errors.Is(err, audit.ErrNotFound):
		return a.noDraft(stored, policyID, nil)
	case err != nil:
		return fmt.Errorf("%w: cannot delete the draft of policy %s: %w", ErrUnavailable, policyID, err)
	}
	a.log.Info("draft deleted", "policy_id", policyID, "", &by)
	return nil
}

// Promotion is a request to make a draft the next version.
type Promotion struct {
	PolicyID string
	Version  int         // that must be in force
	Hash     *spend.Hash // of the draft as it was read; nil takes the one that there is
	Drop     []string
	Note     string
}

// PromoteDraft makes the draft of a policy its next version, if the given version is in force, and
// ends the draft. It promotes the draft as it is now, if the approvals that the version requires were
// given (S80), or an admin overrides them. Errors: as for Draft and CreatePolicy, an
// audit.VersionError, and NotRecordedError for another draft.
func (a *Authorizer) PromoteDraft(ctx context.Context, access Access, by audit.Actor, p Promotion) (*audit.Policy, error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	d, err := a.store.Draft(stored, p.PolicyID)
	if errors.Is(err, audit.ErrNotFound) {
		return nil, a.noDraft(stored, p.PolicyID, &p.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the draft of policy %s: %w", ErrUnavailable, p.PolicyID, err)
	}
	if p.Hash != nil && *p.Hash != d.Hash {
		if err := a.noDraft(stored, p.PolicyID, &p.Version); !errors.Is(err, ErrDraftNotFound) {
			return nil, err
		}
		return nil, NotRecordedError{true, audit.DecisionOtherDraft}
	}
	var faults spend.Faults
	compiled, err := a.catalog.compileRules(stored, d.PolicyID, 0, d.Rules, &faults)
	if err != nil {
		return nil, err
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	var made *audit.Policy
	by, err = a.unlessForced(stored, access, by, p.PolicyID, func(by audit.Actor) (bool, error) {
		var err error
		made, err = a.store.PromoteDraft(stored, by, audit.Promotion{
			PolicyID: p.PolicyID, Generation: d.Generation, Version: p.Version, Note: p.Note,
			Budgets: audit.NewBudgets{Identities: compiled.BudgetIdentities(), Drop: p.Drop},
		}, a.now())
		return made != nil && made.Forced, err
	})
	if errors.Is(err, audit.ErrNotFound) { // ended or replaced meanwhile
		return nil, a.noDraft(stored, p.PolicyID, &p.Version)
	}
	if refused := a.refusedPolicy(stored, access, p.PolicyID, p.Drop, err); refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot promote the draft of policy %s: %w", ErrUnavailable, p.PolicyID, err)
	}
	a.log.Info("draft promoted", "policy_id", p.PolicyID, "version", made.Version, "", &by)
	return made, a.guard.RaiseGeneration(ctx)
}
