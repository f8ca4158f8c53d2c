package httpapi

import (
	"time"

	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// postKey answers POST /v1/keys.
func (a *API) postKey(x *exchange) error {
	var k hotpath.NewKey
	if err := x.decode(func(r *reader) { decodeNewKey(r, &k, keyBounds{a.MaxRateLimit, time.Now()}) }); err != nil {
		return err
	}
	raw, key, err := a.Authorizer.CreateKey(x.context(), a.adminActor(x), k)
	if err != nil {
		return err
	}
	x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	return respond(x, 201, newKeyOf(key, raw))
}

// getKeys answers GET /v1/keys.
func (a *API) getKeys(x *exchange) error {
	filters := sumOf("keys 1", "")
	limit, before, err := queryBefore(x.query(), filters)
	if err != nil {
		return err
	}
	page, err := a.Store.ListKeys(x.readContext(), before, limit)
	if err != nil {
		return err
	}
	return listing[audit.Key, wire.Key]{
		page: page.Keys, record: keyOf, position: func(k *audit.Key) string { return string(k.ID[:]) },
		more: page.More, filters: filters, total: &page.Total,
	}.answer(x)
}

// patchKey answers PATCH /v1/keys/{key_id}.
func (a *API) patchKey(x *exchange) error {
	var change audit.KeyChange
	if err := x.decode(func(r *reader) { decodeKeyChange(r, &change, keyBounds{a.MaxRateLimit, time.Now()}) }); err != nil {
		return err
	}
	id, err := x.pathID("key_id")
	if err != nil {
		return err
	}
	key, stopped, err := a.Authorizer.UpdateKey(x.context(), a.adminActor(x), id, change)
	if err != nil {
		return err
	}
	shown := keyOf(key)
	if change.Active != nil && !*change.Active {
		shown.Stopped = (*wire.Stopped)(&stopped)
	}
	return respond(x, 200, shown)
}

// getOwnKey answers GET /v1/keys/self.
func (a *API) getOwnKey(x *exchange) error {
	if s := x.access.Session(); s != nil {
		return respond(x, 200, ownSessionOf(s, x.quota.Limit))
	}
	return reply(x, 200, keyOf)(a.Store.KeyByHash(x.readContext(), x.access.KeyHash()))
}

// The requests per minute that a key may have.
const (
	defaultRateLimit    = 100
	defaultMaxRateLimit = 10000
)

// keyBounds are the limits for the fields of a key.
type keyBounds struct {
	maxRateLimit int // the most that a key may have here
	now          time.Time
}

// decodeNewKey reads the body of POST /v1/keys.
func decodeNewKey(r *reader, k *hotpath.NewKey, b keyBounds) {
	k.RateLimitRPM = defaultRateLimit
	var given grantsReader
	for r.next() {
		switch r.name {
		case "name":
			k.Name = r.text()
		case "rate_limit_rpm":
			if n, present := r.integer(b.maxRateLimit); present {
				k.RateLimitRPM = n
			}
		default:
			given.read(r, b.now)
		}
	}
	r.requireName(k.Name)
	given.judge(r)
	k.Grants = given.Grants
}

// decodeKeyChange reads the body of PATCH /v1/keys/{key_id}; a blank or null
// active, name or rate_limit_rpm is absent, null clears the others (S29).
func decodeKeyChange(r *reader, c *audit.KeyChange, b keyBounds) {
	var given grantsReader
	var keepOpen, asked bool
	for r.next() {
		switch r.name {
		case "active":
			if active, present := r.boolean(); present {
				c.Active = &active
			}
		case "keep_open":
			keepOpen, asked = r.boolean()
		case "name":
			if name := r.text(); !spend.Blank(name) {
				r.checkLength("name", name, spend.MaxName)
				c.Name = &name
			}
		case "rate_limit_rpm":
			if n, present := r.integer(b.maxRateLimit); present {
				c.RateLimitRPM = &n
			}
		default:
			given.read(r, b.now)
		}
	}
	given.judge(r)
	c.Grants = given.change(r)
	off := c.Active != nil && !*c.Active
	if c.Stops = off && !keepOpen; asked && !off {
		r.fault("keep_open", "is for a key that is deactivated: send \"active\": false, too")
	}
	if c.Empty() && len(r.faults) == 0 {
		r.fault("active", "or another member is required: there is nothing to change")
	}
}
