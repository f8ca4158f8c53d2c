package policy

import (
	"strconv"
	"strings"
	"testing"

	"spendgate/audit/spend"
)

// S15: the message has the figures. S14: a reported rule has its description.
func TestTexts(t *testing.T) {
	var explained strings.Builder
	f := func(rules string, a *spend.Action, wantMessage, wantDescription string) {
		t.Helper()
		explained.WriteString(rules)
		p := mustCompile(t, rules)
		r := named(a.Type)
		d := p.Explain(p.Evaluate(a, r, noon), a, r)
		if d.Message != wantMessage || d.RuleDescription != wantDescription {
			t.Errorf("S15 %s:\nmessage     %q\nwant        %q\ndescription %q\nwant        %q", rules, d.Message, wantMessage, d.RuleDescription,
				wantDescription)
		}
		if d.NextStep == "" || d.PolicyVersion != 7 {
			t.Errorf("S15 %s: %+v", rules, d)
		}
		if blocked := d.Effect != spend.Allow; blocked != (d.RuleID == "r1") || blocked != (d.Reason != "") {
			t.Errorf("S15 %s: %+v", rules, d)
		}
		if starts := map[spend.Effect]string{
			spend.Allow: "Proceed", spend.Block: "Do not proceed", spend.Escalate: "Pause",
		}; !strings.HasPrefix(d.NextStep, starts[d.Effect]) {
			t.Errorf("S15 %s: next step of %v is %q", rules, d.Effect, d.NextStep)
		}
	}
	f(rule1("max_amount", `{"limit":500,"currency":"usd"}`), action(t, paying(t, "600", "USD")),
		"600.00 USD exceeds the limit of 500.00 USD", "Blocks amounts over 500.00 USD")
	f(rule1("max_amount", `{"limit":0.125}`), action(t, paying(t, "1e2", "EUR")),
		"100.00 EUR exceeds the limit of 0.125 EUR", "Blocks amounts over 0.125 in any currency")
	f(rule1("max_amount", `{"limit":500,"currency":"usd"}`), action(t, paying(t, "6", "EUR")),
		"6.00 EUR is in a currency for which the policy has no limit: it has limits in USD", "Blocks amounts over 500.00 USD")
	f(rule1("refund_age_limit", `{"max_days":1}`), action(t, typed(spend.Refund), with(t, `{"days_since_purchase":45}`)),
		"45 days since the purchase exceeds the limit of 1 day", "Blocks refunds more than 1 day after the purchase")
	f(rule1("blocked_categories", `{"categories":["Gambling","b","c","d","e","f","g"]}`), action(t, with(t, `{"category":" GAMBLING\n"}`)),
		`category "GAMBLING" is blocked`, "Blocks the categories Gambling, b, c, d, e and 2 more")
	f(rule1("vendor_allowlist", `{"vendors":["apex","zenith"]}`), action(t),
		`vendor "acme" is not on the allowlist`, "Blocks spends to any but the vendors apex, zenith")
	f(rule1("blocked_payment_rails", `{"rails":["crypto"]}`), action(t, by("Crypto")),
		`payment method "Crypto" is blocked`, "Blocks payment by crypto")
	f(rule1("discount_cap", `{"max_percent":20.0}`), action(t, typed(spend.Discount), with(t, `{"discount_percent":25.5}`)),
		"a discount of 25.5% exceeds the limit of 20%", "Blocks discounts over 20%")
	f(rule1("geography_block", `{"blocked_countries":["kp"]}`), action(t, with(t, `{"country":"kp"}`)),
		"country KP is blocked", "Blocks actions in the countries KP")
	f(rule1("geography_block", `{"blocked_countries":["kp"],"on_missing":"block"}`), action(t),
		`metadata.country is missing, and rule "r1" requires it`, "Blocks actions in the countries KP")
	f(rule1("blocked_payment_rails", `{"rails":["wire"],"on_missing":"escalate"}`), action(t),
		`payment_method is missing, and rule "r1" requires it`, "Blocks payment by wire")
	f(rule1("time_restriction", `{"allowed_days":["fri","mon"],"allowed_hours_utc":"22:00-06:00"}`), action(t),
		"wed 12:00 UTC is outside mon, fri 22:00-06:00 UTC", "Blocks actions outside mon, fri 22:00-06:00 UTC")
	f(rule1("time_restriction", `{"allowed_hours_utc":"00:00-12:00"}`), action(t),
		"wed 12:00 UTC is outside any day 00:00-12:00 UTC", "Blocks actions outside any day 00:00-12:00 UTC")
	f(rule1("escalate_if", `{"amount_above":50}`), action(t),
		"100.00 USD exceeds the escalation threshold of 50.00 USD", "Escalates amounts over 50.00")
	f(rule1("escalate_if", `{"amount_above":50,"action_types":["spend","refund","spend"]}`), action(t),
		"100.00 USD exceeds the escalation threshold of 50.00 USD", "Escalates amounts over 50.00 for refund, spend")
	f(`[{"rule_id":"r1","rule_type":"max_amount","description":" Ask Ann. ","parameters":{"limit":5}}]`, action(t),
		"100.00 USD exceeds the limit of 5.00 USD", " Ask Ann. ")

	f(rule1("max_amount", `{"limit":500}`), action(t), "a spend of 100.00 USD is within policy desk, version 7", "")
	f(`[{"rule_id":"r1","rule_type":"geography_block","parameters":{"blocked_countries":["KP"]}},
		{"rule_id":"r2","rule_type":"blocked_payment_rails","parameters":{"rails":["x"]}},
		{"rule_id":"r3","rule_type":"refund_age_limit","parameters":{"max_days":1}},
		{"rule_id":"r4","rule_type":"geography_block","parameters":{"blocked_countries":["IR"]}}]`, action(t),
		"a spend of 100.00 USD is within policy desk, version 7; rules were skipped for missing context: metadata.country, payment_method", "")
	for _, r := range RuleTypes() {
		if r.Reads != nil && r.Name != "budget" && !strings.Contains(explained.String(), strconv.Quote(r.Name)) {
			t.Errorf("rule type %s has no text here", r.Name)
		}
	}
}

