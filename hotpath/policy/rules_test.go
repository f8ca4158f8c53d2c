package policy

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"spendgate/audit/spend"
)

type ruleCase struct {
	name  string // begins with the contract's number
	rules string
	a     *spend.Action
	want  spend.Reason
}

// TestRules tests each rule type alone: what it lets pass, what it stops, and the reason.
func TestRules(t *testing.T) {
	cases := slices.Concat(amountCases(t), contextCases(t))
	for _, r := range RuleTypes() {
		has := func(c ruleCase) bool { return strings.Contains(c.rules, strconv.Quote(r.Name)) }
		if r.Name != "budget" && !slices.ContainsFunc(cases, has) { // budgets judge by counters: budget_test.go
			t.Errorf("rule type %s has no case", r.Name)
		}
	}
	for _, c := range cases {
		f := mustCompile(t, c.rules).Evaluate(c.a, named(c.a.Type), noon)
		if f.Reason != c.want {
			t.Errorf("%s: reason %q, want %q", c.name, f.Reason, c.want)
		}
		want := spend.Block
		switch {
		case c.want == "":
			want = spend.Allow
		case strings.Contains(c.rules, "escalate_if"):
			want = spend.Escalate
		}
		if f.Effect != want {
			t.Errorf("%s: %v, want %v", c.name, f.Effect, want)
		}
	}
}

// amountCases returns the cases of max_amount, escalate_if and duplicate_guard.
func amountCases(t *testing.T) []ruleCase {
	t.Helper()
	usd := func(s string) func(*spend.Action) { return paying(t, s, "USD") }
	return []ruleCase{
		{"S88 conditions block", ruleWhen("block_if", `{}`, `{"amount_above":100}`), action(t, usd("100.01")), spend.ReasonConditionMet},
		{"S88 conditions do not match", ruleWhen("block_if", `{}`, `{"amount_above":100}`), action(t, usd("100")), ""},
		{"S13 limit is inclusive", rule1("max_amount", `{"limit":500}`), action(t, usd("500.00")), ""},
		{"S13 just over the limit", rule1("max_amount", `{"limit":500}`), action(t, usd("500.000000001")), spend.ReasonMaxAmount},
		{"S7 a limit is exact", rule1("max_amount", `{"limit":0.3}`), action(t, usd("0.3")), ""},
		{
			"S7 a limit has no binary neighbours", rule1("max_amount", `{"limit":999999999999999998}`), action(t, usd("999999999999999999")),
			spend.ReasonMaxAmount,
		},
		{"S7 limits may be spelt with an exponent", rule1("max_amount", `{"limit":5e2}`), action(t, usd("501")), spend.ReasonMaxAmount},
		{"S13 a limit of zero allows zero", rule1("max_amount", `{"limit":-0}`), action(t, usd("0")), ""},
		{"S13 a limit of zero allows no more", rule1("max_amount", `{"limit":0}`), action(t, usd("0.01")), spend.ReasonMaxAmount},
		{"S10 own currency, within", rule1("max_amount", `{"limit":500,"currency":"usd"}`), action(t, usd("500")), ""},
		{"S10 own currency, over", rule1("max_amount", `{"limit":500,"currency":"usd"}`), action(t, usd("501")), spend.ReasonMaxAmount},
		{
			"S10 currency not covered", rule1("max_amount", `{"limit":500,"currency":"USD"}`), action(t, paying(t, "1", "EUR")),
			spend.ReasonCurrencyNotCovered,
		},
		{"S10 no currency covers all", rule1("max_amount", `{"limit":500}`), action(t, paying(t, "1", "EUR")), ""},
		{
			"S10 no currency judges all", rule1("max_amount", `{"limit":500,"currency":null}`), action(t, paying(t, "501", "EUR")),
			spend.ReasonMaxAmount,
		},
		{
			"S4 a blank currency is absent", rule1("max_amount", `{"limit":500,"currency":" "}`), action(t, paying(t, "501", "EUR")),
			spend.ReasonMaxAmount,
		},
		{"S10 without max_amount all are covered", rule1("escalate_if", `{"amount_above":500}`), action(t, paying(t, "1", "EUR")), ""},

		{"S17 the guard's rule judges nothing", rule1("duplicate_guard", `{"window_minutes":5}`), action(t), ""},

		{"S13 threshold is inclusive", rule1("escalate_if", `{"amount_above":100}`), action(t, usd("100.0")), ""},
		{"S13 over the threshold", rule1("escalate_if", `{"amount_above":100}`), action(t, usd("100.01")), spend.ReasonEscalationThreshold},
		{
			"S13 without action_types all four", rule1("escalate_if", `{"amount_above":1}`), action(t, typed(spend.Discount)),
			spend.ReasonEscalationThreshold,
		},
		{
			"one of action_types", rule1("escalate_if", `{"amount_above":1,"action_types":["refund","spend"]}`), action(t),
			spend.ReasonEscalationThreshold,
		},
		{
			"none of action_types", rule1("escalate_if", `{"amount_above":1,"action_types":["refund","spend"]}`), action(t, typed(spend.Credit)), "",
		},
		{
			"escalate_if holds in any currency", rule1("escalate_if", `{"amount_above":1}`), action(t, paying(t, "2", "EUR")),
			spend.ReasonEscalationThreshold,
		},
	}
}

