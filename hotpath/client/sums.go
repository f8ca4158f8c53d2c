package client

import (
	"context"

	"spendgate/hotpath/wire"
)

// SumsQuery selects checks to add up; empty fields select all.
type SumsQuery struct {
	AgentID      string `json:"agent_id,omitempty"`
	PolicyID     string `json:"policy_id,omitempty"`
	Counterparty string `json:"counterparty,omitempty"`
	Principal    string `json:"principal,omitempty"` // of the API key that asked
	RuleID       string `json:"rule_id,omitempty"`   // that decided
	From         string `json:"from,omitempty"`      // an RFC 3339 time or a date, which is its whole UTC day
	To           string `json:"to,omitempty"`        // the same; both are inclusive
}

// Sums say what the checks of a query come to.
type Sums struct {
	wire.Sums
	Raw
}

func (s *Sums) accept(from reply) error {
	return s.take(from, s.Amounts != nil, "sums of checks have no amounts")
}

// Sums adds up the amounts of checks by currency and decision. If Since is set, these are the newest 100,000
// that were made in the range, or those that are not archived.
func (c *Client) Sums(ctx context.Context, q SumsQuery) (*Sums, error) {
	return fetch[Sums](ctx, c, find("/v1/sums", q))
}
