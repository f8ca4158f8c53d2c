package spend

import (
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"spendgate/bench/must"
)

func TestParseAmount(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		a, err := ParseAmount(in)
		if err != nil || a.String() != want {
			t.Errorf("%s: %s, %v; want %s", in, a, err, want)
		}
	}
	f("0", "0")
	f("-0", "0")
	f("-0.000e5", "0")
	f("0e999999999999999999999", "0")
	f("10", "10")
	f("10.0", "10")
	f("1e1", "10")
	f("1E+01", "10")
	f("100e-1", "10")
	f("1.0000000000", "1")
	f("0.5", "0.5")
	f("600.05", "600.05")
	f("0.000000001", "0.000000001")
	f("1e-9", "0.000000001")
	f("999999999999999999", "999999999999999999")
	f("9999999999.999999999", "9999999999.999999999")
	f("999999999999999999.9", "999999999999999999.9")
	f("123456789012345678.90", "123456789012345678.9")
	f("1e17", "100000000000000000")
	f("1"+strings.Repeat("0", 400)+"e-400", "1")
	f("0."+strings.Repeat("0", 400)+"1e401", "1")
}

func TestParseAmountRefuses(t *testing.T) {
	f := func(in string, want error) {
		t.Helper()
		if a, err := ParseAmount(in); !errors.Is(err, want) || a != (Amount{}) {
			t.Errorf("%q: %s, %v; want %v", in, a, err, want)
		}
	}
	for _, s := range []string{
		"", " ", "+1", "01", "-01", ".5", "5.", "1e", "1e+", "1.e1", "0x1", "1_0", "1,0", "NaN", "Infinity", "inf", "-",
		"--1", "1 ", " 1", "1e1.0", "١", `"1"`, "null", "1\x00",
	} {
		f(s, ErrNotNumber)
	}
	f("-1", ErrNegative)
	f("-1e-400", ErrNegative)
	for _, s := range []string{
		"1e18", "1000000000000000000", "0.0000000001", "1e-10", "99999999999.999999999", "12345678901234567890",
		"1e400", "1e99999999999999999999", "1e-99999999999999999999", "123456789012345678.91", "1.0000000001",
	} {
		f(s, ErrTooManyDigits)
	}
}

func TestAmountText(t *testing.T) {
	f := func(in, plain, currency, money string) {
		t.Helper()
		a := must.Get(ParseAmount(in))(t)
		if got := string(a.Append([]byte("x"))); got != "x"+plain {
			t.Errorf("Append(%s): %s", in, got)
		}
		if got := string(a.AppendMoney([]byte("x"), currency)); got != "x"+money {
			t.Errorf("AppendMoney(%s): %s", in, got)
		}
	}
	f("600", "600", "", "600.00")
	f("600.5", "600.5", "USD", "600.50 USD")
	f("5000", "5000", "JPY", "5000 JPY")
	f("5000.5", "5000.5", "JPY", "5000.5 JPY")
	f("1.25", "1.25", "KWD", "1.250 KWD")
	f("1", "1", "CLF", "1.0000 CLF")
	f("1", "1", "BTC", "1.00 BTC")
	f("600.05", "600.05", "USD", "600.05 USD")
	f("0.005", "0.005", "USD", "0.005 USD")
	f("0", "0", "EUR", "0.00 EUR")
	f("999999999999999999.9", "999999999999999999.9", "", "999999999999999999.90")
	f("9999999999.999999999", "9999999999.999999999", "USD", "9999999999.999999999 USD")
}

// randomNumber writes a JSON number of up to about 24 digits.
func randomNumber(r *rand.Rand) string {
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(byte('0' + r.IntN(10)*r.IntN(2))) // half of the digits are zeros
		}
		return b.String()
	}
	s := strings.TrimLeft(digits(r.IntN(14)), "0")
	if s == "" {
		s = "0"
	}
	if r.IntN(2) == 0 {
		s += "." + digits(1+r.IntN(10))
	}
	if r.IntN(3) == 0 {
		s += "e" + strconv.Itoa(r.IntN(24)-12)
	}
	if r.IntN(10) == 0 {
		s = "-" + s
	}
	return s
}

// Against exact rationals: the same value, the same order, and refused only
// when the digits do not fit.
func TestAmountAgainstRationals(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	type parsed struct {
		a   Amount
		rat *big.Rat
	}
	var last parsed
	for range 50_000 {
		s := randomNumber(r)
		exact, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("seed %d: big.Rat refuses %s", seed, s)
		}
		a, err := ParseAmount(s)
		if want := refusalOf(exact); !errors.Is(err, want) {
			t.Fatalf("seed %d: %s: %v, want %v", seed, s, err, want)
		}
		if err != nil {
			continue
		}
		back, _ := new(big.Rat).SetString(a.String())
		if back.Cmp(exact) != 0 || !json.Valid([]byte(a.String())) {
			t.Fatalf("seed %d: %s is written %s", seed, s, a)
		}
		if last.rat != nil {
			if got, want := a.Cmp(last.a), exact.Cmp(last.rat); got != want || (a == last.a) != (want == 0) {
				t.Fatalf("seed %d: %s against %s: %d, want %d", seed, a, last.a, got, want)
			}
		}
		last = parsed{a, exact}
	}
}

// refusalOf applies S7 to exact rationals.
func refusalOf(x *big.Rat) error {
	if x.Sign() < 0 {
		return ErrNegative
	}
	scaled := new(big.Rat).Mul(x, new(big.Rat).SetInt64(1e9))
	if !scaled.IsInt() || x.Cmp(new(big.Rat).SetInt64(1e18)) >= 0 {
		return ErrTooManyDigits
	}
	text := strings.TrimRight(x.FloatString(9), "0")
	integer, fraction, _ := strings.Cut(text, ".")
	if len(strings.TrimLeft(integer, "0"))+len(fraction) > 19 {
		return ErrTooManyDigits
	}
	return nil
}

func TestParseInteger(t *testing.T) {
	for in, want := range map[string]int64{
		"5": 5, "5.0": 5, "5e0": 5, "50e-1": 5, "-7": -7, "-0": 0, "0": 0, "1e3": 1000,
		"999999999999999999": 999999999999999999, "-999999999999999999": -999999999999999999,
	} {
		if got, ok := ParseInteger(in); !ok || got != want {
			t.Errorf("%s: %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "5.5", "1e-1", "1e18", "1e99", "x", `"5"`, "05", "+5"} {
		if got, ok := ParseInteger(in); ok {
			t.Errorf("%q: %d", in, got)
		}
	}
}

// FuzzParseAmount: an accepted text is a JSON number, is the same Amount when written and read
// again, and agrees with a decimal library.
func FuzzParseAmount(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "10", "1e1", "600.05", "9999999999.999999999", "1e-9", "1e400", "-1", "1E+17", "0.10e2", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAmount(s)
		if err != nil {
			return
		}
		if !json.Valid([]byte(s)) {
			t.Fatalf("accepted %q", s)
		}
		if again, err := ParseAmount(a.String()); err != nil || again != a {
			t.Fatalf("%q is written %s, which is %s, %v", s, a, again, err)
		}
		if len(s) < 64 && !strings.ContainsAny(s, "eE") {
			want, _ := new(big.Rat).SetString(s)
			if got, _ := new(big.Rat).SetString(a.String()); got.Cmp(want) != 0 {
				t.Fatalf("%q is %s", s, a)
			}
		}
	})
}
