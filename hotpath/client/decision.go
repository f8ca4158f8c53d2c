package client

import (
	"fmt"
	"time"

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

// Amount is an exact, non-negative decimal (S7): money is never binary float.
type Amount = spend.Amount

// ParseAmount reads a decimal such as "42.50". It fails if the number is negative or has more than 18
// integer, 9 fraction or 19 digits in all.
func ParseAmount(s string) (Amount, error) {
	a, err := spend.ParseAmount(s)
	if err != nil {
		return a, fmt.Errorf("amount %q %w", s, err)
	}
	return a, nil
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

// Timestamp is a time as the service writes it: RFC 3339, UTC, milliseconds.
type Timestamp struct{ time.Time }

const timestampForm = "2006-01-02T15:04:05.000Z07:00"

// String returns the service's form.
func (t Timestamp) String() string { return t.UTC().Format(timestampForm) }

// MarshalJSON writes the service's form.
func (t Timestamp) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }
