package chain

import (
	"encoding/binary"
	"errors"

	"spendgate/audit/spend"
)

// ViolationColumns are the columns of a violation in the order in which its row
// is encoded. All are copies of its check's.
func ViolationColumns() []string {
	return []string{
		"id", "policy_version", "latency_ms", "action_type", "decision", "confidence", "amount", "currency",
		"agent_id", "policy_id", "counterparty", "rule_id", "rule_description", "key_id", "principal", "owner",
	}
}

// ErrNotRow is what ParseRow and ParseFields say of anything else.
var ErrNotRow = errors.New("not an encoded row")

// ParseRow is ParseFields of a row that begins with an identifier of 16 bytes.
func ParseRow(dst [][]byte, row []byte) ([][]byte, error) {
	fields, err := ParseFields(dst, row)
	if err == nil && (len(fields) == 0 || len(fields[0]) != len(spend.ID{})) {
		err = ErrNotRow
	}
	return fields, err
}

// ParseFields appends the fields of an encoded row to dst, nil for null.
func ParseFields(dst [][]byte, row []byte) ([][]byte, error) {
	if len(row) < 2 {
		return dst, ErrNotRow
	}
	n, rest := int(binary.BigEndian.Uint16(row)), row[2:]
	for range n {
		if len(rest) < 4 {
			return dst, ErrNotRow
		}
		length := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if length < 0 {
			dst = append(dst, nil)
			continue
		}
		if int(length) > len(rest) {
			return dst, ErrNotRow
		}
		dst = append(dst, rest[:length:length])
		rest = rest[length:]
	}
	if len(rest) > 0 {
		return dst, ErrNotRow
	}
	return dst, nil
}

// ViolationOf appends to b the encoded row of the violation that a check with
// these fields has. Not ok means that it has none.
func ViolationOf(b []byte, fields [][]byte) (_ []byte, ok bool) {
	// The columns of ViolationColumns among those of CheckColumns.
	copies := [...]int{0, 5, 6, 9, 10, 11, 12, 15, 16, 17, 18, 25, 26, 29, 31, 32}
	const decision, ruleID, ruleDescription = 10, 25, 26
	if len(fields) != checkFields || fields[decision] == nil || string(fields[decision]) == EffectLetters[:1] {
		return b, false
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(copies)))
	for _, i := range copies {
		if fields[i] == nil && i != ruleID && i != ruleDescription {
			b = appendNull(b)
		} else {
			b = appendField(b, fields[i]) // a null rule is empty in a violation
		}
	}
	return b, true
}
