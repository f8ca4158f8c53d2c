package hotpath

import (
	"context"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// factsOf reads what the state of a payment depends on. An unknown payment has version 0.
func (a *Authorizer) factsOf(ctx context.Context, hash spend.Hash) (*audit.PaymentFacts, error) {
	found, err := a.factsOfAll(ctx, []spend.Hash{hash})
	if err != nil {
		return nil, err
	}
	if facts := found[hash]; facts != nil {
		return facts, nil
	}
	return new(audit.PaymentFacts), nil
}

// factsOfAll is factsOf of several payments. Unknown ones are missing.
func (a *Authorizer) factsOfAll(ctx context.Context, hashes []spend.Hash) (map[spend.Hash]*audit.PaymentFacts, error) {
	payments, err := a.payments.GetAll(ctx, hashes)
	if err != nil {
		return nil, err
	}
	all := make(map[spend.Hash]*audit.PaymentFacts, len(hashes))
	var shown, reported, asked []spend.ID
	for _, hash := range hashes {
		if payment := payments[hash]; payment != nil {
			all[hash] = &audit.PaymentFacts{Payment: *payment}
			shown = append(shown, payment.Shown())
		}
	}
	if len(all) == 0 {
		return all, nil
	}
	checks, err := a.toShow.GetAll(ctx, shown)
	if err != nil {
		return nil, err
	}
	for _, id := range shown {
		check := checks[id]
		switch {
		case check == nil:
			return nil, fmt.Errorf("%w: check %s of a payment is not there", ErrUnavailable, id.Text(spend.PrefixCheck))
		case check.Approval != nil:
			asked = append(asked, id)
		case check.TakesOutcome():
			reported = append(reported, id)
		}
	}
	var courses map[spend.ID]spend.Course
	if reported != nil {
		if courses, err = a.became.GetAll(ctx, reported); err != nil {
			return nil, err
		}
	}
	var approvals map[spend.ID]*audit.Approval
	if asked != nil {
		if approvals, err = a.approvals.GetAll(ctx, asked); err != nil {
			return nil, err
		}
	}
	for _, facts := range all {
		id := facts.Shown()
		facts.Check, facts.Course, facts.Approval = checks[id], courses[id], approvals[id]
	}
	return all, nil
}

// usable returns the first of a payment's approvals that a check of it may use, or could once people approve it; nil without one.
func usable(facts *audit.PaymentFacts, approvals []*audit.Approval, would *spend.Check) *audit.Approval {
	for _, approval := range approvals {
		refused := approval.Refuses(would)
		if refused != nil && refused.Status != audit.ApprovalPending || facts.Executed() != nil || approval.Check.Payment.Round != facts.Round {
			continue // people approved it for the round before
		}
		if facts.Check.Decision.Effect == spend.Escalate && facts.Check.Action.ApprovalID == approval.Check.ID {
			return nil
		}
		return approval
	}
	return nil
}

// approvalsOf returns the pending and the approved approvals of payments.
func (a *Authorizer) approvalsOf(ctx context.Context, payments ...spend.Hash) ([]*audit.Approval, error) {
	approvals, err := a.store.PaymentApprovals(ctx, payments)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the approvals of payments: %w", ErrUnavailable, err)
	}
	return approvals, nil
}

// noteOthers completes facts: a check that was blocked, or that was asked again, may leave an approval of another check unused (S84).
func (a *Authorizer) noteOthers(ctx context.Context, all map[spend.Hash]*audit.PaymentFacts) error {
	var asked []spend.Hash
	for hash, facts := range all {
		status := facts.Status(a.now())
		mayWait := status == audit.PaymentFree || status == audit.PaymentDenied || status == audit.PaymentEscalated
		if mayWait && facts.Version > 1 && facts.Check != nil {
			asked = append(asked, hash)
		}
	}
	if asked == nil {
		return nil
	}
	approvals, err := a.approvalsOf(ctx, asked...)
	if err != nil {
		return err
	}
	of := make(map[spend.Hash][]*audit.Approval)
	for _, approval := range approvals {
		of[approval.Check.PaymentHash()] = append(of[approval.Check.PaymentHash()], approval)
	}
	for hash, approvals := range of {
		all[hash].Other = usable(all[hash], approvals, all[hash].Check)
	}
	return nil
}
