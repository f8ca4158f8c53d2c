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
// changes nothing, so the request may be repeated, unless somebody rejected that one: then it is submitted anew. match is the
// draft that the caller names, nil for none. Errors: as for CreatePolicy, those of mayReplace, and ErrPolicyNotFound.
func (a *Authorizer) PutDraft(
	ctx context.Context, access Access, by audit.Actor, d *audit.Draft, match *spend.Hash, faults spend.Faults,
) error {
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
	put := func(before *audit.Review) error {
		d.Replaces = 0
		if before == nil && match != nil {
			if err := a.noDraft(stored, d.PolicyID, nil); !errors.Is(err, ErrDraftNotFound) {
				return err
			}
			return NotRecordedError{true, audit.DecisionOtherDraft}
		}
		if before != nil {
			if before.Rejection == nil && sameDraft(before.Draft, d) {
				*d = *before.Draft
				return nil
			}
			d.Replaces = before.Draft.Generation
		}
		if err := a.store.PutDraft(stored, by, d, a.now()); err != nil {
			return err
		}
		a.log.Info("draft put", "policy_id", d.PolicyID, "", &by)
		return nil
	}
	switch err := a.replacing(stored, access, d.PolicyID, match, put); {
	case errors.Is(err, audit.ErrNotFound):
		return &PolicyNotFoundError{d.PolicyID}
	case err != nil && !refusesDraft(err) && !errors.Is(err, audit.ErrPoliciesFull):
		return fmt.Errorf("%w: cannot store the draft of policy %s: %w", ErrUnavailable, d.PolicyID, err)
	default:
		return err
	}
}

// replacing calls do with the draft that the caller replaces or deletes, nil without one, and again while do finds that the
// draft was changed meanwhile.
func (a *Authorizer) replacing(ctx context.Context, access Access, policyID string, match *spend.Hash, do func(*audit.Review) error) error {
	for {
		before, err := a.store.Review(ctx, policyID)
		if err != nil && !errors.Is(err, audit.ErrNotFound) {
			return err
		}
		if before != nil {
			if err := access.mayReplace(before, match); err != nil {
				return err
			}
		}
		if err := do(before); !errors.Is(err, audit.ErrDraftChanged) || ctx.Err() != nil {
			return err
		}
	}
}

// ErrOthersDraft refuses to replace or delete a draft of another author that the caller does not name (S93).
var ErrOthersDraft = errors.New("the draft is another author's")

// mayReplace refuses to replace or delete a draft: with ErrOthersDraft, or with NotRecordedError if it is not the one that the
// caller names.
func (a Access) mayReplace(before *audit.Review, match *spend.Hash) error {
	switch {
	case match != nil && before.Draft.Hash != *match:
		return NotRecordedError{true, audit.DecisionOtherDraft}
	case match != nil || a.key == nil:
		return nil
	}
	by := a.key.party()
	if !by.Shares(before.Author) && !by.Shares(before.AuthorNow) {
		return ErrOthersDraft
	}
	return nil
}

// refusesDraft reports whether the error tells the caller why a draft is not replaced or deleted.
func refusesDraft(err error) bool {
	_, refused := errors.AsType[NotRecordedError](err)
	_, gone := errors.AsType[*PolicyNotFoundError](err)
	return refused || gone || errors.Is(err, ErrOthersDraft) || errors.Is(err, ErrDraftNotFound)
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

// decider is actor with the owner of the caller's key, by whom those who release freezes or grant are compared (S62).
func (a Access) decider(au *Authorizer, by audit.Actor) audit.Actor {
	by = a.actor(au, by)
	if a.key != nil {
		by.Owner = a.key.Grants.Owner
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

// DeleteDraft ends the draft of a policy. Errors as Draft, and those of mayReplace.
func (a *Authorizer) DeleteDraft(ctx context.Context, access Access, by audit.Actor, policyID string, match *spend.Hash) error {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	by = access.actor(a, by)
	err := a.replacing(stored, access, policyID, match, func(before *audit.Review) error {
		if before == nil {
			return a.noDraft(stored, policyID, nil)
		}
		err := a.store.DeleteDraft(stored, by, policyID, before.Draft.Generation, a.now())
		if errors.Is(err, audit.ErrNotFound) {
			return audit.ErrDraftChanged
		}
		return err
	})
	if err != nil {
		if refusesDraft(err) {
			return err
		}
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
