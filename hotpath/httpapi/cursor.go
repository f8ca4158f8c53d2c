package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"spendgate/audit"
)

// A cursor is the position of the last record of a page, which is its ID in most listings, and a
// checksum over that and the filters of the listing, in base64url. The checksum lets any node refuse a
// damaged cursor and one of other filters, without a shared secret (S22). It does not authenticate: a
// client can only forge a position, which it could reach by paging as well.

// checkBytes is how much of the checksum travels: enough that damage never
// passes by chance.
const checkBytes = 12

// filterSum identifies the listing and its filters.
type filterSum [sha256.Size]byte

// violationFilters is the filterSum of a query; position and limit are no filters.
func violationFilters(q *audit.ViolationQuery, amounts ...string) filterSum {
	b := append(make([]byte, 0, 64), "violations 1\x00"...)
	b = append(b, byte(q.ActionType), byte(q.Effect))
	b = appendInstant(b, q.From.IsZero(), q.From.UnixMilli())
	b = appendInstant(b, q.To.IsZero(), q.To.UnixMilli())
	for _, s := range append(amounts, q.PolicyID) {
		b = append(append(b, s...), 0)
	}
	b = append(b, q.AgentID...)
	return sha256.Sum256(b)
}

func appendInstant(b []byte, absent bool, ms int64) []byte {
	if absent {
		return append(b, make([]byte, 9)...)
	}
	return binary.BigEndian.AppendUint64(append(b, 1), uint64(ms))
}

// checkFilters is the filterSum of a query for checks.
func checkFilters(q *audit.CheckQuery, others ...string) filterSum {
	b := append(make([]byte, 0, 64), "checks 1\x00"...)
	if q.Effect == nil {
		b = append(b, 0xff)
	} else {
		b = append(b, byte(*q.Effect))
	}
	b = append(append(b, q.Outcome...), 0)
	b = appendInstant(b, q.From.IsZero(), q.From.UnixMilli())
	b = appendInstant(b, q.Until.IsZero(), q.Until.UnixMilli())
	b = append(append(b, byte(q.ActionType)), q.ApprovalID[:]...)
	for _, s := range append(others, q.PolicyID, q.AskedBy, q.Counterparty, q.IdempotencyKey, string(q.Reason), q.RuleID) {
		b = append(append(b, s...), 0)
	}
	b = append(b, q.AgentID...)
	return sha256.Sum256(b)
}

// sumOf returns the filterSum of a listing whose filters are texts.
func sumOf(filters ...string) filterSum { return sha256.Sum256([]byte(strings.Join(filters, "\x00"))) }

func newCursor(position string, filters filterSum) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte(position), cursorCheck(position, filters)...))
}

// parseCursor is the inverse, for the same filters only.
func parseCursor(s string, filters filterSum) (position string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) < checkBytes {
		return "", false
	}
	position = string(raw[:len(raw)-checkBytes])
	return position, string(cursorCheck(position, filters)) == string(raw[len(position):])
}

func cursorCheck(position string, filters filterSum) []byte {
	sum := sha256.Sum256(append(filters[:], position...))
	return sum[:checkBytes]
}
