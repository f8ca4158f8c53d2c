package spend

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Dimension returns the value of a member of metadata by which budgets count apart, as JSON: a text in NFC, an
// integer as its digits, or a boolean. It is empty for anything else, and for what is longer than 256
// characters: that counts as missing (S90).
func (m *Metadata) Dimension(name string) string {
	value := m.Member(name)
	switch {
	case !isDimension(value):
		return ""
	case value[0] == '"':
		b, _ := jsontext.AppendQuote(nil, NFC(unquote(value))) // it is valid UTF-8
		return string(b)
	case !IsNumber(value):
		return value
	}
	n, _ := scanNumber(value)
	if n.isZero() {
		return "0"
	}
	head, tail, exp := n.significant()
	digits := head + tail + strings.Repeat("0", exp)
	if n.negative {
		return "-" + digits
	}
	return digits
}

// HasDimension reports whether Dimension is not empty.
func (m *Metadata) HasDimension(name string) bool { return isDimension(m.Member(name)) }

func isDimension(value string) bool {
	switch {
	case value == "":
		return false
	case value[0] == '"':
		return !TooLong(NFC(unquote(value)), MaxIdentifier)
	case !IsNumber(value):
		return true
	}
	n, _ := scanNumber(value)
	if n.isZero() {
		return true
	}
	head, tail, exp := n.significant()
	length := len(head) + len(tail) + exp
	if n.negative {
		length++
	}
	return exp >= 0 && length <= MaxIdentifier
}
