package client

import (
	"context"
	"iter"
	"net/url"
	"time"

	"spendgate/hotpath/wire"
)

// FreezeScope is what a freeze stops. Exactly one member is set.
type FreezeScope = wire.FreezeScope

// NewFreeze is a freeze to be created. Under an IdempotencyKey it is created once.
type NewFreeze struct {
	Scope          FreezeScope `json:"scope"`
	Reason         string      `json:"reason"`
	Until          time.Time   `json:"until,omitzero"` // zero: until it is released
	IdempotencyKey string      `json:"idempotency_key,omitempty"`
}

// Freeze stops everything in its scope while it is active (S87).
type Freeze struct {
	wire.Freeze
	Raw
}

func (f *Freeze) accept(from reply) error {
	return f.take(from, f.FreezeID != "" && f.Status != "", "it is no freeze")
}

// CreateFreeze stops everything in a scope. It is repeated only with an IdempotencyKey: without one, look with AllFreezes after
// an error other than an *Error with a 4xx status.
func (c *Client) CreateFreeze(ctx context.Context, f NewFreeze) (*Freeze, error) {
	return fetch[Freeze](ctx, c, create("/v1/freezes", f, f.IdempotencyKey != ""))
}

func freezePath(id string) string { return "/v1/freezes/" + url.PathEscape(id) }

// Freeze reads a freeze.
func (c *Client) Freeze(ctx context.Context, freezeID string) (*Freeze, error) {
	return fetch[Freeze](ctx, c, get(freezePath(freezeID)))
}

// ReleaseFreeze releases a freeze, alone or as one of the people who are required. Releasing again is a replay.
func (c *Client) ReleaseFreeze(ctx context.Context, freezeID, note string) (*Freeze, error) {
	return fetch[Freeze](ctx, c, post(freezePath(freezeID)+"/release", map[string]string{"note": note}))
}

// FreezeQuery selects freezes; all fields may be empty.
type FreezeQuery struct {
	Active bool        // only active ones
	Scope  FreezeScope // one member at most
}

// AllFreezes reads freezes, newest first. An error is the last that it yields.
func (c *Client) AllFreezes(ctx context.Context, q FreezeQuery) iter.Seq2[Freeze, error] {
	r := wholePages("/v1/freezes", q.Scope)
	if q.Active {
		r.query.Set("active", "true")
	}
	return pages[Freeze](ctx, c, r)
}
