package wire

import (
	"encoding/json"

	"spendgate/audit/spend"
)

// Event is something that happened (S51).
type Event struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"` // such as violation.recorded
	Timestamp Timestamp       `json:"timestamp"`
	Sequence  int64           `json:"sequence"`
	Data      json.RawMessage `json:"data"` // an object, whose members depend on the type
}

// EventPage is one page of the feed. It may be short, or empty, while there are
// more.
type EventPage struct {
	Data []Event `json:"data"`
	// NextAfter is the After of the next request, also when there are no more events yet. A reader
	// that stores it together with the effects of the events misses none and sees none twice.
	NextAfter int64 `json:"next_after"`
	HasMore   bool  `json:"has_more"`
}

// EventScope says which policy and agent an event is of.
type EventScope struct {
	PolicyID string `json:"policy_id" wire:"null"`
	AgentID  string `json:"agent_id" wire:"null"`
}

// OutcomeEvent is the data of a report.
type OutcomeEvent struct {
	Outcome
	EventScope
}

// RedemptionEvent is the data of a redemption.
type RedemptionEvent struct {
	Redeemed
	EventScope
}

// DoubtEvent is the data of a check in doubt. Principal and KeyID are null if the service said it.
type DoubtEvent struct {
	CheckID   string    `json:"check_id"`
	At        Timestamp `json:"at"`
	Principal string    `json:"principal" wire:"null"`
	KeyID     string    `json:"key_id" wire:"null"`
	Note      string    `json:"note" wire:"null"`
	EventScope
}

// ApprovalEvent is the data of an event of an approval. Action and RuleIDs are null if the caller may
// not read checks.
type ApprovalEvent struct {
	ApprovalID string `json:"approval_id"`
	CheckID    string `json:"check_id"`
	EventScope
	Action        *RecordedAction   `json:"action" wire:"null"`
	RuleIDs       []string          `json:"rule_ids" wire:"null"`
	From          []GroupRequired   `json:"from,omitzero"`
	ExcludeAuthor bool              `json:"exclude_author,omitzero"`
	ActionHash    string            `json:"action_hash"`
	Required      int               `json:"required"`
	ExpiresAt     Timestamp         `json:"expires_at"`
	Decision      *ApprovalDecision `json:"decision,omitzero"`
	UseBy         *Timestamp        `json:"use_by,omitzero"`
	UsedByCheckID string            `json:"used_by_check_id,omitzero"`
}

// ExhaustionEvent is the data of a budget that is exhausted, or that reached a percentage of its limit. Per, Used and
// Count are null if the caller may not see them.
type ExhaustionEvent struct {
	PolicyID string          `json:"policy_id"`
	RuleID   string          `json:"rule_id"`
	Percent  int             `json:"percent,omitzero"` // 0: exhausted
	Per      json.RawMessage `json:"per" wire:"null"`
	Currency string          `json:"currency" wire:"null"`
	Limit    *spend.Total    `json:"limit" wire:"null"`
	Used     *spend.Total    `json:"used" wire:"null"`
	Count    *int64          `json:"count" wire:"null"`
	MaxCount *int64          `json:"max_count" wire:"null"`
	BudgetWindow
	WindowStart Timestamp `json:"window_start"`
}

// ChangedBy says who made a change. The address of the request is only in the record.
type ChangedBy struct {
	Kind       string `json:"kind"`
	KeyID      string `json:"key_id" wire:"null"`
	Principal  string `json:"principal" wire:"null"`
	Credential string `json:"credential" wire:"null"`
}

// VersionEvent is the data of a new version of a policy.
type VersionEvent struct {
	PolicyID string    `json:"policy_id"`
	Version  int       `json:"version"`
	By       ChangedBy `json:"by"`
}

// DraftEvent is the data of a draft that people are asked about, and of a decision about it.
type DraftEvent struct {
	PolicyID      string    `json:"policy_id"`
	DraftHash     string    `json:"draft_hash"`
	PolicyVersion int       `json:"policy_version"`
	Note          string    `json:"note" wire:"null"`
	By            ChangedBy `json:"by"`
}

// KeyEvent is the data of a new or a changed API key, and of one that expires soon.
type KeyEvent struct {
	KeyID   string          `json:"key_id"`
	Created bool            `json:"created"`
	Key     json.RawMessage `json:"key" wire:"null"`
	By      ChangedBy       `json:"by"`
}