// contextCases returns the cases of the rules that read who, how, where and what.
func contextCases(t *testing.T) []ruleCase {
	t.Helper()
	return []ruleCase{
		{
			"S13 days are inclusive", rule1("refund_age_limit", `{"max_days":30}`),
			action(t, typed(spend.Refund), with(t, `{"days_since_purchase":30}`)), "",
		},
		{
			"S13 a day too old", rule1("refund_age_limit", `{"max_days":30.0}`),
			action(t, typed(spend.Refund), with(t, `{"days_since_purchase":31}`)), spend.ReasonRefundAge,
		},
		{
			"S11 refund_age_limit judges refunds only", rule1("refund_age_limit", `{"max_days":30}`),
			action(t, typed(spend.Credit), with(t, `{"days_since_purchase":31}`)), "",
		},

		{
			"blocked category", rule1("blocked_categories", `{"categories":["gambling"]}`), action(t, with(t, `{"category":"gambling"}`)),
			spend.ReasonBlockedCategory,
		},
		{"another category", rule1("blocked_categories", `{"categories":["gambling"]}`), action(t, with(t, `{"category":"gamblin"}`)), ""},
		{
			"S11 categories without regard to case", rule1("blocked_categories", `{"categories":["Glücksspiel"]}`),
			action(t, with(t, `{"category":"GLÜCKSSPIEL"}`)), spend.ReasonBlockedCategory,
		},
		{
			"S11 categories of all types", rule1("blocked_categories", `{"categories":["x"]}`),
			action(t, typed(spend.Credit), with(t, `{"category":"X"}`)), spend.ReasonBlockedCategory,
		},
		{
			"a category with white space around", rule1("blocked_categories", `{"categories":["a b "]}`), action(t, with(t, `{"category":"\tA B"}`)),
			spend.ReasonBlockedCategory,
		},
		{"white space inside counts", rule1("blocked_categories", `{"categories":["a b"]}`), action(t, with(t, `{"category":"ab"}`)), ""},

		{"vendor on the list", rule1("vendor_allowlist", `{"vendors":["acme","apex"]}`), action(t, to("apex")), ""},
		{"vendor not on the list", rule1("vendor_allowlist", `{"vendors":["acme"]}`), action(t, to("apex")), spend.ReasonVendorNotOnAllowlist},
		{
			"S11 vendors compare exactly", rule1("vendor_allowlist", `{"vendors":["acme"]}`), action(t, to("Acme")),
			spend.ReasonVendorNotOnAllowlist,
		},
		{
			"S11 vendors compare exactly, white space too", rule1("vendor_allowlist", `{"vendors":["acme "]}`), action(t, to("acme")),
			spend.ReasonVendorNotOnAllowlist,
		},
		{
			"S11 a vendor is the counterparty", rule1("vendor_allowlist", `{"vendors":["acme"]}`), action(t, to("apex"),
				func(a *spend.Action) { a.MerchantOrVendor = "acme" }), spend.ReasonVendorNotOnAllowlist,
		},
		{
			"S11 a refund is no vendor payment", rule1("vendor_allowlist", `{"vendors":["acme"]}`), action(t, typed(spend.Refund), to("customer")),
			"",
		},

		{"blocked rail", rule1("blocked_payment_rails", `{"rails":["wire","crypto"]}`), action(t, by("crypto")), spend.ReasonBlockedPaymentRail},
		{"another rail", rule1("blocked_payment_rails", `{"rails":["wire","crypto"]}`), action(t, by("card")), ""},
		{
			"S11 rails without regard to case", rule1("blocked_payment_rails", `{"rails":["wire"]}`), action(t, typed(spend.Discount), by(" Wire ")),
			spend.ReasonBlockedPaymentRail,
		},

		{
			"S13 percent is inclusive", rule1("discount_cap", `{"max_percent":12.5}`),
			action(t, typed(spend.Discount), with(t, `{"discount_percent":12.50}`)), "",
		},
		{
			"S13 percent over", rule1("discount_cap", `{"max_percent":12.5}`),
			action(t, typed(spend.Discount), with(t, `{"discount_percent":12.51}`)), spend.ReasonDiscountCap,
		},
		{"S11 discount_cap judges discounts only", rule1("discount_cap", `{"max_percent":5}`), action(t, with(t, `{"discount_percent":50}`)), ""},

		{
			"blocked country", rule1("geography_block", `{"blocked_countries":["KP","ir"]}`), action(t, with(t, `{"country":"IR"}`)),
			spend.ReasonBlockedGeography,
		},
		{
			"S11 countries without regard to case", rule1("geography_block", `{"blocked_countries":["KP"]}`),
			action(t, typed(spend.Refund), with(t, `{"country":"kp"}`)), spend.ReasonBlockedGeography,
		},
		{
			"S89 UK is GB", rule1("geography_block", `{"blocked_countries":["GB"]}`), action(t, with(t, `{"country":"uk"}`)),
			spend.ReasonBlockedGeography,
		},
		{
			"S89 EL is GR", rule1("geography_block", `{"blocked_countries":["GR"]}`), action(t, with(t, `{"country":"EL"}`)),
			spend.ReasonBlockedGeography,
		},
		{"another country", rule1("geography_block", `{"blocked_countries":["KP"]}`), action(t, with(t, `{"country":"PK"}`)), ""},

		{"S9 without the field a rule is skipped", rule1("geography_block", `{"blocked_countries":["KP"],"on_missing":null}`), action(t), ""},
		{"S4 a blank on_missing is absent", rule1("geography_block", `{"blocked_countries":["KP"],"on_missing":" "}`), action(t), ""},
		{
			"S9 without the field a rule blocks", rule1("geography_block", `{"blocked_countries":["KP"],"on_missing":"block"}`), action(t),
			spend.ReasonRequiredContextMissed,
		},

		{"S12 open today", rule1("time_restriction", `{"allowed_days":["wed"],"allowed_hours_utc":" "}`), action(t), ""},
		{"S12 open yesterday", rule1("time_restriction", `{"allowed_days":["tue"],"allowed_hours_utc":"22:00-12:01"}`), action(t), ""},
		{
			"S12 the end is not in it", rule1("time_restriction", `{"allowed_days":null,"allowed_hours_utc":"22:00-12:00"}`), action(t),
			spend.ReasonTimeRestriction,
		},
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
