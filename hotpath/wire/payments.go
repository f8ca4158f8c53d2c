package wire

// Payment says what became of a payment, and whether the caller carries it out (S84). Members that the service sends as
// null are empty.
type Payment struct {
	PaymentKey string `json:"payment_key"`
	// State is free, denied, escalated, waiting, open, redeemed, in_doubt, releasing or executed.
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
	// Proceed is true only for the caller who carries the action out, now.
	Proceed      bool             `json:"proceed"`
	Nonce        string           `json:"nonce,omitempty" wire:"null"`
	ExecutionID  string           `json:"execution_id,omitempty" wire:"null"`
	RedemptionID string           `json:"redemption_id,omitempty" wire:"null"`
	RedeemedAt   *Timestamp       `json:"redeemed_at,omitempty" wire:"null"`
	Outcome      string           `json:"outcome,omitempty" wire:"null"`
	Reference    string           `json:"reference,omitempty" wire:"null"`
	Approval     *PaymentApproval `json:"approval,omitempty" wire:"null"`
}

// PaymentApproval is the unused approval of a payment's current check.
type PaymentApproval struct {
	ApprovalID string         `json:"approval_id"`
	Status     ApprovalStatus `json:"status"`
	ExpiresAt  Timestamp      `json:"expires_at"`
	Missing    int            `json:"missing"`
}
