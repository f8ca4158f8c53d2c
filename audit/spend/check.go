package spend

import (
	"cmp"
	"time"
)

// Check is one answered request: the action as it was evaluated, the decision and the facts that prove
// it. It is the row of the audit trail and the source of the answer, of its replay and of GET
// /v1/checks/{id}, so that these cannot differ (S18, S21).
type Check struct {
	ID         ID // its millisecond is the check's timestamp (S5)
	Action     Action
	ActionType ActionType // as resolved; never Unspecified
	Decision   Decision
	LatencyMS  int64 // first byte read to decision made, rounded down (S20)

	KeyID       string // the API key's key_id
	Principal   string // of the API key; empty if the key's record names none
	Owner       string // the person or team that runs the agent; empty if the key's record names none
	Namespace   string // of its idempotency keys (S59); empty: the one that plain API keys share
	RequestID   string
	Fingerprint Hash
	RequestSHA  Hash // of the canonical request

	Approval *ApprovalRequest // the approval that the check asks for; nil for none
	Payment  *CheckPayment    // the payment that the check is of; nil for none
	Charges  []Charge         // of the budgets that judged the check; in a row, only what the check took
	Refused  []Charge         // of the budgets without room for the check; not in rows

	// Payments are changed by the check's commit, Withdrawn are the approvals that it withdraws. Stores that
	// read checks set neither.
	Payments  []PaymentChange
	Withdrawn []ID
	// RedeemBy is until when an allowed check that only a redemption carries out may be redeemed; zero for others.
	// Not in rows.
	RedeemBy time.Time

	Pass  Pass  // zero when the duplicate guard blocked the check
	Fence Fence // of the claims; set before the check is committed
}

// The formats of a check's row: its columns and the encoder that renders it.
const (
	FirstFormat   = 1
	PaymentFormat = 2 // has a payment
)

// Format returns the format of the check's row, so that a later version renders an old row as it was
// answered.
func (c *Check) Format() int16 {
	if c.Payment != nil {
		return PaymentFormat
	}
	return FirstFormat
}

// PaymentHash names the payment that the check is of; zero without one.
func (c *Check) PaymentHash() Hash {
	if c.Payment == nil {
		return Hash{}
	}
	return PaymentHash(c.Namespace, c.Payment.Key)
}

// Timestamp returns when the check was made: its ID's millisecond.
func (c *Check) Timestamp() time.Time { return c.ID.Time() }

// PrincipalName returns the principal of the check's key (S32).
func (c *Check) PrincipalName() string {
	return cmp.Or(c.Principal, c.KeyID)
}

// KeyHash returns the hash of the slot that the check's idempotency key takes; zero
// without one.
func (c *Check) KeyHash() Hash { return c.Action.KeyHash(c.Namespace) }

// ProvesApproval reports whether the check is recorded only while its approval is approved: it uses the approval, or is of a payment,
// which a denial ends (S84).
func (c *Check) ProvesApproval() bool {
	return c.UsesApproval() || !c.Action.ApprovalID.IsZero() && c.Payment != nil
}

// UsesApproval reports whether the check marks its approval as used (S47).
func (c *Check) UsesApproval() bool {
	return !c.Action.ApprovalID.IsZero() && c.Decision.Effect == Allow
}

// TakesOutcome reports whether an outcome of the check may be reported: it was allowed, or people
// outside of spendgate are to approve it (S39).
func (c *Check) TakesOutcome() bool {
	return c.Decision.Effect == Allow || c.Decision.Effect == Escalate && c.Approval == nil
}

// Violation reports whether the check is listed as a violation.
func (c *Check) Violation() bool { return c.Decision.Effect != Allow }

// ParseMetadata completes the metadata of a check that was read from its row.
func (c *Check) ParseMetadata() error {
	if c.Action.Metadata.JSON == "" {
		return nil
	}
	var faults Faults
	c.Action.Metadata = ParseMetadata(c.Action.Metadata.JSON, "metadata", &faults)
	return faults.Err()
}

// Pass is the fingerprint that a check left when it passed the duplicate
// guard, in milliseconds of Redis' clock (S17).
type Pass struct {
	ClaimedMS int64 // when the claim was made; 0 means that the check did not pass
	UntilMS   int64 // latest end of any window left on the fingerprint
}

// Passed reports whether the check passed the guard.
func (p Pass) Passed() bool { return p.ClaimedMS != 0 }

// Fence proves, inside a commit, that the claims of its checks are still valid: the store refuses a
// commit whose epoch has ended or whose node was fenced, or that was judged before the last stop.
type Fence struct {
	Node  ID    // the incarnation of the node that claimed
	Epoch ID    // the epoch of Redis' windows in which it claimed
	Stops int64 // the last change that stops something, of those that the node knew (S87)
}
