package wire

import "spendgate/audit/spend"

// Sums say what checks come to.
type Sums struct {
	Since          *Timestamp          `json:"since"` // nothing older was looked at; null: the whole range was
	Checks         DecisionCounts      `json:"checks"`
	Amounts        []CurrencySum       `json:"amounts"` // in the order of their currencies
	Agents         []AgentCount        `json:"agents"`  // the ten of most checks
	Counterparties []CounterpartyCount `json:"counterparties"`
	Rules          []RuleCount         `json:"rules"` // that blocked or escalated
	Latency        SummedLatency       `json:"latency_ms"`
}

// SummedLatency says how long the node took: half of the checks and 95 % of them at most, and the slowest.
type SummedLatency struct {
	P50 int64 `json:"p50"`
	P95 int64 `json:"p95"`
	Max int64 `json:"max"`
}

// CurrencySum has the amounts of one currency, by decision.
type CurrencySum struct {
	Currency string      `json:"currency"`
	Allow    spend.Total `json:"allow"`
	Block    spend.Total `json:"block"`
	Escalate spend.Total `json:"escalate"`
}

// AgentCount is how many checks an agent asked for.
type AgentCount struct {
	AgentID string `json:"agent_id"`
	Checks  int64  `json:"checks"`
}

// CounterpartyCount is how many checks name a counterparty.
type CounterpartyCount struct {
	Counterparty string `json:"counterparty"`
	Checks       int64  `json:"checks"`
}

// RuleCount is how many checks a rule decided for one reason.
type RuleCount struct {
	PolicyID   string `json:"policy_id"`
	RuleID     string `json:"rule_id"`
	ReasonCode string `json:"reason_code"`
	Checks     int64  `json:"checks"`
}
