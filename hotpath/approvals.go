package hotpath

import (
	"context"
	"errors"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
)

// ErrApprovalNotFound refuses an approval that there is not, or that the caller may
// not see.
var ErrApprovalNotFound = errors.New("no such approval")

// NotRecordedError refuses a person's decision about an approval or a draft (S44, S62, S79, S80).
type NotRecordedError struct {
	Draft bool // it is about a draft
	Why   audit.ApprovalDecisionResult
}

func (e NotRecordedError) Error() string { return "the decision is not recorded: " + string(e.Why) }

// ErrOtherPrincipal refuses the use of an approval by another principal than that
// which asked for it (S46).
var ErrOtherPrincipal = errors.New("the approval is another principal's")

// NotPendingError refuses a decision about an approval that can no longer be decided.
type NotPendingError struct{ Status audit.ApprovalStatus }

func (e *NotPendingError) Error() string { return "the approval is " + string(e.Status) }

func newApprovals(store audit.Approvals) *guard.Lookup[spend.ID, *audit.Approval] {
	return guard.NewLookup(func(ctx context.Context, ids []spend.ID) (map[spend.ID]*audit.Approval, error) {
		all, err := store.Approvals(ctx, ids)
		found := make(map[spend.ID]*audit.Approval, len(all))
		for _, a := range all {
			found[a.Check.ID] = a
		}
		return found, err
	})
}

// Approval returns an approval that the caller may see.
func (a *Authorizer) Approval(ctx context.Context, access Access, id spend.ID) (*audit.Approval, error) {
	found, ok, err := a.approvals.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if !ok || !access.Sees(found.Check) {
		return nil, ErrApprovalNotFound
	}
	return found, nil
}

// approvedFor returns the approval that the check uses, and whose rules are lifted (S47). The check's
// commit proves it again. An approval of another principal is for another action (S46). One that counts on somebody whose
// decision counts no more, by the view, is reopened (S92).
func (a *Authorizer) approvedFor(ctx context.Context, v *view, check *spend.Check) (*audit.Approval, error) {
	for range maxReclaims {
		approval, ok, err := a.approvals.Get(ctx, check.Action.ApprovalID)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, ErrApprovalNotFound
		}
		if refused := approval.Refuses(check); refused != nil {
			if approval.IsOfAnotherPrincipal(check) {
				return nil, ErrOtherPrincipal
			}
			return nil, refused
		}
		lost := a.lost(v, approval)
		if lost == nil {
			return approval, nil
		}
		if err := a.reopen(ctx, v, approval, lost); err != nil {
			return nil, err
		}
		v = a.catalog.view()
	}
	return nil, fmt.Errorf("%w: the keys of approvers changed too often", ErrUnavailable)
}

// reopen reopens an approval, unless it or a key was changed meanwhile. The view is then at least as new as that.
func (a *Authorizer) reopen(ctx context.Context, v *view, approval *audit.Approval, lost []string) error {
	id := approval.Check.ID
	reopened, err := a.store.Reopen(ctx, id, lost, v.number)
	if err != nil {
		return fmt.Errorf("%w: cannot reopen an approval: %w", ErrUnavailable, err)
	}
	if reopened {
		a.log.Warn("approval reopened", "approval_id", id.Text(spend.PrefixApproval), "keys", lost)
		return nil
	}
	return a.catalog.reload(ctx)
}

// lost returns the keys whose approvals count no more by a view (S92): those that are not in force, or may not decide, and
// those of who asked. Only the latter is asked of a session.
func (a *Authorizer) lost(v *view, approval *audit.Approval) (keyIDs []string) {
	then, now := audit.Asker(approval.Check), approval.Asker
	for i := range approval.Decisions {
		d := &approval.Decisions[i]
		if !d.Approves || d.Void {
			continue
		}
		by := d.Decider()
		lost := by.Shares(then) || by.Shares(now)
		if k := v.named[d.KeyID]; k != nil {
			by = k.party()
			lost = lost || k.inForce(a.now) != nil || !k.scopes.Has(spend.ApprovalsDecide) || !(Access{k}).Sees(approval.Check) ||
				by.Shares(then) || by.Shares(now)
		}
		if lost {
			keyIDs = append(keyIDs, d.KeyID)
		}
	}
	return keyIDs
}

