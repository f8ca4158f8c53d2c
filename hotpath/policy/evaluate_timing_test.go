package policy

import (
	"strings"
	"testing"

	"spendgate/audit/spend"
)

// tenRules has every rule type, and ten rules besides the guard's, which
// Evaluate does not see. An action that all let pass costs the most.
const tenRules = `[
	{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5000,"currency":"USD"}},
	{"rule_id":"age","rule_type":"refund_age_limit","parameters":{"max_days":30}},
	{"rule_id":"categories","rule_type":"blocked_categories","parameters":{"categories":["gambling","weapons","adult"],"on_missing":"block"}},
	{"rule_id":"vendors","rule_type":"vendor_allowlist","parameters":{"vendors":["acme","apex","zenith","initech"]}},
	{"rule_id":"rails","rule_type":"blocked_payment_rails","parameters":{"rails":["crypto","wire"],"on_missing":"escalate"}},
	{"rule_id":"discount","rule_type":"discount_cap","parameters":{"max_percent":20}},
	{"rule_id":"geo","rule_type":"geography_block","parameters":{"blocked_countries":["KP","IR","SY","CU"]}},
	{"rule_id":"hours","rule_type":"time_restriction",
		"parameters":{"allowed_days":["mon","tue","wed","thu","fri"],"allowed_hours_utc":"07:00-19:00"}},
	{"rule_id":"twice","rule_type":"duplicate_guard","parameters":{"window_minutes":10}},
	{"rule_id":"human","rule_type":"escalate_if","parameters":{"amount_above":1000,"action_types":["spend","refund"]}},
	{"rule_id":"human2","rule_type":"escalate_if","parameters":{"amount_above":2500}}
]`

const tenRulesMetadata = `{"country":"de","category":"Office supplies","days_since_purchase":3,"discount_percent":5}`

// The hot path allocates nothing, whatever it finds.
func TestEvaluateDoesNotAllocate(t *testing.T) {
	p := mustCompile(t, tenRules)
	f := func(want spend.Reason, options ...func(*spend.Action)) {
		t.Helper()
		a, r := action(t, options...), named(spend.Spend)
		var found Finding
		if n := testing.AllocsPerRun(100, func() { found = p.Evaluate(a, r, noon) }); n != 0 || found.Reason != want {
			t.Errorf("%v allocations for %q, want none for %q", n, found.Reason, want)
		}
	}
	whole := with(t, tenRulesMetadata)
	f("", whole, by("card"))
	f(spend.ReasonMaxAmount, whole, by("card"), paying(t, "5000.01", "USD"))
	f(spend.ReasonEscalationThreshold, whole, by("card"), paying(t, "1000.01", "USD"))
	f(spend.ReasonCurrencyNotCovered, whole, by("card"), paying(t, "1", "EUR"))
	f(spend.ReasonRequiredContextMissed)
	f(spend.ReasonBlockedPaymentRail, whole, by(" WIRE"))
	f(spend.ReasonBlockedCategory, with(t, `{"category":"gamBLİng"}`), with(t, `{"category":"GAMBLING"}`))
	f("", whole, by(strings.Repeat("дом ", 20)))
	p = mustCompile(t, `[
		{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":1,"currency":"USD"},"when":{"action_types":["refund"]}},
		{"rule_id":"any","rule_type":"max_amount","parameters":{"limit":5000},"when":{"currencies":["USD"]}},
		{"rule_id":"office","rule_type":"time_restriction","parameters":{"allowed_hours":"06:00-18:00","time_zone":"America/New_York"}},
		{"rule_id":"guard","rule_type":"duplicate_guard","parameters":{"window_minutes":9},"when":{"categories":["travel"]}},
		{"rule_id":"day","rule_type":"budget","parameters":{"max_count":5,"window":"day","per":["metadata.order"],"on_missing":"block"}},
		{"rule_id":"if","rule_type":"block_if","parameters":{},"when":{"countries":["DE"],"payment_methods":["card"],"merchants":["shop"],
			"metadata":{"tier":["gold",5,true],"n":{"above":-1,"up_to":7.5}},"present":["metadata.order"],"absent":["reason_text"]}}]`)
	shop := func(a *spend.Action) { a.MerchantOrVendor = "shop" }
	f(spend.ReasonConditionMet, with(t, `{"country":"de","tier":5.0,"n":7.5,"order":"`+strings.Repeat("x", 256)+`"}`), by("CARD"), shop)
	f("", with(t, `{"country":"de","tier":"`+strings.Repeat("gold", 900)+`","n":7.5,"order":12}`), by("CARD"), shop)
	f(spend.ReasonRequiredContextMissed, with(t, `{"country":"de","tier":"gold","n":{"a":[1,2]}}`), by("CARD"), shop)
}

func BenchmarkEvaluate(b *testing.B) {
	p := mustCompile(b, tenRules)
	f := func(name string, want spend.Reason, options ...func(*spend.Action)) {
		a := action(b, options...)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if found := p.Evaluate(a, named(spend.Spend), noon); found.Reason != want {
					b.Fatalf("reason %q, want %q", found.Reason, want)
				}
			}
		})
	}
	whole := with(b, tenRulesMetadata)
	f("allow", "", whole, by("card"))
	f("escalate", spend.ReasonEscalationThreshold, whole, by("card"), paying(b, "3000", "USD"))
	f("block", spend.ReasonMaxAmount, whole, by("card"), paying(b, "6000", "USD"))
}

func BenchmarkExplain(b *testing.B) {
	p := mustCompile(b, tenRules)
	f := func(name, want string, options ...func(*spend.Action)) {
		a, r := action(b, append(options, with(b, tenRulesMetadata), by("card"))...), named(spend.Spend)
		found := p.Evaluate(a, r, noon)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d := p.Explain(found, a, r); d.Message != want {
					b.Fatalf("message %q, want %q", d.Message, want)
				}
			}
		})
	}
	f("allow", "a spend of 100.00 USD is within policy desk, version 7")
	f("block", "6000.00 USD exceeds the limit of 5000.00 USD", paying(b, "6000", "USD"))
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustCompile(b, tenRules)
	}
}
