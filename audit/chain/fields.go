package chain

import (
	"bytes"
	"encoding/binary"
)

// Kind is how the value of a field is stored and encoded.
type Kind uint8

// The kinds of fields.
const (
	Text Kind = iota
	UUID
	Bytes
	Int16
	Int32
	Int64
	Letter // one byte
	Amount // encoded as text
	Bool
	Instant // encoded as microseconds since 2000
	JSON
)

// Size is how many bytes a value has; 0 where that is open.
func (k Kind) Size() int {
	return [...]int{UUID: 16, Int16: 2, Int32: 4, Int64: 8, Letter: 1, Bool: 1, Instant: 8, JSON: 0}[k]
}

// oid is the number of the type in PostgreSQL.
func (k Kind) oid() uint32 {
	return [...]uint32{Text: 25, UUID: 2950, Bytes: 17, Int16: 21, Int32: 23, Int64: 20, Letter: 18, Amount: 1700, Bool: 16}[k]
}

// SQL is the type of the column in PostgreSQL.
func (k Kind) SQL() string {
	return [...]string{
		Text: "text", UUID: "uuid", Bytes: "bytea", Int16: "smallint", Int32: "integer", Int64: "bigint", Letter: `"char"`, Amount: "numeric",
		Bool: "boolean", Instant: "timestamp with time zone", JSON: "jsonb",
	}[k]
}

// Field is a column of a check.
type Field struct {
	Name string
	Kind Kind
}

// Where a field is among CheckFields.
const (
	FieldID = iota
	FieldNode
	FieldEpoch
	FieldClaimed
	FieldUntil
	FieldPolicyVersion
	FieldLatency
	FieldFormat
	FieldRequestedType
	FieldActionType
	FieldDecision
	FieldConfidence
	FieldAmount
	FieldFingerprint
	FieldRequestSHA
	FieldCurrency
	FieldAgentID
	FieldPolicyID
	FieldCounterparty
	FieldPaymentMethod
	FieldMerchantOrVendor
	FieldReasonText
	FieldIdempotencyKey
	FieldMetadata
	FieldReasonCode
	FieldRuleID
	FieldRuleDescription
	FieldMessage
	FieldNextStep
	FieldKeyID
	FieldRequestID
	FieldPrincipal
	FieldOwner
	FieldCharges
	FieldApprovalID
	FieldApproval
	FieldNamespace
	FieldStops
	FieldPayment

	checkFields int = iota
)

// CheckFields returns the columns of a check in the order in which its row is encoded.
// A format begins with all of the one before it.
func CheckFields() []Field {
	fields := [checkFields]Field{
		FieldID: {"check_id", UUID}, FieldNode: {"node", UUID}, FieldEpoch: {"epoch", UUID},
		FieldClaimed: {"claimed_ms", Int64}, FieldUntil: {"until_ms", Int64}, FieldPolicyVersion: {"policy_version", Int32},
		FieldLatency: {"latency_ms", Int32}, FieldFormat: {"format", Int16}, FieldRequestedType: {"requested_type", Letter},
		FieldActionType: {"action_type", Letter}, FieldDecision: {"decision", Letter}, FieldConfidence: {"confidence", Letter},
		FieldAmount: {"amount", Amount}, FieldFingerprint: {"fingerprint", Bytes}, FieldRequestSHA: {"request_sha", Bytes},
		FieldCurrency: {"currency", Text}, FieldAgentID: {"agent_id", Text}, FieldPolicyID: {"policy_id", Text},
		FieldCounterparty: {"counterparty", Text}, FieldPaymentMethod: {"payment_method", Text},
		FieldMerchantOrVendor: {"merchant_or_vendor", Text},
		FieldReasonText:       {"reason_text", Text}, FieldIdempotencyKey: {"idempotency_key", Text}, FieldMetadata: {"metadata", Text},
		FieldReasonCode: {"reason_code", Text}, FieldRuleID: {"rule_id", Text}, FieldRuleDescription: {"rule_description", Text},
		FieldMessage: {"message", Text}, FieldNextStep: {"next_step", Text}, FieldKeyID: {"key_id", Text}, FieldRequestID: {"request_id", Text},
		FieldPrincipal: {"principal", Text}, FieldOwner: {"owner", Text}, FieldCharges: {"charges", Text}, FieldApprovalID: {"approval_id", UUID},
		FieldApproval: {"approval", Text}, FieldNamespace: {"namespace", Text}, FieldStops: {"stops", Int64},
		FieldPayment: {"payment", Text},
	}
	return fields[:]
}

