package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// Decision is the service's decision on an action. The zero value means that there is no decision,
// which permits nothing.
type Decision uint8

// The decisions.
const (
	Undecided Decision = iota
	Block              // do not proceed
	Escalate           // pause, a human decides
	Allow              // proceed
)

// DecisionOf returns the decision of an effect.
func DecisionOf(e spend.Effect) Decision {
	switch e {
	case spend.Allow:
		return Allow
	case spend.Escalate:
		return Escalate
	default:
		return Block
	}
}

// String returns the decision as the service spells it, or "" for Undecided.
func (d Decision) String() string {
	switch d {
	case Block:
		return "block"
	case Escalate:
		return "escalate"
	case Allow:
		return "allow"
	default:
		return ""
	}
}

// MarshalText returns String.
func (d Decision) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts the three decisions exactly as they are spelt and fails
// on anything else.
func (d *Decision) UnmarshalText(text []byte) error {
	for _, known := range []Decision{Block, Escalate, Allow} {
		if string(text) == known.String() {
			*d = known
			return nil
		}
	}
	*d = Undecided
	return fmt.Errorf("unknown decision %q", text)
}

// ActionType is the kind of action that an agent plans.
type ActionType string

// The action types.
const (
	Refund   ActionType = "refund"
	Credit   ActionType = "credit"
	Discount ActionType = "discount"
	Spend    ActionType = "spend"
)

// Timestamp is a time as the service writes it: RFC 3339, UTC, milliseconds (S5).
type Timestamp struct{ time.Time }

// At returns a time that may be missing: nil for the zero time.
func At(t time.Time) *Timestamp {
	if t.IsZero() {
		return nil
	}
	return &Timestamp{t}
}

// Text returns JSON that may be missing: nil for an empty text.
func Text(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// String returns the service's form.
func (t Timestamp) String() string { return spend.TimeText(t.Time) }

// MarshalJSON writes the service's form.
func (t Timestamp) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// ID is an identifier that the service writes. The client reads it as a string, under the same name.
type ID struct {
	spend.ID
	Prefix string
}

// AppendString writes a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	if !plain(s) {
		dst, _ = jsontext.AppendQuote(dst, s) // the error only says that it mended s
		return dst
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// plain reports whether a string is written unchanged: printable ASCII without quotation marks and
// backslashes. It looks at eight bytes at once.
func plain(s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	has := func(word, c uint64) uint64 { // with that byte; c is below 0x80
		x := word ^ ones*c
		return (x - ones) &^ x & high
	}
	for ; len(s) >= 8; s = s[8:] {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56 // one load
		if w&high|(w-ones*' ')&^w&high|has(w, '"')|has(w, '\\')|has(w, 0x7f) != 0 {
			return false
		}
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}
