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
	PolicyID     string // required
	RuleID       string
	AgentID      string // also lists counters of this agent that were not used yet
	Counterparty string
	At           string // an RFC 3339 time that is in the windows; now if empty
	Limit        int    // a page's, 1 to 100; 0 is the service's default of 20
	Cursor       string // Pagination.NextCursor of a page of the same query
}

// BudgetPage is one page, by RuleID and Per. It has no TotalCount.
type BudgetPage = Page[Budget]

func (q BudgetQuery) request(cursor string) request {
	return get("/v1/budgets", map[string]string{
		"policy_id": q.PolicyID, "rule_id": q.RuleID, "agent_id": q.AgentID, "counterparty": q.Counterparty, "at": q.At,
		"limit": optionalInt(q.Limit), "cursor": cursor,
	})
}

// Budgets reads a page of the counters that were used in their current window.
func (c *Client) Budgets(ctx context.Context, q BudgetQuery) (*BudgetPage, error) {
	return fetch[BudgetPage](ctx, c, q.request(q.Cursor))
}

// AllBudgets reads the counters of a query page by page, beginning at its cursor.
// An error is the last that it yields.
func (c *Client) AllBudgets(ctx context.Context, q BudgetQuery) iter.Seq2[Budget, error] {
	return pages[Budget](ctx, c, q.Cursor, q.request)
}
