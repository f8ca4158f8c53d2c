package wire

import (
	"encoding/json"

	"spendgate/audit/spend"
)

// Result is the answer to an action. Fields that the service sends as null are empty. Every check is
// answered by an encoder of its own, httpapi.AppendCheckResult.
type Result struct {
	CheckID                 string    `json:"check_id"`
	Decision                Decision  `json:"decision"`
	Confidence              string    `json:"confidence"` // high, medium or low
	ReasonCode              string    `json:"reason_code,omitempty" wire:"null"`
	Message                 string    `json:"message,omitempty" wire:"null"`
	ViolatedRuleID          string    `json:"violated_rule_id,omitempty" wire:"null"`
	ViolatedRuleDescription string    `json:"violated_rule_description,omitempty" wire:"null"`
	PolicyVersion           int       `json:"policy_version"`
	NextStep                string    `json:"next_step,omitempty" wire:"null"`
	LatencyMS               int64     `json:"latency_ms"`
	Timestamp               Timestamp `json:"timestamp"`
	// ApprovalID names the approval that an escalation asks for; pass it to WaitForApproval.
	ApprovalID string `json:"approval_id,omitzero"`
	// Payment is nil if the check is of none.
	Payment *Payment `json:"payment,omitzero"`
}

// CheckRecord is what a check in a list has besides its Result.
type CheckRecord struct {
	Action    RecordedAction `json:"action"`
	Principal string         `json:"principal"`           // of the API key that asked
	Outcome   *Outcome       `json:"outcome" wire:"null"` // the last report; nil before there is one
	// Redemption is nil before the check is redeemed.
	Redemption *RecordedRedemption `json:"redemption,omitzero"`
}

// RecordedAction is an action as it was evaluated.
type RecordedAction struct {
	AgentID          string          `json:"agent_id"`
	PolicyID         string          `json:"policy_id"`
	ActionType       ActionType      `json:"action_type"` // as resolved
	Amount           spend.Amount    `json:"amount"`
	Currency         string          `json:"currency"`
	Counterparty     string          `json:"counterparty"`
	PaymentMethod    string          `json:"payment_method,omitempty" wire:"null"`
	MerchantOrVendor string          `json:"merchant_or_vendor,omitempty" wire:"null"`
	ReasonText       string          `json:"reason_text,omitempty" wire:"null"`
	IdempotencyKey   string          `json:"idempotency_key,omitempty" wire:"null"`
	Metadata         json.RawMessage `json:"metadata,omitempty" wire:"null"` // an object; nil if there is none
	ApprovalID       string          `json:"approval_id,omitzero"`
	PaymentKey       string          `json:"payment_key,omitzero"`
}

// Violation is a check that was blocked or escalated.
type Violation struct {
	ViolationID             ID           `json:"violation_id"`
	CheckID                 ID           `json:"check_id"`
	AgentID                 string       `json:"agent_id"`
	PolicyID                string       `json:"policy_id"`
	PolicyVersion           int          `json:"policy_version"`
	ActionType              ActionType   `json:"action_type"`
	Amount                  spend.Amount `json:"amount"`
	Currency                string       `json:"currency"`
	Counterparty            string       `json:"counterparty"`
	Decision                Decision     `json:"decision"`
	ViolatedRuleID          string       `json:"violated_rule_id"`
	ViolatedRuleDescription string       `json:"violated_rule_description"`
	Confidence              string       `json:"confidence"`
	LatencyMS               int64        `json:"latency_ms"`
	Timestamp               Timestamp    `json:"timestamp"`
}

// Outcome is a recorded report.
type Outcome struct {
	CheckID   string        `json:"check_id"`
	Report    int           `json:"report"` // counts the reports of the check, from 1
	Status    string        `json:"status"`
	Amount    *spend.Amount `json:"amount,omitempty" wire:"null"`
	Reference string        `json:"reference,omitempty" wire:"null"`
	Note      string        `json:"note,omitempty" wire:"null"`
	Release   string        `json:"release"` // none, pending or done
	Flags     []string      `json:"flags"`
	Principal string        `json:"principal"`
	KeyID     string        `json:"key_id"`
	At        Timestamp     `json:"at"`
}

// Redemption is the permission to carry an action out, once.
type Redemption struct {
	CheckID      string         `json:"check_id"`
	Action       RecordedAction `json:"action"`
	ActionHash   string         `json:"action_hash"`
	RedeemedAt   Timestamp      `json:"redeemed_at"`
	RedemptionID string         `json:"redemption_id"`
	Payment      *Payment       `json:"payment,omitzero"` // nil if the check has none
}

// Redeemed says who redeemed a check.
type Redeemed struct {
	CheckID      string    `json:"check_id"`
	RedemptionID string    `json:"redemption_id"`
	RedeemedAt   Timestamp `json:"redeemed_at"`
	Principal    string    `json:"principal"`
	KeyID        string    `json:"key_id"`
}

// RecordedRedemption is a redemption in a list.
type RecordedRedemption struct {
	Redeemed
	InDoubtAt *Timestamp `json:"in_doubt_at"` // nil: it is not in doubt
}

// Simulation is the answer to a simulation.
type Simulation struct {
	Mode          string            `json:"mode"` // demo or simulation
	PolicyID      string            `json:"policy_id"`
	PolicyVersion int               `json:"policy_version"`
	Results       []json.RawMessage `json:"results"` // one per action, in their order
	Summary       SimulationSummary `json:"summary"`
}

// SimulationSummary counts a simulation's results.
type SimulationSummary struct {
	Total     int `json:"total"`
	Allowed   int `json:"allowed"`
	Blocked   int `json:"blocked"`
	Escalated int `json:"escalated"`
}

// DecisionCounts are numbers of checks, by decision.
type DecisionCounts struct {
	Allow    int64 `json:"allow"`
	Block    int64 `json:"block"`
	Escalate int64 `json:"escalate"`
}

// StatsBucket has the numbers of one step.
type StatsBucket struct {
	Start Timestamp `json:"start"`
	DecisionCounts
}

// Stats are the numbers of every step of a range, the oldest first.
type Stats struct {
	Step  string         `json:"step"`
	Data  []StatsBucket  `json:"data"`
	Total DecisionCounts `json:"total"`
}
