package spend

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// IsZero reports whether the Hash was never computed.
func (h Hash) IsZero() bool { return h == Hash{} }

// HashKey is the hash under which an idempotency key is stored and claimed.
func HashKey(idempotencyKey string) Hash { return sha256.Sum256([]byte(idempotencyKey)) }

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

// RequestSHA is the hash of the action by meaning, its idempotency key left
// out: equal for requests that S18 calls the same. Amounts are decimals and
// metadata objects have no member order.
func RequestSHA(a *Action) Hash {
	b := make([]byte, 0, 512)
	b = append(b, 1) // the version of this encoding
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
		b = appendCanonical(b, jsontext.NewDecoder(strings.NewReader(a.Metadata.JSON)))
	}
	return sha256.Sum256(b)
}

func appendPart(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendAmount(b []byte, a Amount) []byte {
	return append(binary.BigEndian.AppendUint64(b, a.coef), a.scale)
}

// appendCanonical writes the next JSON value so that equal values, and only
// they, are written alike. The text must be well-formed, without duplicate
// member names.
func appendCanonical(b []byte, dec *jsontext.Decoder) []byte {
	tok, err := dec.ReadToken()
	if err != nil {
		return b // not reached: the text was checked when it was decoded
	}
	switch kind := tok.Kind(); kind {
	case '{':
		var members [][]byte
		for dec.PeekKind() != '}' {
			name, _ := dec.ReadToken()
			members = append(members, appendCanonical(appendPart(nil, name.String()), dec))
		}
		_, _ = dec.ReadToken()
		slices.SortFunc(members, bytes.Compare)
		b = binary.AppendUvarint(append(b, '{'), uint64(len(members)))
		return append(b, bytes.Join(members, nil)...)
	case '[':
		b = append(b, '[')
		for dec.PeekKind() != ']' {
			b = appendCanonical(b, dec)
		}
		_, _ = dec.ReadToken()
		return append(b, ']')
	case '"':
		return appendPart(append(b, '"'), tok.String())
	case '0':
		return appendPart(append(b, '0'), canonicalNumber(tok.String()))
	default: // null, true, false
		return append(b, byte(kind))
	}
}

// canonicalNumber spells equal numbers alike without ever rounding one.
func canonicalNumber(s string) string {
	n, ok := scanNumber(s)
	if ok && n.isZero() {
		return "0"
	}
	if !ok || len(n.exponent) > maxExponentDigits {
		return strings.ToLower(s)
	}
	digits, exp := n.significant()
	sign := ""
	if n.negative {
		sign = "-"
	}
	return sign + digits + "e" + strconv.Itoa(exp)
}
