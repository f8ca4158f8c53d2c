package httpapi

import (
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// postKey answers POST /v1/keys.
func (a *API) postKey(x *exchange) error {
	if err := a.admin(x); err != nil {
		return err
	}
	var k hotpath.NewKey
	if err := x.decode(func(r *reader) error { return decodeNewKey(r, &k, keyBounds{a.maxRate, time.Now()}) }); err != nil {
		return err
	}
	raw, key, err := a.authorizer.CreateKey(x.context(), a.adminActor(x), k)
	if err != nil {
		return err
	}
	x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	x.out = appendNewKey(x.out, key, raw)
	return x.answer(201)
}

// getKeys answers GET /v1/keys.
func (a *API) getKeys(x *exchange) error {
	if err := a.admin(x); err != nil {
		return err
	}
	limit, before, filters, err := queryKeys(x.ctx.URI().QueryString())
	if err != nil {
		return err
	}
	ctx, cancel := x.readContext()
	defer cancel()
	keys, more, total, err := a.store.ListKeys(ctx, before, limit)
	if err != nil {
		return err
	}
	var last spend.ID
	x.out = append(x.out, `{"data":[`...)
	for i := range keys {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendKey(x.out, &keys[i])
		last = keys[i].ID
	}
	x.out = appendPage(x.out, more, string(last[:]), filters, total)
	return x.answer(200)
}

// patchKey answers PATCH /v1/keys/{key_id}.
func (a *API) patchKey(x *exchange) error {
	if err := a.admin(x); err != nil {
		return err
	}
	var change audit.KeyChange
	if err := x.decode(func(r *reader) error { return decodeKeyChange(r, &change, keyBounds{a.maxRate, time.Now()}) }); err != nil {
		return err
	}
	id, err := spend.ParseID(x.pathValue("key_id"), spend.PrefixKey)
	if err != nil {
		return errKeyNotFound
	}
	key, err := a.authorizer.UpdateKey(x.context(), a.adminActor(x), id, change)
	if errors.Is(err, audit.ErrNotFound) {
		return errKeyNotFound
	}
	if err != nil {
		return err
	}
	x.out = appendKey(x.out, key)
	return x.answer(200)
}

// getOwnKey answers GET /v1/keys/self.
func (a *API) getOwnKey(x *exchange) error {
	access, err := a.admit(x, x.caller(), true)
	if err != nil {
		return err
	}
	if err := x.noQuery(); err != nil {
		return err
	}
	ctx, cancel := x.readContext()
	defer cancel()
	key, err := a.store.KeyByHash(ctx, access.KeyHash())
	if err != nil {
		return err
	}
	x.out = appendKey(x.out, key)
	return x.answer(200)
}
