package wire

import (
	"encoding/json"

	"spendgate/audit/spend"
)

// KindGrant is the kind of a grant that waits for people.
const KindGrant = "grant"

// BudgetGrant raises the limit of one counter of a budget until a time (S91).
type BudgetGrant struct {
	Kind      string          `json:"kind"` // grant
	GrantID   string          `json:"grant_id"`
	PolicyID  string          `json:"policy_id"`
	RuleID    string          `json:"rule_id"`
	Per       json.RawMessage `json:"per"` // the values that the counter is for
	AddAmount *spend.Total    `json:"add_amount" wire:"null"`
	AddCount  int64           `json:"add_count" wire:"null"`
	Currency  string          `json:"currency" wire:"null"` // of add_amount
	Until     Timestamp       `json:"until"`
	Note      string          `json:"note"`
	Status    string          `json:"status"` // pending, open, revoked or ended
	CreatedAt Timestamp       `json:"created_at"`
	CreatedBy GrantPerson     `json:"created_by"`
	Required  int             `json:"required"` // people besides the granter
	Missing   int             `json:"missing"`
	Approvals []GrantPerson   `json:"approvals"`
	Revoked   *GrantPerson    `json:"revoked" wire:"null"`
}

// GrantPerson is who granted, approved or revoked. Principal and KeyID are null of an admin.
type GrantPerson struct {
	Principal string    `json:"principal" wire:"null"`
	KeyID     string    `json:"key_id" wire:"null"`
	Name      string    `json:"name,omitzero"` // of a person who had signed in
	Note      string    `json:"note" wire:"null"`
	At        Timestamp `json:"at"`
}

// GrantEvent is the data of an event of a grant.
type GrantEvent struct {
	GrantID   string          `json:"grant_id"`
	PolicyID  string          `json:"policy_id"`
	RuleID    string          `json:"rule_id"`
	Per       json.RawMessage `json:"per"`
	AddAmount *spend.Total    `json:"add_amount" wire:"null"`
	AddCount  int64           `json:"add_count" wire:"null"`
	Currency  string          `json:"currency" wire:"null"`
	Until     Timestamp       `json:"until"`
	Note      string          `json:"note" wire:"null"`
	Required  int             `json:"required"`
	By        ChangedBy       `json:"by"`
}
