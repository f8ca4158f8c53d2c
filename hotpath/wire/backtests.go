package wire

import "encoding/json"

// Backtest is a replay of recorded checks by other rules (S53).
type Backtest struct {
	BacktestID string           `json:"backtest_id"`
	PolicyID   string           `json:"policy_id"`
	Version    int              `json:"version,omitempty" wire:"null"` // 0 for a backtest of rules
	From       Timestamp        `json:"from"`
	To         Timestamp        `json:"to"`
	State      string           `json:"state"`
	Status     string           `json:"status"` // queued, running, succeeded, failed or canceled
	Progress   BacktestProgress `json:"progress"`
	Error      string           `json:"error,omitempty" wire:"null"`
	KeyID      string           `json:"key_id"`
	Principal  string           `json:"principal"`
	CreatedAt  Timestamp        `json:"created_at"`
	StartedAt  *Timestamp       `json:"started_at" wire:"null"`
	EndedAt    *Timestamp       `json:"ended_at" wire:"null"`
}

// BacktestProgress is how far a backtest is.
type BacktestProgress struct {
	Checks   int64      `json:"checks"`
	Fraction float64    `json:"fraction"`
	Reached  *Timestamp `json:"reached" wire:"null"`
}

// BacktestResult is a backtest with its rules and its report.
type BacktestResult struct {
	Backtest
	Rules  json.RawMessage `json:"rules" wire:"null"`
	Report json.RawMessage `json:"report" wire:"null"`
}

// DraftReport is the backtest of a draft: it compares the draft's decisions with those made since it was
// put.
type DraftReport struct {
	PolicyID    string            `json:"policy_id"`
	DraftHash   string            `json:"draft_hash"`
	BaseVersion int               `json:"base_version"`
	Since       Timestamp         `json:"since"`
	BacktestID  string            `json:"backtest_id"`
	Status      string            `json:"status"` // as of a backtest
	Progress    BacktestProgress  `json:"progress"`
	Error       string            `json:"error,omitempty" wire:"null"`
	Report      json.RawMessage   `json:"report" wire:"null"` // of the last run that succeeded
	Flips       []json.RawMessage `json:"flips"`              // the newest
}
