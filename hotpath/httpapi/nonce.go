package httpapi

import (
	"crypto/sha256"
	"encoding/hex"

	"spendgate/hotpath"
)

// headerNonce is the header's name in fasthttp's spelling.
const headerNonce = "Request-Nonce"

var headerFirst = []byte("First-Request")

const (
	minNonce, maxNonce = 16, 128
	// nonceDomain separates these hashes from other hashes of the same texts.
	nonceDomain = "spendgate request nonce 1\x00"
)

// takeNonce reads the header that says by which secret the caller will know its own request
// again (S83).
func (x *exchange) takeNonce(r *reader) {
	sent := x.ctx.Request.Header.PeekAll(headerNonce)
	switch {
	case len(sent) == 0:
	case len(sent) > 1:
		r.fault(headerNonce, "must be given once")
	case !isNonce(sent[0]):
		r.fault(headerNonce, "must be 16 to 128 visible ASCII characters")
	default:
		x.nonce = sent[0]
	}
}

func isNonce(value []byte) bool {
	for _, c := range value {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return minNonce <= len(value) && len(value) <= maxNonce
}

// nameByNonce derives the request's ID from its nonce. The caller chooses what is hashed together with
// its key's ID, and not the result, so that nobody can make the ID of another caller's request.
func (a *API) nameByNonce(x *exchange) {
	if x.nonce == nil {
		return
	}
	keyID := a.authorizer.KeyID(x.caller)
	b := append(make([]byte, 0, 256), nonceDomain...)
	b = append(append(b, byte(len(keyID))), keyID...)
	b = append(append(b, byte(len(x.nonce))), x.nonce...)
	sum := sha256.Sum256(b)
	x.id = string(hex.AppendEncode(append(make([]byte, 0, requestIDSize), "req_"...), sum[:6]))
	if x.trace != nil {
		x.trace.RequestID = x.id
	}
}

// setFirst says in a header whether the nonce is that of the request that made the check.
func (x *exchange) setFirst(answer *hotpath.Answer) {
	if x.nonce == nil || !answer.Replayed {
		return
	}
	first := "other"
	if answer.Check.RequestID == x.id {
		first = "same"
	}
	x.ctx.Response.Header.SetCanonical(headerFirst, []byte(first))
}
