package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// The columns of a COPY, in the order in which the rows are encoded.
const (
	checkColumns = `check_id,node,epoch,claimed_ms,until_ms,policy_version,latency_ms,format,` +
		`requested_type,action_type,decision,confidence,amount,fingerprint,request_sha,currency,` +
		`agent_id,policy_id,counterparty,payment_method,merchant_or_vendor,reason_text,` +
		`idempotency_key,metadata,reason_code,rule_id,rule_description,message,next_step,` +
		`key_id,request_id`
	violationColumns = `id,policy_version,latency_ms,action_type,decision,confidence,amount,` +
		`currency,agent_id,policy_id,counterparty,rule_id,rule_description`

	checkFields     = 31
	violationFields = 13
)

// The one-letter codes of the schema, at the index of the value. No letter
// stands for an action type that the request did not say.
const (
	typeLetters       = "\x00rcds"
	effectLetters     = "aeb"
	confidenceLetters = "lmh"
)

// encodable refuses what does not fit its column. Text is left to the server,
// which refuses what is not UTF-8 without U+0000.
func encodable(c *spend.Check) error {
	if c.LatencyMS < math.MinInt32 || c.LatencyMS > math.MaxInt32 ||
		c.Decision.PolicyVersion < math.MinInt32 || c.Decision.PolicyVersion > math.MaxInt32 {
		return &audit.RowError{Err: fmt.Errorf("check %s: latency %d ms or policy version %d is out of range",
			c.ID.Text(spend.PrefixCheck), c.LatencyMS, c.Decision.PolicyVersion)}
	}
	return nil
}

// appendCheck adds the row of checkColumns.
func appendCheck(b []byte, c *spend.Check) []byte {
	a, d := &c.Action, &c.Decision
	b = binary.BigEndian.AppendUint16(b, checkFields)
	b = appendField(b, c.ID[:])
	b = appendField(b, c.Fence.Node[:])
	b = appendField(b, c.Fence.Epoch[:])
	if c.Pass.Passed() {
		b = appendInt64(appendInt64(b, c.Pass.ClaimedMS), c.Pass.UntilMS)
	} else {
		b = append(append(b, fieldNull...), fieldNull...)
	}
	b = appendInt32(appendInt32(b, int32(d.PolicyVersion)), int32(c.LatencyMS))
	b = append(b, 0, 0, 0, 2, 0, audit.RowFormat)
	if a.Type == spend.Unspecified {
		b = append(b, fieldNull...)
	} else {
		b = appendLetter(b, typeLetters[a.Type])
	}
	b = appendLetter(b, typeLetters[c.ActionType])
	b = appendLetter(b, effectLetters[d.Effect])
	b = appendLetter(b, confidenceLetters[d.Confidence])
	b = appendNumeric(b, a.Amount)
	b = appendField(b, c.Fingerprint[:])
	b = appendField(b, c.RequestSHA[:])
	b = appendField(b, a.Currency)
	b = appendField(b, a.AgentID)
	b = appendField(b, a.PolicyID)
	b = appendField(b, a.Counterparty)
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
	b = appendField(b, c.KeyID)
	return appendField(b, c.RequestID)
}

// appendViolation adds the row of violationColumns.
func appendViolation(b []byte, c *spend.Check) []byte {
	a, d := &c.Action, &c.Decision
	b = binary.BigEndian.AppendUint16(b, violationFields)
	b = appendField(b, c.ID[:])
	b = appendInt32(appendInt32(b, int32(d.PolicyVersion)), int32(c.LatencyMS))
	b = appendLetter(b, typeLetters[c.ActionType])
	b = appendLetter(b, effectLetters[d.Effect])
	b = appendLetter(b, confidenceLetters[d.Confidence])
	b = appendNumeric(b, a.Amount)
	b = appendField(b, a.Currency)
	b = appendField(b, a.AgentID)
	b = appendField(b, a.PolicyID)
	b = appendField(b, a.Counterparty)
	b = appendField(b, d.RuleID)
	return appendField(b, d.RuleDescription)
}

func appendField[T string | []byte](b []byte, value T) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

func appendOptional(b []byte, s string) []byte {
	if s == "" {
		return append(b, fieldNull...)
	}
	return appendField(b, s)
}

func appendInt32(b []byte, n int32) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 4), uint32(n))
}

func appendInt64(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(n))
}

func appendLetter(b []byte, letter byte) []byte { return append(b, 0, 0, 0, 1, letter) }

// appendNumeric adds an amount as Postgres keeps numerics: digits of base
// 10,000, those of the integer part first.
func appendNumeric(b []byte, a spend.Amount) []byte {
	coefficient, scale := a.Parts()
	unit := uint64(1)
	for range scale {
		unit *= 10
	}
	integer, fraction := coefficient/unit, coefficient%unit
	for range (4 - scale%4) % 4 {
		fraction *= 10
	}
	var digits [8]uint16 // 5 hold 18 integer digits, 3 hold 9 fraction digits
	first, end := 5, 5+(scale+3)/4
	for i := end - 1; i >= 5; i-- {
		digits[i], fraction = uint16(fraction%1e4), fraction/1e4
	}
	for ; integer > 0; integer /= 1e4 {
		first--
		digits[first] = uint16(integer % 1e4)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(8+2*(end-first)))
	b = binary.BigEndian.AppendUint16(b, uint16(end-first)) // digits
	b = binary.BigEndian.AppendUint16(b, uint16(4-first))   // weight of the first: its power of 10,000
	b = append(b, 0, 0, 0, byte(scale))                     // sign and scale
	for _, digit := range digits[first:end] {
		b = binary.BigEndian.AppendUint16(b, digit)
	}
	return b
}

// The inverse of the letters.

func typeOf(letter byte) spend.ActionType {
	return spend.ActionType(max(strings.IndexByte(typeLetters, letter), 0))
}

func effectOf(letter byte) (spend.Effect, bool) {
	i := strings.IndexByte(effectLetters, letter)
	return spend.Effect(max(i, 0)), i >= 0
}

func confidenceOf(letter byte) (spend.Confidence, bool) {
	i := strings.IndexByte(confidenceLetters, letter)
	return spend.Confidence(max(i, 0)), i >= 0
}