// sayWhatWaits completes the texts of a duplicate of a check that asks for an approval: the approval,
// its status, and the next call (S60). A caller who may not see the approval is only told the check.
func (a *Authorizer) sayWhatWaits(ctx context.Context, access Access, duplicate *spend.Check, of spend.ID) error {
	approval, err := a.Approval(ctx, access, of)
	if errors.Is(err, ErrApprovalNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	d, id := &duplicate.Decision, of.Text(spend.PrefixApproval)
	d.Message += fmt.Sprintf(", which asked for approval %s: it is %s", id, approval.Status)
	const again = "check exactly the action of that check again with this approval_id, under the same idempotency key, " +
		"and proceed only if that is allowed."
	next := "GET /v1/approvals/" + id
	switch approval.Status {
	case audit.ApprovalPending:
		d.NextStep = "Do not repeat the action: it waits for people, and pending is not approved. Call " + next +
			" (Prefer: wait=30); once it is approved, " + again
	case audit.ApprovalApproved:
		d.NextStep = "Do not repeat the action without its approval. It is approved: " + again
		next = "POST /v1/checks with that approval_id"
	case audit.ApprovalUsed:
		next = "GET /v1/checks/" + approval.UsedBy.Text(spend.PrefixCheck)
		d.Message += " by " + approval.UsedBy.Text(spend.PrefixCheck)
		d.NextStep = "Do not repeat the action: its approval was used. Call " + next + " for what became of it."
	case audit.ApprovalExpired:
		d.NextStep = "Do not proceed. Nobody decided or used it in time: check the action again to ask anew."
		next = "POST /v1/checks without it"
	case audit.ApprovalDenied:
		d.NextStep = "Do not proceed, and do not ask again: people denied it. Call " + next + " for their notes."
	case audit.ApprovalWithdrawn:
		d.NextStep = "Do not proceed. Its payment was asked for otherwise meanwhile: ask for the payment again."
	case audit.ApprovalAbsent, audit.ApprovalMismatch: // of a use
	}
	d.Message += "; the next call is " + next
	return nil
}

// DecideApproval records a person's decision (S44), and returns the approval after it. replayed
// reports that the decision was recorded before. Errors: ErrApprovalNotFound,
// NotRecordedError, *NotPendingError, *audit.ApprovalError if it is about another action.
func (a *Authorizer) DecideApproval(
	ctx context.Context, access Access, by audit.Actor, d audit.ApprovalDecisionRequest,
) (decided *audit.Approval, replayed bool, err error) {
	if _, err := a.Approval(ctx, access, d.ApprovalID); err != nil {
		return nil, false, err
	}
	by.KeyID, by.Principal = access.key.name, access.principal()
	d.By, d.Owner, d.Groups = by, access.key.Grants.Owner, access.key.Grants.Groups
	d.Name, d.Email = access.person()
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	outcome, err := a.store.Decide(stored, d)
	if err != nil {
		return nil, false, fmt.Errorf("%w: cannot record a decision: %w", ErrUnavailable, err)
	}
	switch outcome {
	case audit.DecisionRecorded, audit.DecisionReplayed:
	case audit.DecisionOwn, audit.DecisionAgain, audit.DecisionNoGroup, audit.DecisionAuthor:
		return nil, false, NotRecordedError{Why: outcome}
	case audit.ApprovalDecisionResult(audit.ApprovalAbsent):
		return nil, false, ErrApprovalNotFound
	case audit.ApprovalDecisionResult(audit.ApprovalMismatch):
		return nil, false, &audit.ApprovalError{Status: audit.ApprovalMismatch}
	default:
		return nil, false, &NotPendingError{audit.ApprovalStatus(outcome)}
	}
	decided, err = a.Approval(ctx, access, d.ApprovalID)
	return decided, outcome == audit.DecisionReplayed, err
}
