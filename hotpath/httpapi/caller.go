package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"

	"spendgate/hotpath"
)

// The request headers that say who asks, as fasthttp spells names.
var (
	headerAPIKey    = []byte("X-Api-Key")
	headerAdminKey  = []byte("X-Admin-Key")
	headerForwarded = "X-Forwarded-For"
)

// caller is whoever sent X-API-Key; without it, nobody.
func (x *exchange) caller() hotpath.Caller {
	return hotpath.KeyCaller(x.ctx.Request.Header.PeekCanonical(headerAPIKey))
}

// callerOrDemo is the caller of an endpoint that can be tried without a key.
// A header that is there and empty is a wrong key, not none (S23).
func (a *API) callerOrDemo(x *exchange) (c hotpath.Caller, demo bool) {
	if len(x.ctx.Request.Header.PeekAll(string(headerAPIKey))) > 0 {
		return x.caller(), false
	}
	return hotpath.DemoCaller(a.clientAddress(x)), true
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

// admin fails unless the request carries an admin key (S25); with one, it says
// why the body was not read, if it was not (S1).
func (a *API) admin(x *exchange) error {
	sent := sha256.Sum256(x.ctx.Request.Header.PeekCanonical(headerAdminKey))
	match := 0
	for _, key := range a.admins { // all of them, always
		match |= subtle.ConstantTimeCompare(sent[:], key[:])
	}
	if match == 0 {
		return errAdminKey
	}
	return x.unread
}
