package spend

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"spendgate/hotpath/strictjson"
)

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// IsZero reports whether the Hash was never computed.
func (h Hash) IsZero() bool { return h == Hash{} }

// HashKey is the hash under which an idempotency key is stored and claimed.
func HashKey(idempotencyKey string) Hash {
	return sha256.Sum256(append(make([]byte, 0, 256), idempotencyKey...)) // short keys stay on the stack
}

// FingerprintOf covers exactly agent_id, action type as resolved, amount and
// counterparty (S17). Each part is prefixed by its length, so that no two
// different tuples share an encoding.
func FingerprintOf(a *Action, resolved ActionType) Hash {
	b := make([]byte, 0, 256)
	b = appendPart(b, a.AgentID)
	b = append(b, byte(resolved))
	b = appendAmount(b, a.Amount)
	b = appendPart(b, a.Counterparty)
	return sha256.Sum256(b)
}

// canonicalRooms are buffers to encode in. They grow to what S4 lets a request
// be, some ten KB.
var canonicalRooms = sync.Pool{New: func() any { return new([]byte) }}

// RequestSHA is the hash of the action by meaning, its idempotency key left
// out: equal for requests that S18 calls the same. Amounts are decimals and
// metadata objects have no member order. Stored hashes are compared with new
// ones, so the encoding never changes.
func RequestSHA(a *Action) Hash {
	room := canonicalRooms.Get().(*[]byte)
	defer canonicalRooms.Put(room)
	b := append((*room)[:0], 1) // the version of this encoding
	b = appendPart(b, a.AgentID)
	b = appendPart(b, a.PolicyID)
	b = append(b, byte(a.Type))
	b = appendAmount(b, a.Amount)
	b = appendPart(b, a.Currency)
	b = appendPart(b, a.Counterparty)
	b = appendPart(b, a.PaymentMethod)
	b = appendPart(b, a.MerchantOrVendor)
	b = appendPart(b, a.ReasonText)
	if a.Metadata.JSON != "" {
		b = appendCanonical(b, a.Metadata.JSON)
	}
	*room = b
	return sha256.Sum256(b)
}

func appendPart(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendAmount(b []byte, a Amount) []byte {
	return append(binary.BigEndian.AppendUint64(b, a.coef), a.scale)
}

// appendCanonical writes a JSON value so that equal values, and only they, are
// written alike. The value must have been checked by strictjson.
func appendCanonical(b []byte, value string) []byte {
	switch kind := strictjson.Kind(value); kind {
	case '{':
		return appendCanonicalObject(b, value)
	case '[':
		b = append(b, '[')
		for elements := strictjson.ElementsOf(value); elements.Next(); {
			b = appendCanonical(b, elements.Value)
		}
		return append(b, ']')
	case '"':
		return appendPart(append(b, '"'), strictjson.Unquote(value))
	case '0':
		return appendCanonicalNumber(append(b, '0'), value)
	default: // true, false, null
		return append(b, kind)
	}
}

func appendCanonicalObject(b []byte, value string) []byte {
	type member struct{ name, value string }
	var few [8]member // most objects need no more
	members := few[:0]
	for m := strictjson.MembersOf(value); m.Next(); {
		members = append(members, member{m.Name, m.Value})
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	b = binary.AppendUvarint(append(b, '{'), uint64(len(members)))
	for _, m := range members {
		b = appendCanonical(appendPart(b, m.name), m.value)
	}
	return b
}

// appendCanonicalNumber writes equal numbers alike without ever rounding one.
func appendCanonicalNumber(b []byte, s string) []byte {
	n, ok := scanNumber(s)
	if ok && n.isZero() {
		return append(b, '0')
	}
	if !ok || len(n.exponent) > maxExponentDigits {
		return appendPart(append(b, 'e'), strings.ToLower(s)) // as it is spelt
	}
	sign := byte('+')
	if n.negative {
		sign = '-'
	}
	head, tail, exp := n.significant()
	b = binary.AppendUvarint(append(b, sign), uint64(len(head)+len(tail)))
	b = append(append(b, head...), tail...)
	return binary.AppendVarint(b, int64(exp))
}
