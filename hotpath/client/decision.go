package client

import (
	"fmt"

	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// Decision is the service's decision on an action; the zero value permits nothing.
type Decision = wire.Decision

// ActionType is the kind of action that an agent plans.
type ActionType = wire.ActionType

// ApprovalStatus is the status of an approval.
type ApprovalStatus = wire.ApprovalStatus

// Timestamp is a time as the service writes it.
type Timestamp = wire.Timestamp

// The decisions.
const (
	Undecided = wire.Undecided
	Block     = wire.Block    // do not proceed
	Escalate  = wire.Escalate // pause, a human decides
	Allow     = wire.Allow    // proceed
)

// The action types.
const (
	Refund   = wire.Refund
	Credit   = wire.Credit
	Discount = wire.Discount
	Spend    = wire.Spend
)

// The statuses of approvals.
const (
	ApprovalPending  = wire.ApprovalPending
	ApprovalApproved = wire.ApprovalApproved
	ApprovalDenied   = wire.ApprovalDenied
	ApprovalExpired  = wire.ApprovalExpired
	ApprovalUsed     = wire.ApprovalUsed
)

// Amount is an exact, non-negative decimal (S7): money is never binary float.
type Amount = spend.Amount

// ParseAmount reads a decimal such as "42.50". It fails if the number is negative or has more than 18
// integer, 9 fraction or 19 digits in all.
func ParseAmount(s string) (Amount, error) {
	a, err := spend.ParseAmount(s)
	if err != nil {
		return a, fmt.Errorf("amount %q %w", s, err)
	}
	return a, nil
}