func namesOf(fields []Field) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

// copiedFields are the fields of a check that a violation copies, in their order.
var copiedFields = [...]int{
	FieldID, FieldPolicyVersion, FieldLatency, FieldActionType, FieldDecision, FieldConfidence, FieldAmount, FieldCurrency, FieldAgentID,
	FieldPolicyID, FieldCounterparty, FieldRuleID, FieldRuleDescription, FieldKeyID, FieldPrincipal, FieldOwner,
}

// ViolationFields returns the columns of a violation in the order in which its row is
// encoded. All are copies of its check's.
func ViolationFields() []Field {
	of, fields := CheckFields(), make([]Field, len(copiedFields))
	for i, field := range copiedFields {
		fields[i] = of[field]
	}
	fields[0].Name = "id"
	return fields
}

// checkFormat is how rows of a format are encoded: its domain, and how many of
// CheckFields it has. In a table with more columns its rows have null in the others.
type checkFormat struct {
	domain string
	fields int
}

// formats are the formats of checks; format 1 is the first. Format 2 has a payment (S84).
type formats []checkFormat

var checkFormats = formats{{"spendgate check 1\n", FieldPayment}, {"spendgate check 2\n", checkFields}}

// CheckWidths returns how many of CheckFields rows have by each format.
func CheckWidths() []int { return checkFormats.widths() }

func (f formats) widths() (all []int) {
	for _, format := range f {
		all = append(all, format.fields)
	}
	return all
}

// of returns a format, or the last one for an unknown number: no such row is intact, since the number
// is hashed.
func (f formats) of(number int16) checkFormat {
	if number < 1 || int(number) > len(f) {
		return f[len(f)-1]
	}
	return f[number-1]
}

// fits reports whether the fields are those of their format, with null in all later ones.
func (f formats) fits(fields [][]byte) bool {
	if len(fields) <= FieldFormat {
		return false
	}
	format := f[len(f)-1]
	if number := fields[FieldFormat]; len(number) == Int16.Size() {
		format = f.of(int16(binary.BigEndian.Uint16(number)))
	}
	if len(fields) < format.fields || len(fields) > f[len(f)-1].fields {
		return false
	}
	for _, field := range fields[format.fields:] {
		if field != nil {
			return false
		}
	}
	return true
}

// append adds the hashed bytes of a row that was read: the domain and the fields of its own format.
func (f formats) append(b, row []byte) []byte {
	whole := f[len(f)-1]
	at, ok := skipFields(row, 2, FieldFormat)
	if !ok || len(row) < at+4+2 || binary.BigEndian.Uint32(row[at:]) != 2 {
		return append(append(b, whole.domain...), row...)
	}
	format := f.of(int16(binary.BigEndian.Uint16(row[at+4:])))
	n := int(binary.BigEndian.Uint16(row))
	if n <= format.fields {
		return append(append(b, format.domain...), row...)
	}
	end, ok := skipFields(row, at, format.fields-FieldFormat)
	if !ok || len(bytes.Trim(row[end:], "\xff")) > 0 || len(row)-end != 4*(n-format.fields) {
		return append(append(b, whole.domain...), row...)
	}
	b = binary.BigEndian.AppendUint16(append(b, format.domain...), uint16(format.fields))
	return append(b, row[2:end]...)
}

// skipFields returns the place in a row of the field that is n fields after the one at a place.
func skipFields(row []byte, at, n int) (_ int, ok bool) {
	for range n {
		if len(row) < at+4 {
			return 0, false
		}
		length := int(int32(binary.BigEndian.Uint32(row[at:])))
		at += 4 + max(length, 0)
	}
	return at, at <= len(row)
}
