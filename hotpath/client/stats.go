package client

import (
	"context"

	"spendgate/hotpath/wire"
)

// StatsQuery asks how many checks there were. From, To and Step are required.
type StatsQuery struct {
	From     string `json:"from,omitempty"` // an RFC 3339 time or a date, which is its whole UTC day
	To       string `json:"to,omitempty"`   // the same; the steps in which both lie are counted whole
	Step     string `json:"step,omitempty"` // minute, hour or day
	PolicyID string `json:"policy_id,omitempty"`
	AgentID  string `json:"agent_id,omitempty"`
}

// Stats are the numbers of every step of a range, the oldest first.
type Stats struct {
	wire.Stats
	Raw
}

func (s *Stats) accept(from reply) error {
	return s.take(from, s.Step != "", "numbers of checks have no step")
}

// Stats reads how many checks there were, by decision and over time.
func (c *Client) Stats(ctx context.Context, q StatsQuery) (*Stats, error) {
	return fetch[Stats](ctx, c, find("/v1/stats", q))
}
