package spend

import (
	"errors"
	"math/bits"
	"strconv"
)

// Amount is an exact, non-negative decimal: money, a limit or a percentage
// (S7). It is normalised, so == is numeric equality, and its zero value is 0.
type Amount struct {
	coef  uint64
	scale uint8 // digits after the point, without trailing zeros
}

// The digits an Amount may have (S7), trailing zeros of the fraction apart.
const (
	maxIntegerDigits  = 18
	maxFractionDigits = 9
	maxDigits         = 19
)

// The errors of ParseAmount. The texts complete "amount ...".
var (
	ErrNotNumber     = errors.New("must be a number")
	ErrNegative      = errors.New("must not be negative")
	ErrTooManyDigits = errors.New("must have at most 18 integer and 9 fraction digits, and at most 19 in all")
)

// maxExponentDigits bounds the arithmetic: no digits within a body of 1 MiB
// could make up for a longer exponent.
const maxExponentDigits = 7

// ParseAmount reads a JSON number exactly: 10, 10.0 and 1e1 are one Amount and
// -0 is 0. Its errors are ErrNotNumber, ErrNegative and ErrTooManyDigits.
func ParseAmount(s string) (Amount, error) {
	n, ok := scanNumber(s)
	if !ok {
		return Amount{}, ErrNotNumber
	}
	if n.isZero() {
		return Amount{}, nil
	}
	if n.negative {
		return Amount{}, ErrNegative
	}
	return n.amount()
}

// amount turns a positive number into an Amount if its digits fit.
func (n number) amount() (Amount, error) {
	if len(n.exponent) > maxExponentDigits {
		return Amount{}, ErrTooManyDigits
	}
	head, tail, exp := n.significant()
	// The value is digits x 10^exp, digits without zeros at either end.
	integer, fraction := len(head)+len(tail)+exp, max(0, -exp)
	if integer > maxIntegerDigits || fraction > maxFractionDigits || max(integer, 0)+fraction > maxDigits {
		return Amount{}, ErrTooManyDigits
	}
	var coef uint64
	for _, digits := range [...]string{head, tail} {
		for i := range len(digits) {
			coef = coef*10 + uint64(digits[i]-'0')
		}
	}
	for ; exp > 0; exp-- {
		coef *= 10
	}
	return Amount{coef: coef, scale: uint8(fraction)}, nil
}

// IsZero reports whether the Amount is 0.
func (a Amount) IsZero() bool { return a.coef == 0 }

// Cmp returns -1, 0 or +1 as a is less than, equal to or greater than b.
func (a Amount) Cmp(b Amount) int {
	ah, al := bits.Mul64(a.coef, pow10[max(a.scale, b.scale)-a.scale])
	bh, bl := bits.Mul64(b.coef, pow10[max(a.scale, b.scale)-b.scale])
	switch {
	case ah < bh || ah == bh && al < bl:
		return -1
	case ah == bh && al == bl:
		return 0
	default:
		return 1
	}
}

var pow10 = [maxFractionDigits + 1]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

// Append writes the shortest plain decimal, a JSON number: 10, 0.5, 600.05.
func (a Amount) Append(dst []byte) []byte { return a.append(dst, int(a.scale)) }

// Money returns the amount for people, with the digits of its currency and all of its own: 600.00 USD,
// 5000 JPY, 0.125 USD.
func (a Amount) Money(currency string) string {
	var buf [32]byte
	return string(a.AppendMoney(buf[:0], currency))
}

// AppendMoney is Money.
func (a Amount) AppendMoney(dst []byte, currency string) []byte {
	return appendCurrency(a.append(dst, max(int(a.scale), minorDigits(currency))), currency)
}

func appendCurrency(dst []byte, currency string) []byte {
	if currency == "" {
		return dst
	}
	return append(append(dst, ' '), currency...)
}

// String returns the shortest plain decimal.
func (a Amount) String() string { return string(a.Append(nil)) }

// MarshalJSON writes the shortest plain decimal.
func (a Amount) MarshalJSON() ([]byte, error) { return a.Append(nil), nil }

// UnmarshalJSON parses like ParseAmount: a string, even of digits, is no number.
func (a *Amount) UnmarshalJSON(text []byte) error {
	parsed, err := ParseAmount(string(text))
	if err == nil {
		*a = parsed
	}
	return err
}

func (a Amount) append(dst []byte, decimals int) []byte {
	unit := pow10[a.scale]
	dst = strconv.AppendUint(dst, a.coef/unit, 10)
	if decimals == 0 {
		return dst
	}
	dst = append(dst, '.')
	start := len(dst)
	if a.scale > 0 {
		// The leading 1 keeps the zeros after the point; it is overwritten below.
		dst = strconv.AppendUint(dst, unit+a.coef%unit, 10)
		copy(dst[start:], dst[start+1:])
		dst = dst[:len(dst)-1]
	}
	for len(dst)-start < decimals {
		dst = append(dst, '0')
	}
	return dst
}
