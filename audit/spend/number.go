package spend

import (
	"strconv"
	"strings"
)

// number is a JSON number split as text, so that no digit is lost.
type number struct {
	negative          bool
	integer, fraction string
	exponentNegative  bool
	exponent          string // without sign and leading zeros
}

// scanNumber splits s by the grammar of RFC 8259, section 6, and reports
// whether all of s is one number.
func scanNumber(s string) (number, bool) {
	var n number
	s, n.negative = strings.CutPrefix(s, "-")
	n.integer, s = cutDigits(s)
	if n.integer == "" || len(n.integer) > 1 && n.integer[0] == '0' {
		return n, false
	}
	if rest, ok := strings.CutPrefix(s, "."); ok {
		if n.fraction, s = cutDigits(rest); n.fraction == "" {
			return n, false
		}
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if s != "" && (s[0] == '+' || s[0] == '-') {
			n.exponentNegative = s[0] == '-'
			s = s[1:]
		}
		if n.exponent, s = cutDigits(s); n.exponent == "" {
			return n, false
		}
		n.exponent = strings.TrimLeft(n.exponent, "0")
	}
	return n, s == ""
}

func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// maxFreeExponent is how many digits the exponent of a number in metadata may
// have: longer ones cannot be compared without writing the number out.
const maxFreeExponent = 4

// longExponent reports whether a JSON number has an exponent that metadata does
// not take.
func longExponent(s string) bool {
	n, _ := scanNumber(s)
	return len(n.exponent) > maxFreeExponent
}

func (n number) isZero() bool {
	return strings.Trim(n.integer, "0") == "" && strings.Trim(n.fraction, "0") == ""
}

// significant returns the digits without zeros at either end, in two pieces, and
// the power of ten they are multiplied by. The number must not be zero and its
// exponent must fit an int.
func (n number) significant() (head, tail string, exp int) {
	if exp, _ = strconv.Atoi("0" + n.exponent); n.exponentNegative {
		exp = -exp
	}
	exp -= len(n.fraction)
	if head, tail = strings.TrimLeft(n.integer, "0"), n.fraction; head == "" {
		tail = strings.TrimLeft(tail, "0")
	}
	length := len(head) + len(tail)
	if tail = strings.TrimRight(tail, "0"); tail == "" {
		head = strings.TrimRight(head, "0")
	}
	return head, tail, exp + length - len(head) - len(tail)
}
