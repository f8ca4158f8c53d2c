package policy

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"spendgate/audit/spend"
)

// TestRules judges what the second evaluator is not asked (TestEvaluateAgainstPlain): blank and null parameters, white space inside
// of names, and whom a vendor is compared with.
func TestRules(t *testing.T) {
	eur := action(t, paying(t, "501", "EUR"))
	categories := func(category string) *spend.Action { return action(t, with(t, `{"category":"`+category+`"}`)) }
	at := func(shop string) *spend.Action { return action(t, func(a *spend.Action) { a.MerchantOrVendor = shop }) }
	for name, c := range map[string]struct {
		rule, parameters string
		a                *spend.Action
		want             spend.Reason
	}{
		"S13 a limit of zero allows zero":  {"max_amount", `{"limit":-0}`, action(t, paying(t, "0", "USD")), ""},
		"S10 a null currency is absent":    {"max_amount", `{"limit":500,"currency":null}`, eur, spend.ReasonMaxAmount},
		"S4 a blank currency is absent":    {"max_amount", `{"limit":500,"currency":" "}`, eur, spend.ReasonMaxAmount},
		"S9 a null on_missing is absent":   {"geography_block", `{"blocked_countries":["KP"],"on_missing":null}`, action(t), ""},
		"S4 a blank on_missing is absent":  {"geography_block", `{"blocked_countries":["KP"],"on_missing":" "}`, action(t), ""},
		"S4 blank hours are absent":        {"time_restriction", `{"allowed_days":["wed"],"allowed_hours_utc":" "}`, action(t), ""},
		"S11 vendors compare exactly":      {"vendor_allowlist", `{"vendors":["acme "]}`, action(t), spend.ReasonVendorNotOnAllowlist},
		"S11 a vendor is the counterparty": {"vendor_allowlist", `{"vendors":["shop"]}`, at("shop"), spend.ReasonVendorNotOnAllowlist},
		"S11 white space around a name":    {"blocked_categories", `{"categories":["a b "]}`, categories(`\tA B`), spend.ReasonBlockedCategory},
		"S11 white space inside counts":    {"blocked_categories", `{"categories":["a b"]}`, categories("ab"), ""},
	} {
		if f := mustCompile(t, rule1(c.rule, c.parameters)).Evaluate(c.a, named(c.a.Type), noon); f.Reason != c.want {
			t.Errorf("%s: reason %q, want %q", name, f.Reason, c.want)
		}
	}
}

// All rules of a long policy decide. A value on a long list is found, and one longer than any entry
// is not.
func TestLists(t *testing.T) {
	long := strings.Repeat("ß", spend.MaxIdentifier)
	p := mustCompile(t, rule1("blocked_payment_rails", `{"rails":["x","`+long+`","X"]}`))
	f := func(rail string, want spend.Reason) {
		t.Helper()
		if got := p.Evaluate(action(t, by(rail)), named(spend.Spend), noon).Reason; got != want {
			t.Errorf("S11 rail of %d bytes: %q, want %q", len(rail), got, want)
		}
	}
	f(long, spend.ReasonBlockedPaymentRail)
	f(strings.Repeat("ẞ", spend.MaxIdentifier), spend.ReasonBlockedPaymentRail) // longer in UTF-8
	f(long+"ß", spend.ReasonNone)
	f(strings.Repeat("𝕏", spend.MaxIdentifier), spend.ReasonNone)
	f(strings.Repeat("𝕏", spend.MaxIdentifier)+"x", spend.ReasonNone)
	f("ſ", spend.ReasonNone)
}

// The folded set must agree with strings.EqualFold between NFC, whatever the letters (G8).
func TestFold(t *testing.T) {
	words := []string{
		"k", "K", "\u212a", "s", "S", "ſ", "ß", "ẞ", "ss", "å", "Å", "\u212b", "Σ", "σ", "ς", "i", "I", "ı", "İ", "z", "Z", "a",
		"A", "@", "`", "[", "{", "é", "É", "e\u0301", "ǆ", "ǅ", "Ǆ", "wire", "WIRE", "wIrE", "дом", "ДОМ",
	}
	for _, w := range words {
		n := newNames([]string{w})
		for _, other := range words {
			if got, want := n.has(" "+other), strings.EqualFold(spend.NFC(w), spend.NFC(other)); got != want {
				t.Errorf("S11 %q and %q: equal is %v, want %v", w, other, got, want)
			}
		}
		if folded := spend.AppendFold(nil, w); len(folded) > len(w) {
			t.Errorf("%q is longer when folded: %q", w, folded)
		}
	}
	// Some letters compose with their marks in one case alone: no entry is escaped by writing it in the other.
	for r := rune(0x80); r < 0x30000; r++ {
		parts := []rune(norm.NFD.String(string(r)))
		if len(parts) < 2 {
			continue
		}
		for parts[0] = unicode.SimpleFold(parts[0]); string(parts) != norm.NFD.String(string(r)); parts[0] = unicode.SimpleFold(parts[0]) {
			one, other := newNames([]string{string(r)}), newNames([]string{string(parts)})
			if parts[0] != 0x345 && (!one.has(string(parts)) || !other.has(string(r))) { // which is a mark, and no letter of its own
				t.Errorf("%U and %U are not the same name", r, parts)
			}
		}
	}
}
