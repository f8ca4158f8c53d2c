package spend

import (
	"errors"
	"math/bits"
	"strings"
)

// Total is an exact sum of Amounts, or what is left of a limit. Its zero value is 0. It can hold the
// sum of any possible number of checks.
type Total struct{ hi, lo uint64 } // in units of 1e-9

// errNotTotal refuses a text that no Total has.
var errNotTotal = errors.New("must be a decimal number that is not negative")

// Plus returns the sum of both.
func (t Total) Plus(u Total) Total {
	lo, carry := bits.Add64(t.lo, u.lo, 0)
	hi, _ := bits.Add64(t.hi, u.hi, carry)
	return Total{hi, lo}
}

// Minus returns t less u; 0, and not ok, when that is negative.
func (t Total) Minus(u Total) (left Total, ok bool) {
	lo, borrow := bits.Sub64(t.lo, u.lo, 0)
	hi, borrow := bits.Sub64(t.hi, u.hi, borrow)
	if borrow != 0 {
		return Total{}, false
	}
	return Total{hi, lo}, true
}

// Cmp returns -1, 0 or +1 as t is less than, equal to or greater than u.
func (t Total) Cmp(u Total) int {
	switch {
	case t == u:
		return 0
	case t.hi < u.hi || t.hi == u.hi && t.lo < u.lo:
		return -1
	default:
		return 1
	}
}

// IsZero reports whether the Total is 0.
func (t Total) IsZero() bool { return t == Total{} }

// Total returns the Amount as a Total.
func (a Amount) Total() Total {
	hi, lo := bits.Mul64(a.coef, pow10[maxFractionDigits-a.scale])
	return Total{hi, lo}
}

// Float returns the nearest binary fraction, for figures that nothing is decided by.
func (t Total) Float() float64 { return (float64(t.hi)*(1<<64) + float64(t.lo)) / 1e9 }

// Parts returns the Total's 128 bits, in units of 1e-9.
func (t Total) Parts() (hi, lo uint64) { return t.hi, t.lo }

// maxTotalDigits is the number of digits that always fit into 128 bits.
const maxTotalDigits = 38

// ParseTotal is the inverse of Append: plain decimals without an exponent.
func ParseTotal(s string) (Total, error) {
	integer, fraction, _ := strings.Cut(s, ".")
	fraction = strings.TrimRight(fraction, "0")
	if integer == "" || len(fraction) > maxFractionDigits || len(integer)+maxFractionDigits > maxTotalDigits {
		return Total{}, errNotTotal
	}
	var t Total
	for _, digits := range [...]string{integer, fraction, strings.Repeat("0", maxFractionDigits-len(fraction))} {
		for i := range len(digits) {
			d := digits[i] - '0'
			if d > 9 {
				return Total{}, errNotTotal
			}
			hi, lo := bits.Mul64(t.lo, 10)
			t = Total{t.hi*10 + hi, lo}.Plus(Total{lo: uint64(d)})
		}
	}
	return t, nil
}

// Append writes the shortest plain decimal, a JSON number: 10, 0.5, 600.05.
func (t Total) Append(dst []byte) []byte { return t.append(dst, 0) }

// Money returns the Total for people, like Amount.Money.
func (t Total) Money(currency string) string {
	return string(appendCurrency(t.append(nil, minorDigits(currency)), currency))
}

// String returns the shortest plain decimal.
func (t Total) String() string { return string(t.Append(nil)) }

// MarshalJSON writes the shortest plain decimal.
func (t Total) MarshalJSON() ([]byte, error) { return t.Append(nil), nil }

// UnmarshalJSON reads a JSON number without an exponent.
func (t *Total) UnmarshalJSON(text []byte) (err error) {
	*t, err = ParseTotal(string(text))
	return err
}

func (t Total) append(dst []byte, decimals int) []byte {
	var digits [maxTotalDigits + 2]byte
	i := len(digits)
	for n := 0; !t.IsZero() || n <= maxFractionDigits; n++ {
		var digit uint64
		t.hi, digit = t.hi/10, t.hi%10
		t.lo, digit = bits.Div64(digit, t.lo, 10)
		i--
		digits[i] = byte('0' + digit)
	}
	point := len(digits) - maxFractionDigits
	dst = append(dst, digits[i:point]...)
	end := len(digits)
	for end > point+decimals && digits[end-1] == '0' {
		end--
	}
	if end == point {
		return dst
	}
	return append(append(dst, '.'), digits[point:end]...)
}
