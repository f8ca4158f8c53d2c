package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// encodable refuses values that do not fit their columns. It leaves text to the server, which
// refuses invalid UTF-8 and U+0000.
func encodable(c *spend.Check) error {
	if c.LatencyMS < math.MinInt32 || c.LatencyMS > math.MaxInt32 ||
		c.Decision.PolicyVersion < math.MinInt32 || c.Decision.PolicyVersion > math.MaxInt32 {
		return &audit.RowError{Err: fmt.Errorf("check %s: latency %d ms or policy version %d is out of range",
			c.ID.Text(spend.PrefixCheck), c.LatencyMS, c.Decision.PolicyVersion)}
	}
	return nil
}

// rowFields is the number of fields of the type check_row.
const rowFields = 36

// appendRow adds a check_row, a composite value in the binary format.
func appendRow(b []byte, c *spend.Check) []byte {
	b = binary.BigEndian.AppendUint32(b, rowFields)
	return appendColumns(appendField(b, pgtype.UUIDOID, c.ID[:]), c)
}

// appendRecord adds a check_record, which also has the fence.
func appendRecord(b []byte, c *spend.Check) []byte {
	b = binary.BigEndian.AppendUint32(b, rowFields+2)
	b = appendField(b, pgtype.UUIDOID, c.ID[:])
	b = appendField(b, pgtype.UUIDOID, c.Fence.Node[:])
	return appendColumns(appendField(b, pgtype.UUIDOID, c.Fence.Epoch[:]), c)
}

// appendColumns adds the fields that both types share.
func appendColumns(b []byte, c *spend.Check) []byte {
	a, d := &c.Action, &c.Decision
	if c.Pass.Passed() {
		b = appendInt64(appendInt64(b, c.Pass.ClaimedMS), c.Pass.UntilMS)
	} else {
		b = appendNull(appendNull(b, pgtype.Int8OID), pgtype.Int8OID)
	}
	b = appendInt32(appendInt32(b, int32(d.PolicyVersion)), int32(c.LatencyMS))
	b = appendInt16(b, int(c.Format()))
	if a.Type == spend.Unspecified {
		b = appendNull(b, pgtype.QCharOID)
	} else {
		b = appendLetter(b, chain.TypeLetters[a.Type])
	}
	b = appendLetter(b, chain.TypeLetters[c.ActionType])
	b = appendLetter(b, chain.EffectLetters[d.Effect])
	b = appendLetter(b, chain.ConfidenceLetters[d.Confidence])
	b = appendNumeric(b, a.Amount.Total())
	b = appendField(b, pgtype.ByteaOID, c.Fingerprint[:])
	b = appendField(b, pgtype.ByteaOID, c.RequestSHA[:])
	b = appendText(b, a.Currency)
	b = appendText(b, a.AgentID)
	b = appendText(b, a.PolicyID)
	b = appendText(b, a.Counterparty)
	b = appendOptional(b, a.PaymentMethod)
	b = appendOptional(b, a.MerchantOrVendor)
	b = appendOptional(b, a.ReasonText)
	b = appendOptional(b, a.IdempotencyKey)
	b = appendOptional(b, a.Metadata.JSON)
	b = appendOptional(b, string(d.Reason))
	b = appendOptional(b, d.RuleID)
	b = appendOptional(b, d.RuleDescription)
	b = appendOptional(b, d.Message)
	b = appendOptional(b, d.NextStep)
	b = appendText(b, c.KeyID)
	b = appendText(b, c.RequestID)
	b = appendOptional(b, c.Principal)
	b = appendOptional(b, c.Owner)
	var taken [256]byte
	b = appendOptional(b, c.AppendTaken(taken[:0]))
	if a.ApprovalID.IsZero() {
		b = appendNull(b, pgtype.UUIDOID)
	} else {
		b = appendField(b, pgtype.UUIDOID, a.ApprovalID[:])
	}
	b = appendOptional(b, c.Approval.Text())
	b = appendOptional(b, c.Namespace)
	var shadow [128]byte // enough for most
	return appendOptional(b, c.Shadow.AppendText(shadow[:0]))
}

// The fields of a composite value: type, length, value.

func appendField[T string | []byte](b []byte, typ uint32, value T) []byte {
	b = binary.BigEndian.AppendUint32(b, typ)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

func appendNull(b []byte, typ uint32) []byte {
	return append(binary.BigEndian.AppendUint32(b, typ), 0xff, 0xff, 0xff, 0xff)
}

func appendText(b []byte, s string) []byte { return appendField(b, pgtype.TextOID, s) }

func appendOptional[T string | []byte](b []byte, s T) []byte {
	if len(s) == 0 {
		return appendNull(b, pgtype.TextOID)
	}
	return appendField(b, pgtype.TextOID, s)
}

func appendInt32(b []byte, n int32) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, pgtype.Int4OID, 0, 0, 0, 4), uint32(n))
}

func appendInt64(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, pgtype.Int8OID, 0, 0, 0, 8), uint64(n))
}

func appendOptionalInt64(b []byte, n int64, ok bool) []byte {
	if !ok {
		return appendNull(b, pgtype.Int8OID)
	}
	return appendInt64(b, n)
}

func appendLetter(b []byte, letter byte) []byte {
	return append(b, 0, 0, 0, pgtype.QCharOID, 0, 0, 0, 1, letter)
}

// appendNumeric adds a sum or an amount in the form of PostgreSQL's numeric: digits of base 10,000,
// and the scale unchanged.
func appendNumeric(b []byte, t spend.Total) []byte {
	hi, lo := t.Parts()
	hi, rest := hi/1e9, hi%1e9
	lo, fraction := bits.Div64(rest, lo, 1e9)
	scale := 0
	for n := fraction; n > 0; n = n * 10 % 1e9 {
		scale++
	}
	var digits [11]uint16 // 8 hold 30 integer digits, 3 hold 9 fraction digits
	first, end := 8, 8+(scale+3)/4
	for i, n := 8, fraction*1e3; n > 0; i, n = i+1, n%1e8*1e4 {
		digits[i] = uint16(n / 1e8)
	}
	for hi|lo > 0 {
		hi, rest = hi/1e4, hi%1e4
		lo, rest = bits.Div64(rest, lo, 1e4)
		first--
		digits[first] = uint16(rest)
	}
	b = binary.BigEndian.AppendUint32(b, pgtype.NumericOID)
	b = binary.BigEndian.AppendUint32(b, uint32(8+2*(end-first)))
	b = binary.BigEndian.AppendUint16(b, uint16(end-first)) // digits
	b = binary.BigEndian.AppendUint16(b, uint16(7-first))   // weight of the first: its power of 10,000
	b = append(b, 0, 0, 0, byte(scale))                     // sign and scale
	for _, digit := range digits[first:end] {
		b = binary.BigEndian.AppendUint16(b, digit)
	}
	return b
}

// The functions below invert the mappings of letters.

func typeOf(letter byte) spend.ActionType {
	return spend.ActionType(max(strings.IndexByte(chain.TypeLetters, letter), 0))
}

func effectOf(letter byte) spend.Effect {
	return spend.Effect(max(strings.IndexByte(chain.EffectLetters, letter), 0))
}

func confidenceOf(letter byte) spend.Confidence {
	return spend.Confidence(max(strings.IndexByte(chain.ConfidenceLetters, letter), 0))
}
