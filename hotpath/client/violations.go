package client

import (
	"context"
	"iter"

	"spendgate/hotpath/wire"
)

// Violation is a check that was blocked or escalated.
type Violation struct {
	wire.Violation
	ViolationID string `json:"violation_id"`
	CheckID     string `json:"check_id"`
}

// ViolationQuery selects violations; empty fields select all.
type ViolationQuery struct {
	AgentID    string     `json:"agent_id,omitempty"`
	PolicyID   string     `json:"policy_id,omitempty"`
	ActionType ActionType `json:"action_type,omitempty"`
	Decision   Decision   `json:"decision,omitempty"`    // Block or Escalate
	AmountFrom string     `json:"amount_from,omitempty"` // inclusive, in whatever currency, as is AmountTo
	AmountTo   string     `json:"amount_to,omitempty"`
	From       string     `json:"from,omitempty"`   // an RFC 3339 time or a date, which is its whole UTC day
	To         string     `json:"to,omitempty"`     // the same; both are inclusive
	Limit      int        `json:"limit,omitempty"`  // a page's, 1 to 100; 0 is the service's default of 20
	Cursor     string     `json:"cursor,omitempty"` // Pagination.NextCursor of a page of the same query
}

// ViolationPage is one page, newest first.
type ViolationPage = Page[Violation]

// Violations reads a page.
func (c *Client) Violations(ctx context.Context, q ViolationQuery) (*ViolationPage, error) {
	return fetch[ViolationPage](ctx, c, find("/v1/violations", q))
}

// AllViolations reads the violations of a query page by page, beginning at its
// cursor. An error is the last that it yields.
func (c *Client) AllViolations(ctx context.Context, q ViolationQuery) iter.Seq2[Violation, error] {
	return pages[Violation](ctx, c, find("/v1/violations", q))
}
