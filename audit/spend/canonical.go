package spend

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// IsZero reports whether the Hash was never computed.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText returns the hash in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText is the inverse of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error { return parseHash(h, string(text)) }

// KeyHash returns the hash of the slot that the action's idempotency key takes in a namespace (S59);
// zero without a key. A key has a slot for each approval that it is sent with. No key begins with a
// zero byte, so these slots differ from those of all other keys.
func (a *Action) KeyHash(namespace string) Hash {
	switch {
	case a.IdempotencyKey == "":
		return Hash{}
	case a.ApprovalID.IsZero() && namespace == "":
		return HashKey(a.IdempotencyKey)
	}
	b := append(make([]byte, 0, 512), 0)
	b = append(b, a.ApprovalID[:]...)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(namespace))), namespace...)
	return sha256.Sum256(append(b, a.IdempotencyKey...))
}

// HashKey returns the hash of a key that has neither a namespace nor an approval.
func HashKey(idempotencyKey string) Hash {
	return sha256.Sum256(append(make([]byte, 0, 256), idempotencyKey...)) // short keys stay on the stack
}

// FingerprintOf covers exactly agent_id, action type as resolved, amount and
// counterparty (S17), the texts in NFC. Each part is prefixed by its length, so that no two
// different tuples share an encoding.
func FingerprintOf(a *Action, resolved ActionType) Hash {
	b := make([]byte, 0, 256)
	b = appendPart(b, NFC(a.AgentID))
	b = append(b, byte(resolved))
	b = appendAmount(b, a.Amount)
	b = appendPart(b, NFC(a.Counterparty))
	return sha256.Sum256(b)
}

// canonicalBuffers are buffers to encode in. They grow to the largest request
// that S4 allows, some ten KB.
var canonicalBuffers = sync.Pool{New: func() any { return new([]byte) }}

// RequestSHA returns the hash of the action by meaning, its idempotency key left
// out: equal for requests that S18 calls the same. Amounts are decimals and
// metadata objects have no member order. Stored hashes are compared with new
// ones, so the encoding never changes.
func RequestSHA(a *Action) Hash {
	buf := canonicalBuffers.Get().(*[]byte)
	defer canonicalBuffers.Put(buf)
	b := append((*buf)[:0], 1) // the version of this encoding
	b = appendAction(b, a, a.Type)
	b = appendPart(b, a.ReasonText)
	if a.Metadata.JSON != "" {
		b = appendCanonical(b, a.Metadata.JSON)
	}
	if !a.ApprovalID.IsZero() {
		b = append(append(b, "approval"...), a.ApprovalID[:]...)
	}
	*buf = b
	return sha256.Sum256(b)
}

// appendAction writes the action of the type, without its metadata.
func appendAction(b []byte, a *Action, t ActionType) []byte {
	b = appendPart(b, a.AgentID)
	b = appendPart(b, a.PolicyID)
	b = append(b, byte(t))
	b = appendAmount(b, a.Amount)
	b = appendPart(b, a.Currency)
	b = appendPart(b, a.Counterparty)
	b = appendPart(b, a.PaymentMethod)
	return appendPart(b, a.MerchantOrVendor)
}

func appendPart(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendAmount(b []byte, a Amount) []byte {
	return append(binary.BigEndian.AppendUint64(b, a.coef), a.scale)
}

// appendCanonical writes metadata, which must be well-formed JSON, so that equal
// values, and only they, are written alike: its tokens without commas and colons,
// the members of objects sorted, strings with as few escapes as there can be.
func appendCanonical(b []byte, metadata string) []byte {
	t := tokens{text: metadata}
	return t.appendValue(b, t.next())
}

func (t *tokens) appendValue(b []byte, token string) []byte {
	if token == "" {
		return b
	}
	switch token[0] {
	case '{':
		return t.appendMembers(append(b, '{'))
	case '[':
		b = append(b, '[')
		for token := t.next(); token != "]" && token != ""; token = t.next() {
			b = t.appendValue(b, token)
		}
		return append(b, ']')
	case '"':
		return appendString(b, token)
	case 't', 'f', 'n':
		return append(b, token...)
	default:
		return appendCanonicalNumber(append(b, '0'), token)
	}
}

// appendMembers writes the part of an object after its brace.
func (t *tokens) appendMembers(b []byte) []byte {
	type member struct{ start, nameEnd, end int }
	var few [8]member // most objects need no more
	members, begin := few[:0], len(b)
	for name := t.next(); name != "}" && name != ""; name = t.next() {
		m := member{start: len(b)}
		b = appendString(b, name)
		m.nameEnd = len(b)
		b = t.appendValue(b, t.next())
		m.end = len(b)
		members = append(members, m)
	}
	byName := func(x, y member) int { return bytes.Compare(b[x.start:x.nameEnd], b[y.start:y.nameEnd]) }
	if !slices.IsSortedFunc(members, byName) {
		slices.SortFunc(members, byName)
		end := len(b)
		for _, m := range members {
			b = append(b, b[m.start:m.end]...)
		}
		copy(b[begin:], b[end:])
		b = b[:end]
	}
	return append(b, '}')
}

// appendString writes a JSON string with as few escapes as there can be.
func appendString(b []byte, quoted string) []byte {
	if strings.IndexByte(quoted, '\\') < 0 {
		return append(b, quoted...)
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // checked before
	b, _ = jsontext.AppendQuote(b, text)
	return b
}

// appendCanonicalNumber writes equal numbers alike without ever rounding one. Its exponent must be
// within the limits of ParseMetadata.
func appendCanonicalNumber(b []byte, s string) []byte {
	n, _ := scanNumber(s)
	if n.isZero() {
		return append(b, '0')
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
