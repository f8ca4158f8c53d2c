package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"spendgate/hotpath/wire"
)

// Grants are what an API key may do, and whom it belongs to (S29 to S32).
type Grants = wire.Grants

// Stopped counts what the deactivation of a key stopped (S87).
type Stopped = wire.Stopped

// Key is the record of an API key (S25).
type Key struct {
	wire.Key
	Raw
}

// KeyRequest is a request for an API key.
type KeyRequest struct {
	Name         string `json:"name"`
	RateLimitRPM *int   `json:"rate_limit_rpm,omitzero"` // 1 to 10,000; nil is the service's default
	Grants
}

// NewKey is an API key right after its creation: the only time that it is shown.
type NewKey struct{ wire.NewKey }

// KeyChange is a change of a key; nil and empty fields stay. A role replaces scopes, and scopes
// replace a role.
type KeyChange struct {
	Active       *bool   `json:"active,omitzero"`
	KeepOpen     bool    `json:"keep_open,omitzero"` // beside an Active of false: what the key was allowed stays redeemable
	Name         *string `json:"name,omitzero"`
	RateLimitRPM *int    `json:"rate_limit_rpm,omitzero"` // 1 to 10,000
	Grants

	// Clear names members of Grants to remove: owner, policy_ids and so on.
	Clear []string `json:"-"`
}

// CreateKey makes an API key. It needs the admin key, and is not repeated when
// the key may have been made.
func (c *Client) CreateKey(ctx context.Context, r KeyRequest) (*NewKey, error) {
	return fetch[NewKey](ctx, c, request{method: http.MethodPost, path: "/v1/keys", content: r, status: http.StatusCreated, admin: true})
}

func (k *NewKey) accept(reply) error {
	if k.KeyID == "" || k.APIKey == "" {
		return misunderstood("it is no API key")
	}
	return nil
}

// UpdateKey changes a key. When it returns without an error, the change is in force on every node
// (G5). It needs the admin key.
func (c *Client) UpdateKey(ctx context.Context, keyID string, change KeyChange) (*Key, error) {
	cleared := make(map[string]*string, len(change.Clear)) // null removes a member
	for _, name := range change.Clear {
		cleared[name] = nil
	}
	body := struct {
		KeyChange
		Cleared map[string]*string `json:",embed"`
	}{change, cleared}
	return fetch[Key](ctx, c, request{
		method: http.MethodPatch, path: "/v1/keys/" + url.PathEscape(keyID), content: body, repeatable: true, admin: true,
	})
}

// Self reads the record of the client's own API key.
func (c *Client) Self(ctx context.Context) (*Key, error) {
	return fetch[Key](ctx, c, get("/v1/keys/self"))
}

func (k *Key) accept(from reply) error {
	return k.take(from, k.KeyID != "", "it is no API key")
}

// AllKeys reads the keys, newest first. It needs the admin key. An error is the last that it yields.
func (c *Client) AllKeys(ctx context.Context) iter.Seq2[Key, error] {
	return pages[Key](ctx, c, asAdmin(wholePages("/v1/keys", struct{}{})))
}

// Health is the service's health report.
type Health struct{ wire.Health }

// Health asks whether the service answers. It needs no key.
func (c *Client) Health(ctx context.Context) (*Health, error) {
	return fetch[Health](ctx, c, get("/health"))
}

func (h *Health) accept(reply) error {
	if h.Status == "" {
		return misunderstood("it is no health report")
	}
	return nil
}
