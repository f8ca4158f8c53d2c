package wire

import (
	"encoding/json"

	"spendgate/audit/spend"
)

// Budget is a counter of a budget rule, in its window (S38).
type Budget struct {
	PolicyID string `json:"policy_id"`
	RuleID   string `json:"rule_id"`
	// Per has the values that the counter is for: agent_id and so on. It is empty for a counter of
	// the whole policy.
	Per       json.RawMessage `json:"per"`
	Currency  string          `json:"currency,omitempty" wire:"null"`
	Limit     *spend.Amount   `json:"limit,omitempty" wire:"null"` // nil: no limit on amounts
	Used      spend.Total     `json:"used"`
	Remaining *spend.Total    `json:"remaining,omitempty" wire:"null"`
	Count     int64           `json:"count"`
	MaxCount  *int64          `json:"max_count,omitempty" wire:"null"` // nil: no limit on how many
	// RemainingCount is never below zero, nor is Remaining.
	RemainingCount *int64 `json:"remaining_count,omitempty" wire:"null"`
	BudgetWindow
	WindowStart   Timestamp  `json:"window_start"`
	ResetsAt      *Timestamp `json:"resets_at,omitempty" wire:"null"` // nil: never
	CountingSince Timestamp  `json:"counting_since"`
	// Granted and GrantedCount are what open grants add to Limit and MaxCount; Remaining and RemainingCount include it.
	Granted      *spend.Total `json:"granted,omitempty" wire:"null"`
	GrantedCount *int64       `json:"granted_count,omitempty" wire:"null"`
	AsOf         Timestamp    `json:"as_of"`
}

// BudgetWindow is the window of a budget.
type BudgetWindow struct {
	Window         string `json:"window,omitempty" wire:"null"` // hour, day and so on; empty for a rolling one
	RollingMinutes int64  `json:"rolling_minutes,omitzero"`     // of a rolling one
	TimeZone       string `json:"time_zone,omitzero"`
}
