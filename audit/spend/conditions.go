package spend

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// What conditions of rules read of metadata (S88). Nothing here allocates for texts in NFC without escapes.

// Member returns the value of a member as JSON: a text, a number or a boolean. It is empty if the member
// counts as absent: blank text, null, an object or a list.
func (m *Metadata) Member(name string) string {
	t := tokens{text: m.JSON}
	t.next() // the brace
	for key := t.next(); key != "}" && key != ""; key = t.next() {
		value := t.next()
		if !isString(key, name) {
			t.passValue(value, "", nil) // it was within its limits
			continue
		}
		switch value[0] {
		case 'n', '{', '[':
			return ""
		case '"':
			if Blank(unquote(value)) {
				return ""
			}
		}
		return value
	}
	return ""
}

// isString reports whether a JSON string is that text.
func isString(quoted, text string) bool {
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1:len(quoted)-1] == text
	}
	return unquote(quoted) == text
}

// IsNumber reports whether a value that Member returned is a number.
func IsNumber(value string) bool { return value[0] == '-' || '0' <= value[0] && value[0] <= '9' }

// AppendComparable appends a form of a text, number or boolean in JSON: equal forms are equal values. Texts
// compare in NFC, numbers by value, and no two kinds are equal.
func AppendComparable(dst []byte, value string) []byte {
	switch {
	case value[0] == '"':
		return append(append(dst, '"'), NFC(unquote(value))...)
	case IsNumber(value):
		return appendCanonicalNumber(append(dst, '0'), value)
	}
	return append(dst, value...)
}

// CheckValue returns what is wrong with a value that metadata is to be compared with; it is empty if nothing is.
func CheckValue(value jsontext.Value) string {
	switch value.Kind() {
	case jsontext.KindString:
		switch text := unquote(string(value)); {
		case Blank(text):
			return "must not be blank"
		case TooLong(text, MaxIdentifier):
			return LengthForm(MaxIdentifier)
		}
	case jsontext.KindNumber:
		return CheckNumber(value)
	case jsontext.KindTrue, jsontext.KindFalse:
	default:
		return "must be a text, a number, true or false"
	}
	return ""
}

// CheckNumber is CheckValue for a number.
func CheckNumber(value jsontext.Value) string {
	switch {
	case value.Kind() != jsontext.KindNumber:
		return "must be a number"
	case longExponent(string(value)):
		return "must have an exponent of at most 4 digits"
	}
	return ""
}

// CompareNumbers returns -1, 0 or +1 as the JSON number a is less than, equal to or greater than b. No digit
// is lost. The exponents must be within the limits of metadata.
func CompareNumbers(a, b string) int {
	x, _ := scanNumber(a)
	y, _ := scanNumber(b)
	if order := cmp.Compare(x.sign(), y.sign()); order != 0 || x.isZero() {
		return order
	}
	return x.compareDigits(y) * x.sign()
}

func (n number) sign() int {
	switch {
	case n.isZero():
		return 0
	case n.negative:
		return -1
	}
	return 1
}

// compareDigits compares without regard to the sign. Neither number is zero.
func (n number) compareDigits(other number) int {
	head, tail, exp := n.significant()
	otherHead, otherTail, otherExp := other.significant()
	length, otherLength := len(head)+len(tail), len(otherHead)+len(otherTail)
	if order := cmp.Compare(length+exp, otherLength+otherExp); order != 0 { // digits before the point
		return order
	}
	digit := func(head, tail string, i int) byte {
		switch {
		case i < len(head):
			return head[i]
		case i < len(head)+len(tail):
			return tail[i-len(head)]
		}
		return '0'
	}
	for i := range max(length, otherLength) {
		if order := cmp.Compare(digit(head, tail, i), digit(otherHead, otherTail, i)); order != 0 {
			return order
		}
	}
	return 0
}
