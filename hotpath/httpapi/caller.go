package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"time"

	"spendgate/audit"
	"spendgate/hotpath"
)

// The request headers that identify the caller, as fasthttp spells names.
var (
	headerAPIKey    = []byte("X-Api-Key")
	headerAdminKey  = []byte("X-Admin-Key")
	headerForwarded = "X-Forwarded-For"
)

// sender returns the caller that X-API-Key names, or nobody.
func (x *exchange) sender() hotpath.Caller {
	return hotpath.KeyCaller(x.ctx.Request.Header.PeekCanonical(headerAPIKey))
}

// callerOrDemo is callerOf, or the caller of a demo where no key is needed. A header that is present
// and empty is a wrong key, not a missing one (S23).
func (a *API) callerOrDemo(x *exchange) (hotpath.Caller, error) {
	h := &x.ctx.Request.Header
	x.demo = x.endpoint.demo && !a.NoDemo && len(h.PeekAll(string(headerAPIKey))) == 0 && (a.signIn == nil || !x.hasSession())
	if x.demo {
		return hotpath.DemoCaller(a.clientAddress(x)), nil
	}
	return a.callerOf(x)
}

// adminKeys are the SHA-256 of the admin keys, so that comparing takes the
// same time whatever their lengths.
type adminKeys [][sha256.Size]byte

func hashAdminKeys(keys []string) adminKeys {
	var hashed adminKeys
	for _, key := range keys {
		if key != "" {
			hashed = append(hashed, sha256.Sum256([]byte(key)))
		}
	}
	return hashed
}

// SetAdminKeys replaces the admin keys. Requests in progress may still go by the
// ones before.
func (a *API) SetAdminKeys(keys []string) {
	hashed := hashAdminKeys(keys)
	a.admins.Store(&hashed)
}

// match reports whether it is one of the keys.
func (keys adminKeys) match(sent []byte) bool {
	hashed, match := sha256.Sum256(sent), 0
	for _, key := range keys { // always all of them, so that the time tells nothing
		match |= subtle.ConstantTimeCompare(hashed[:], key[:])
	}
	return match != 0
}

// isAdmin reports whether the request carries an admin key (S25). For an address that sent too many
// wrong keys it is false, whatever key is sent; a request without a key counts as no wrong one.
func (a *API) isAdmin(x *exchange) bool {
	sent := x.ctx.Request.Header.PeekCanonical(headerAdminKey)
	return len(sent) > 0 && a.adminFailures.compare(a.clientAddress(x), time.Now(), func() bool { return a.admins.Load().match(sent) })
}

// actor returns what the request says about the author of a change; the Authorizer adds the key.
func (a *API) actor(x *exchange) audit.Actor {
	return audit.Actor{RequestID: x.id, Address: a.client(x).String()}
}

// forcer is actor with the admin key, for a request that carries one: see endpoint.forced.
func (a *API) forcer(x *exchange) audit.Actor {
	if a.isAdmin(x) {
		return a.adminActor(x)
	}
	return a.actor(x)
}

// forces reports whether an admin asks without an API key, where it may force something.
func (a *API) forces(x *exchange) bool {
	keyless := len(x.ctx.Request.Header.PeekAll(string(headerAPIKey))) == 0 && (a.signIn == nil || !x.hasSession())
	return x.endpoint.forced && keyless && a.isAdmin(x)
}

// adminActor is actor of a request of an admin.
func (a *API) adminActor(x *exchange) audit.Actor {
	sum := sha256.Sum256(x.ctx.Request.Header.PeekCanonical(headerAdminKey))
	by := a.actor(x)
	by.Credential = hex.EncodeToString(sum[:4]) // too little to find the key by
	return by
}
