package spend

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Action is one planned movement of money: the request of a check, or an element
// of a simulation. Optional strings are empty when absent; blank counts as absent
// (S4).
type Action struct {
	AgentID          string
	PolicyID         string
	Type             ActionType // as sent; Unspecified asks the intent classifier
	Amount           Amount
	Currency         string // three upper-case letters
	Counterparty     string
	PaymentMethod    string
	MerchantOrVendor string
	ReasonText       string
	IdempotencyKey   string
	Metadata         Metadata
	ApprovalID       ID // of the approval to be used; zero when absent
}

// The lengths a request may have, in code points (S4).
const (
	MaxIdentifier     = 256
	MaxPolicyID       = 128
	MaxName           = 255
	MaxDescription    = 4096
	MaxReasonText     = 4096
	MaxIdempotencyKey = 255
	MaxRules          = 500
	MaxListEntries    = 10000
	MaxMetadataBytes  = 16 << 10
	MaxMetadataDepth  = 8
)

// Blank reports whether s counts as absent: empty or only white space (S4).
func Blank(s string) bool { return strings.TrimSpace(s) == "" }

// TooLong reports whether s has more than limit code points.
func TooLong(s string, limit int) bool {
	return len(s) > limit && utf8.RuneCountInString(s) > limit
}

// LengthForm returns the form that TooLong accepts, for messages.
func LengthForm(limit int) string { return "must be at most " + strconv.Itoa(limit) + " characters" }

// CheckLength adds a fault when s is longer than limit code points.
func CheckLength(faults *Faults, path, s string, limit int) {
	if TooLong(s, limit) {
		faults.Add(path, LengthForm(limit))
	}
}

// ValidPolicyID reports whether s may name a policy (S4).
func ValidPolicyID(s string) bool {
	if s == "" || len(s) > MaxPolicyID || !alphanumeric(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !alphanumeric(c) && c != '.' && c != '_' && c != ':' && c != '-' {
			return false
		}
	}
	return true
}

// PolicyIDForm describes what ValidPolicyID accepts, for messages.
const PolicyIDForm = "must be 1-128 characters of A-Z a-z 0-9 . _ : - and start with a letter or digit"

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
