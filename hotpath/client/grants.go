package client

import (
	"context"
	"iter"
	"net/url"
	"time"

	"spendgate/hotpath/wire"
)

// NewGrant is a grant to be made, with one of AddAmount and AddCount. Under an IdempotencyKey it is made once.
type NewGrant struct {
	PolicyID       string         `json:"policy_id"`
	RuleID         string         `json:"rule_id"`
	Per            map[string]any `json:"per,omitempty"` // a value for each name in the budget's per
	AddAmount      *Amount        `json:"add_amount,omitempty"`
	AddCount       int64          `json:"add_count,omitzero"`
	Until          time.Time      `json:"until"`
	Note           string         `json:"note"`
	IdempotencyKey string         `json:"idempotency_key,omitempty"`
}

// Grant raises the limit of one counter of a budget until a time (S91).
type Grant struct {
	wire.BudgetGrant
	Per map[string]any `json:"per"` // the values that the counter is for

	Raw
}

func (g *Grant) accept(from reply) error {
	return g.take(from, g.GrantID != "" && g.Status != "", "it is no grant")
}

// CreateGrant raises the limit of a counter. It is repeated only with an IdempotencyKey: without one, look with AllGrants after
// an error other than an *Error with a 4xx status.
func (c *Client) CreateGrant(ctx context.Context, g NewGrant) (*Grant, error) {
	return fetch[Grant](ctx, c, create("/v1/grants", g, g.IdempotencyKey != ""))
}

func grantPath(id string) string { return "/v1/grants/" + url.PathEscape(id) }

// Grant reads a grant.
func (c *Client) Grant(ctx context.Context, grantID string) (*Grant, error) {
	return fetch[Grant](ctx, c, get(grantPath(grantID)))
}

// ApproveGrant approves a grant that waits for people. Approving again is a replay.
func (c *Client) ApproveGrant(ctx context.Context, grantID, note string) (*Grant, error) {
	return fetch[Grant](ctx, c, decideGrant(grantID, "/approve", note))
}

// RevokeGrant ends a grant. What passed stays. Revoking again is a replay.
func (c *Client) RevokeGrant(ctx context.Context, grantID, note string) (*Grant, error) {
	return fetch[Grant](ctx, c, decideGrant(grantID, "/revoke", note))
}

func decideGrant(id, verb, note string) request {
	content := map[string]string{}
	if note != "" {
		content["note"] = note
	}
	return post(grantPath(id)+verb, content)
}

// GrantQuery selects grants; all fields may be empty.
type GrantQuery struct {
	PolicyID string `json:"policy_id"`
	RuleID   string `json:"rule_id"`
	AgentID  string `json:"agent_id"`
	Status   string `json:"status"` // pending, open, revoked or ended
}

// AllGrants reads grants, newest first. An error is the last that it yields.
func (c *Client) AllGrants(ctx context.Context, q GrantQuery) iter.Seq2[Grant, error] {
	return pages[Grant](ctx, c, wholePages("/v1/grants", q))
}
