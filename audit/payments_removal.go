package audit

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"spendgate/audit/spend"
)

// PaymentsSubject is the subject of changes of kind PaymentsRemoved: no policy_id begins so.
const PaymentsSubject = "/payments"

// PaymentsRemoval describes a change of kind PaymentsRemoved: payments that ended before a time were removed.
type PaymentsRemoval struct {
	Before   time.Time
	Versions map[spend.Hash]int64 // of each removed payment, the last
}

// RemovalOf returns the removal of payments.
func RemovalOf(ended []*spend.Payment, before time.Time) PaymentsRemoval {
	r := PaymentsRemoval{Before: before, Versions: make(map[spend.Hash]int64, len(ended))}
	for _, p := range ended {
		r.Versions[p.Hash()] = p.Version
	}
	return r
}

// ParsePaymentsRemoval reads the details of a change.
func ParsePaymentsRemoval(details string) (r PaymentsRemoval, err error) {
	var said map[string]json.RawMessage // by names as they are: a struct would take those in other letters
	var beforeMS int64
	var versions map[string]int64
	err = json.Unmarshal([]byte(details), &said)
	if err == nil {
		err = errors.Join(json.Unmarshal(said["before_ms"], &beforeMS), json.Unmarshal(said["removed"], &versions))
	}
	r.Before, r.Versions = time.UnixMilli(beforeMS).UTC(), make(map[spend.Hash]int64, len(versions))
	for name, version := range versions {
		hash, malformed := hex.DecodeString(name)
		if malformed != nil || len(hash) != len(spend.Hash{}) {
			err = errors.Join(err, fmt.Errorf("%q names no payment", name))
			continue
		}
		r.Versions[spend.Hash(hash)] = version
	}
	if err != nil {
		return r, fmt.Errorf("cannot read which payments were removed: %w", err)
	}
	return r, nil
}

// Details returns the details of the change.
func (r *PaymentsRemoval) Details() string {
	removed := make(map[string]int64, len(r.Versions))
	for hash, version := range r.Versions {
		removed[hex.EncodeToString(hash[:])] = version
	}
	return jsonText(map[string]any{"before_ms": r.Before.UnixMilli(), "removed": removed})
}

// ChangeOfPayments returns the record of a removal, without its head. PostgreSQL makes its own (remove_payments).
func ChangeOfPayments(r PaymentsRemoval, at time.Time) Change {
	c := Change{Kind: PaymentsRemoved, Subject: PaymentsSubject, By: Keeper(), At: at}
	return newChange(c, json.RawMessage(r.Details()))
}

// longestWindow is that of a duplicate_guard (S17).
const longestWindow = 7 * 24 * time.Hour

// EndedBefore reports whether a payment has been over since before a time, if nothing was recorded of it since then: it is free
// or was denied, or it was executed for good. Whatever was asked of people must have been over then, too.
func (f *PaymentFacts) EndedBefore(t time.Time) bool {
	switch f.Status(t) {
	case PaymentExecuted:
		return f.Hours == 0
	case PaymentFree, PaymentDenied:
		return f.Approval == nil || f.Approval.ExpiresAt.Before(t) && f.Approval.UseBy().Before(t)
	case PaymentEscalated: // until the longest duplicate window is over
		return f.Check.Timestamp().Add(longestWindow).Before(t)
	default:
		return false
	}
}
