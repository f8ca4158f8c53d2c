package audit

import (
	"context"
	"fmt"
	"time"

	"spendgate/audit/spend"
)

// Payments are the rows that say what became of payments (S84). Commit makes and changes them: a commit that
// carries a spend.PaymentChange is refused with a PaymentsMovedError unless the payment has the version that
// was seen.
type Payments interface {
	// Payments returns those of the payments that are recorded.
	Payments(ctx context.Context, hashes []spend.Hash) (map[spend.Hash]*spend.Payment, error)
	// CountPayments returns how many payments are recorded: of more than 100,000 an estimate.
	CountPayments(ctx context.Context) (int64, error)
	// UnchangedPayments calls each with the payments of which nothing was recorded since a time, some at once; with none if the
	// record was restored from a backup since, which may lack what became of them. A payment that is recorded meanwhile may be missing.
	UnchangedPayments(ctx context.Context, since time.Time, each func([]spend.Hash) error) error
	// RemovePayments removes those of the payments that have this version and of which nothing was recorded since a time, which
	// is spend.PaymentsKept ago at least, and returns how many. It records a change of kind PaymentsRemoved. No commit that has
	// read a payment makes it again: it fails with a PaymentsMovedError.
	RemovePayments(ctx context.Context, ended []*spend.Payment, before time.Time) (removed int, err error)
	// PaymentApprovals returns, newest first, the approvals that checks of the payments asked for and that are pending
	// or approved.
	PaymentApprovals(ctx context.Context, payments []spend.Hash) ([]*Approval, error)
	// Lapses returns allowed checks that only a redemption carries out (spend.Check.RedeemBy), that nobody redeemed
	// or reported, and whose time is over by the store's clock; up to the limit, the oldest first.
	Lapses(ctx context.Context, limit int) ([]spend.ID, error)
	// OpenAllows returns allowed checks that only a redemption carries out and that nobody redeemed or reported, in the
	// order of their identifiers, behind one of them.
	OpenAllows(ctx context.Context, after spend.ID, limit int) ([]OpenAllow, error)
}

// OpenAllow is an allowed check that only a redemption carries out.
type OpenAllow struct {
	Check spend.ID
	KeyID string // that asked for it
	Stops int64  // the last stop by which it was judged
}

// PaymentsMovedError lists the payments of a batch that have another version than was seen. Nothing was
// written: refuse their entries and commit the rest.
type PaymentsMovedError struct{ Hashes []spend.Hash }

func (e *PaymentsMovedError) Error() string {
	return fmt.Sprintf("%d payments were changed meanwhile", len(e.Hashes))
}

// PaymentStatus is the state of a payment (S84).
type PaymentStatus string

// The states.
const (
	PaymentFree      PaymentStatus = "free"
	PaymentDenied    PaymentStatus = "denied"
	PaymentEscalated PaymentStatus = "escalated"
	PaymentWaiting   PaymentStatus = "waiting"
	PaymentOpen      PaymentStatus = "open"
	PaymentRedeemed  PaymentStatus = "redeemed"
	PaymentInDoubt   PaymentStatus = "in_doubt"
	PaymentReleasing PaymentStatus = "releasing"
	PaymentExecuted  PaymentStatus = "executed"
)

// PaymentFacts are what the state of a payment depends on.
type PaymentFacts struct {
	spend.Payment
	Check    *spend.Check // the one that the payment shows; nil without one
	Course   spend.Course // of that check
	Approval *Approval    // that the shown check asked for; nil without one
	Other    *Approval    // of another check, that the shown check's action may use, or could once people approve it; nil without one
}

// Status returns the payment's state at a moment.
func (f *PaymentFacts) Status(now time.Time) PaymentStatus {
	status := f.ofShown(now)
	if f.Other != nil && (status == PaymentFree || status == PaymentDenied || status == PaymentEscalated) {
		return PaymentWaiting
	}
	return status
}

// ofShown is the state that the shown check gives.
func (f *PaymentFacts) ofShown(now time.Time) PaymentStatus {
	last := f.Course.Last()
	switch {
	case f.Executed() != nil:
		if f.Over(now) {
			return PaymentFree
		}
		return PaymentExecuted
	case last != nil && last.Status == spend.Executed: // reported after the payment was read
		return PaymentExecuted
	case f.Check == nil, f.Check.Decision.Effect == spend.Block, last.Frees():
		return PaymentFree
	case last != nil && f.Check.Decision.Effect != spend.Allow: // it took nothing that could be given back
		return PaymentFree
	case last != nil:
		return PaymentReleasing
	case f.Course.Redeemed != nil:
		if f.Course.Doubt != nil || !now.Before(f.Course.Holder().ID.Time().Add(spend.DoubtAfter)) {
			return PaymentInDoubt
		}
		return PaymentRedeemed
	case f.Check.Decision.Effect == spend.Allow:
		return PaymentOpen
	case f.Approval == nil:
		return PaymentEscalated
	}
	switch f.Approval.Status {
	case ApprovalDenied:
		return PaymentDenied
	case ApprovalPending, ApprovalApproved:
		return PaymentWaiting
	default: // expired or withdrawn; a used one is another check's, which would be shown
		return PaymentFree
	}
}
