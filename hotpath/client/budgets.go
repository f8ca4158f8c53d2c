package client

import (
	"context"
	"iter"

	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// Total is an exact sum of amounts, which may have more digits than one of them.
type Total = spend.Total

// Budget is a counter of a budget rule, in its window (S38).
type Budget struct {
	wire.Budget
	// Per has the values that the counter is for: agent_id and so on. It is empty for a counter of
	// the whole policy.
	Per map[string]any `json:"per"`

	Raw
}

// BudgetQuery selects counters of a policy; fields other than PolicyID may be empty.
type BudgetQuery struct {
	PolicyID     string `json:"policy_id"` // required
	RuleID       string `json:"rule_id"`
	AgentID      string `json:"agent_id"` // also lists counters of this agent that were not used yet
	Counterparty string `json:"counterparty"`
	At           string `json:"at"`    // an RFC 3339 time that is in the windows; now if empty
	Limit        int    `json:"limit"` // of each page, 1 to 100; 0 is the service's default of 20
}

// AllBudgets reads the counters that were used in their current window, by RuleID and Per. An error is the last that it
// yields.
func (c *Client) AllBudgets(ctx context.Context, q BudgetQuery) iter.Seq2[Budget, error] {
	return pages[Budget](ctx, c, find("/v1/budgets", q))
}