// If an agent only changed fields that its fingerprint does not cover, its next check would be a
// duplicate (S17), so the next step is to wait.
func TestNextStepKnowsTheWindow(t *testing.T) {
	const guardRule = `{"rule_id":"g","rule_type":"duplicate_guard","parameters":{"window_minutes":30}},`
	for _, rules := range []string{
		rule1("blocked_payment_rails", `{"rails":["wire"]}`),
		rule1("geography_block", `{"blocked_countries":["KP"],"on_missing":"block"}`),
		rule1("geography_block", `{"blocked_countries":["KP"],"on_missing":"escalate"}`),
		rule1("time_restriction", `{"allowed_days":["sun"]}`),
	} {
		p := mustCompile(t, "["+guardRule+rules[1:])
		a, r := action(t, by("wire")), named(spend.Spend)
		if d := p.Explain(p.Evaluate(a, r, noon), a, r); !strings.Contains(d.NextStep, "duplicate window of 30 minutes") {
			t.Errorf("S17 %s: next step %q", rules, d.NextStep)
		}
	}
}

func TestAllocationsOfExplain(t *testing.T) {
	p := mustCompile(t, tenRules)
	f := func(most float64, want spend.Effect, options ...func(*spend.Action)) {
		t.Helper()
		a, r := action(t, append(options, with(t, tenRulesMetadata), by("card"))...), named(spend.Spend)
		found := p.Evaluate(a, r, noon)
		if n := testing.AllocsPerRun(100, func() { p.Explain(found, a, r) }); n > most || found.Effect != want {
			t.Errorf("%v: %v allocations, want %v: %v", found.Effect, n, want, most)
		}
	}
	f(1, spend.Allow)
	f(1, spend.Escalate, paying(t, "3000", "USD"))
	f(2, spend.Block, paying(t, "6000", "USD"))
}
