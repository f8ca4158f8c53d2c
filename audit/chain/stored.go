package chain

import (
	"encoding/binary"
	"errors"

	"spendgate/audit/spend"
)

// ErrNotRow is the error of ParseRow and ParseFields for bytes that are not an encoded row.
var ErrNotRow = errors.New("not an encoded row")

// ParseRow is ParseFields of a row that begins with an identifier of 16 bytes.
func ParseRow(dst [][]byte, row []byte) ([][]byte, error) {
	fields, err := ParseFields(dst, row)
	if err == nil && (len(fields) == 0 || len(fields[0]) != len(spend.ID{})) {
		err = ErrNotRow
	}
	return fields, err
}

// ParseCheckRow is ParseRow of a check's row, with null for columns that it does not have:
// one of an archive that was written by an earlier format.
func ParseCheckRow(dst [][]byte, row []byte) ([][]byte, error) {
	fields, err := ParseRow(dst, row)
	for len(fields) < len(dst)+checkFields {
		fields = append(fields, nil)
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

// ViolationOf appends to b the encoded row of the violation of a check with these fields. It is not ok
// if the check has none.
func ViolationOf(b []byte, fields [][]byte) (_ []byte, ok bool) {
	if len(fields) < checkFormats[0].fields || fields[FieldDecision] == nil || string(fields[FieldDecision]) == EffectLetters[:1] {
		return b, false
	}
	w := NewRow(b)
	for _, i := range copiedFields {
		if fields[i] == nil && (i == FieldRuleID || i == FieldRuleDescription) {
			w.Text("") // a null rule is empty in a violation
		} else {
			w.raw(fields[i])
		}
	}
	return w.End(), true
}
