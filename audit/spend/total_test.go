package spend

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestTotal(t *testing.T) {
	for _, c := range []struct{ text, currency, money string }{
		{"0", "USD", "0.00 USD"},
		{"0.000000001", "JPY", "0.000000001 JPY"},
		{"1.5", "KWD", "1.500 KWD"},
		{"600.05", "", "600.05"},
		{"1000", "JPY", "1000 JPY"},
		{"99999999999999999999999999999.999999999", "", "99999999999999999999999999999.999999999"},
	} {
		total, err := ParseTotal(c.text)
		if err != nil || total.String() != c.text || total.Money(c.currency) != c.money {
			t.Errorf("%s: %s, %s, %v", c.text, total, total.Money(c.currency), err)
		}
	}
	for _, text := range []string{"", ".5", "-1", "1e3", "0.0000000001", "1 ", "100000000000000000000000000000"} {
		if total, err := ParseTotal(text); err == nil {
			t.Errorf("%q is %s", text, total)
		}
	}
}

// Against arbitrary precision.
func TestTotalArithmetic(t *testing.T) {
	draw := func() (Total, *big.Int) {
		a, err := Amount{}, ErrTooManyDigits
		for err != nil {
			a, err = ParseAmount(fmt.Sprintf("%de-%d", rand.Uint64()>>rand.IntN(64), rand.IntN(5)))
		}
		n := new(big.Int).SetUint64(a.coef)
		return a.Total(), n.Mul(n, new(big.Int).SetUint64(pow10[maxFractionDigits-a.scale]))
	}
	nano := func(total Total) *big.Int {
		n := new(big.Int).SetUint64(total.hi)
		return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(total.lo))
	}
	for range 10_000 {
		a, x := draw()
		b, y := draw()
		left, ok := a.Minus(b)
		switch {
		case nano(a).Cmp(x) != 0, nano(a.Plus(b)).Cmp(new(big.Int).Add(x, y)) != 0, a.Cmp(b) != x.Cmp(y), ok != (x.Cmp(y) >= 0),
			ok && nano(left).Cmp(new(big.Int).Sub(x, y)) != 0, !ok && !left.IsZero():
			t.Fatalf("%s and %s", a, b)
		}
		if again, err := ParseTotal(a.Plus(b).String()); err != nil || again != a.Plus(b) {
			t.Fatalf("%s is parsed as %s, %v", a.Plus(b), again, err)
		}
	}
}
