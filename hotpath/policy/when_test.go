package policy

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
)

// ruleWhen returns a policy of rule r1 with conditions.
func ruleWhen(ruleType, parameters, when string) string {
	return rule1(ruleType, parameters+`,"when":`+when)
}

func TestFaultsOfConditions(t *testing.T) {
	f := func(when string, want ...string) {
		t.Helper()
		for i := range want {
			want[i] = "rules[0].when" + want[i]
		}
		refused(t, "S88", ruleWhen("max_amount", `{"limit":1}`, when), want...)
	}
	f(`{}`, " must have at least one condition")
	f(`{"on_missing":"block"}`, " must have at least one condition")
	f(`[]`, " must be an object")
	f(`{"currencies":[],"metadata":{},"present":[]}`, ".currencies must have at least one entry", ".metadata must have at least one entry",
		".present must have at least one entry")
	f(`{"currencies":["usd","USD"],"counterparties":["a","A","a"],"payment_methods":["Wire"," wire"],"categories":["é","E\u0301"],`+
		`"merchants":["\u00e9","e\u0301"],"countries":["de","DE"],"action_types":["spend","spend"]}`,
		".action_types[1] "+repeated, ".currencies[1] "+repeated, ".counterparties[2] "+repeated, ".payment_methods[1] "+repeated,
		".merchants[1] "+repeated, ".categories[1] "+repeated, ".countries[1] "+repeated)
	f(`{"currencies":["US"],"countries":["UK","ZZ"],"action_types":["pay"],"merchants":[" "],"counterparties":[null]}`,
		".action_types[0] "+mustBeActionType, ".currencies[0] "+mustBeCurrency, ".counterparties[0] must be a string",
		".merchants[0] must not be blank", ".countries[0] must be GB, as ISO 3166 names the country",
		".countries[1] must be a country of ISO 3166, which has no ZZ")
	f(`{"amount_above":100,"amount_up_to":100}`, ".amount_up_to must be more than amount_above")
	f(`{"metadata":{"a":5,"b":[],"c":{},"d":[5,5.0,"5",true,true,[1],""]}}`,
		".metadata.a must be an array of values, or an object with bounds",
		".metadata.b must have at least one entry", ".metadata.c must have a bound: above, from, up_to or below", ".metadata.d[1] "+repeated,
		".metadata.d[4] "+repeated, ".metadata.d[5] must be a text, a number, true or false", ".metadata.d[6] must not be blank")
	f(`{"metadata":{"a":{"above":5,"below":5},"b":{"from":5,"up_to":4.9},"c":{"above":"5"},"d":{"over":5}}}`,
		".metadata.a must leave a number between its bounds", ".metadata.b must leave a number between its bounds",
		".metadata.c.above must be a number", ".metadata.d.over is not accepted here: accepted are above, from, up_to, below")
	f(`{"metadata":{"1":[1],"2":[1],"3":[1],"4":[1],"5":[1],"6":[1],"7":[1],"8":[1],"9":[1]}}`, ".metadata must have at most 8 names")
	f(`{"present":["agent_id","metadata.","metadata.a","metadata.a"],"absent":["reason_text"],"on_missing":"allow","x":1}`,
		".present[0] "+mustBePresence, ".present[1] "+mustBePresence, ".present[3] "+repeated, ".on_missing must be block, escalate or skip",
		".x is not accepted here: accepted are action_types, currencies, counterparties, payment_methods, merchants, categories, countries, "+
			"amount_above, amount_up_to, metadata, present, absent, on_missing")
	refused(t, "S88", ruleWhen("duplicate_guard", `{"window_minutes":5}`, `{"categories":["a"],"on_missing":"block"}`),
		"rules[0].when.on_missing is not accepted with a duplicate_guard")
	refused(t, "S88", rule1("block_if", `{"message":"`+strings.Repeat("x", 256)+`"}`),
		"rules[0].parameters.message must be at most 255 characters", "rules[0].when is required")
	refused(t, "S88", rule1("escalate_if", `{"amount_up_to":5}`), "rules[0].parameters.amount_above is required")
	refused(t, "S89", rule1("escalate_if", `{"amount_above":5,"amount_up_to":5}`),
		"rules[0].parameters.amount_up_to must be more than amount_above")
	for _, c := range [][2]string{
		{`{"allowed_hours":"09:00-17:00"}`, "time_zone is required with allowed_hours"},
		{
			`{"allowed_hours_utc":"09:00-17:00","time_zone":"Europe/Berlin"}`,
			"time_zone is not accepted with allowed_hours_utc: give allowed_hours",
		},
		{`{"allowed_days":["mon"],"time_zone":"europe/berlin"}`, "time_zone " + mustBeZone},
		{`{"allowed_hours":"09:00-17:00","time_zone":" "}`, "time_zone " + mustBeZone},
		{`{"time_zone":"Europe/Berlin"}`, "allowed_days is required unless allowed_hours_utc or allowed_hours is given"},
		{`{"allowed_hours":"09:00-17:00","allowed_hours_utc":"08:00-16:00"}`, "allowed_hours is not accepted beside allowed_hours_utc"},
	} {
		refusedParameters(t, "S89", "time_restriction", c[0], "."+c[1])
	}
	mustCompile(t, rule1("time_restriction", `{"allowed_days":["mon"],"time_zone":"Europe/Berlin"}`))
	mustCompile(t, ruleWhen("escalate_if", `{"approval":{}}`, `{"present":["metadata.a"],"metadata":{"a":[-5e300]}}`))
}

// What conditions do to decisions is the second evaluator's (TestEvaluateAgainstPlain); this is what it does not show.
func TestConditions(t *testing.T) {
	decide := func(rules string, a *spend.Action) spend.Decision {
		p, r := mustCompile(t, rules), named(a.Type)
		f := p.Evaluate(a, r, noon)
		if problem := decisionProblem(f, p.Explain(f, a, r)); problem != "" {
			t.Errorf("%s: %s", rules, problem)
		}
		return p.ExplainAnonymous(f, a, r)
	}
	receipt := ruleWhen("block_if", `{"message":"No expense over 75 without a receipt"}`,
		`{"amount_above":75,"absent":["metadata.receipt_id"]}`)
	if d := decide(receipt, action(t)); d.Message != "No expense over 75 without a receipt" || d.Reason != spend.ReasonConditionMet {
		t.Errorf("S88: %+v", d)
	}
	if d := decide(receipt, action(t, with(t, `{"receipt_id":"r"}`))); d.Effect != spend.Allow || d.Confidence != spend.High {
		t.Errorf("S88: %+v", d)
	}
	missing := ruleWhen("max_amount", `{"limit":500}`, `{"categories":["secret"],"metadata":{"tier":["hidden"]},"on_missing":"block"}`)
	d := decide(missing, action(t))
	if d.Reason != spend.ReasonRequiredContextMissed || !strings.HasPrefix(d.Message, "metadata.category, metadata.tier is missing") {
		t.Errorf("S88: %+v", d)
	}
	if strings.Contains(d.RuleDescription+d.Message, "secret") || strings.Contains(d.RuleDescription+d.Message, "hidden") {
		t.Errorf("S24: a caller without a key is told the list: %+v", d)
	}
	f := mustCompile(t, missing).Evaluate(action(t), named(spend.Spend), noon)
	if d := mustCompile(t, missing).Explain(f, action(t), named(spend.Spend)); d.RuleDescription !=
		`Blocks amounts over 500.00 in any currency when metadata.category is secret and metadata.tier is "hidden"` {
		t.Errorf("S14: %q", d.RuleDescription)
	}
	skipped := decide(ruleWhen("budget", `{"max_count":5,"window":"day","per":["metadata.order"],"on_missing":"skip"}`,
		`{"present":["metadata.x"]}`),
		action(t, with(t, `{"x":1,"order":1.5}`)))
	if skipped.Confidence != spend.Medium || !strings.Contains(skipped.Message, "metadata.order") {
		t.Errorf("S90: %+v", skipped)
	}
	// A max_amount that does not apply covers nothing, and the first that applies is reported.
	caps := `[{"rule_id":"eur","rule_type":"max_amount","parameters":{"limit":500,"currency":"EUR"},"when":{"categories":["travel"]}},` +
		`{"rule_id":"gbp","rule_type":"max_amount","parameters":{"limit":500,"currency":"GBP"}},` +
		`{"rule_id":"usd","rule_type":"max_amount","parameters":{"limit":500,"currency":"USD"}}]`
	if d := decide(caps, action(t, paying(t, "1", "EUR"))); d.RuleID != "gbp" || !strings.Contains(d.Message, "limits in GBP, USD") {
		t.Errorf("S10: %+v", d)
	}
	if d := decide(caps, action(t, paying(t, "1", "EUR"), with(t, `{"category":"Travel"}`))); d.Effect != spend.Allow {
		t.Errorf("S10: %+v", d)
	}
}

func TestConditionalGuards(t *testing.T) {
	guard := func(id, minutes, after, when string) string {
		return `{"rule_id":"` + id + `","rule_type":"duplicate_guard"` + when +
			`,"parameters":{"window_minutes":` + minutes + `,"after_block":"` + after + `"}}`
	}
	p := mustCompile(t, "["+guard("long", "60", "judge_again", `,"when":{"currencies":["USD"]}`)+","+guard("short", "1", "duplicate", "")+"]")
	f := func(currency string, window time.Duration, again bool, rule string) {
		t.Helper()
		a := action(t, paying(t, "1", currency))
		if got, gotAgain := p.Guard(a, spend.Spend); got != window || gotAgain != again || p.GuardRuleID(a, spend.Spend) != rule {
			t.Errorf("S17 %s: %v, %t by %s", currency, got, gotAgain, p.GuardRuleID(a, spend.Spend))
		}
	}
	f("USD", time.Hour, false, "long") // duplicate wins
	f("EUR", time.Minute, false, "short")
	p = mustCompile(t, "["+guard("long", "60", "judge_again", `,"when":{"currencies":["USD"]}`)+"]")
	f("USD", time.Hour, true, "long")
	f("EUR", 5*time.Minute, false, "duplicate_guard")
	if p.LongestWindow() != time.Hour || p.SameWindows(mustCompile(t, receiptless)) || !p.SameWindows(p) {
		t.Error("S53: windows of versions")
	}
}

const receiptless = `[{"rule_id":"a","rule_type":"duplicate_guard","parameters":{"window_minutes":60}}]`

// Two conditions are the same counter, and the same rule to approve, if they are equal after normal order and case.
func TestIdentityOfConditions(t *testing.T) {
	identities := func(when string) (budget, approval spend.Hash) {
		p := mustCompile(t, `[{"rule_id":"b","rule_type":"budget","parameters":{"max_count":1,"window":"day"}`+when+`},`+
			`{"rule_id":"e","rule_type":"escalate_if","parameters":{"amount_above":1,"approval":{}}`+when+`}]`)
		for i := range p.rules {
			if p.rules[i].id == "e" {
				approval = p.rules[i].identity
			}
		}
		return p.BudgetIdentities()["b"][0], approval
	}
	f := func(a, b string, sameBudget, sameRule bool) {
		t.Helper()
		oneBudget, oneRule := identities(a)
		otherBudget, otherRule := identities(b)
		if (oneBudget == otherBudget) != sameBudget || (oneRule == otherRule) != sameRule {
			t.Errorf("S37, S47 %s and %s: same counter %t, same rule %t", a, b, oneBudget == otherBudget, oneRule == otherRule)
		}
	}
	w := func(text string) string { return `,"when":{` + text + `}` }
	f(w(`"currencies":["usd","EUR"],"metadata":{"a":[5,"x"],"b":{"above":1,"below":2}}`),
		w(`"metadata":{"b":{"below":2.0,"above":10e-1},"a":["x",5.0]},"currencies":["EUR","USD"]`), true, true)
	f(w(`"categories":["Meals"]`), w(`"categories":["meals"]`), true, true)
	f(w(`"merchants":["Meals"]`), w(`"merchants":["meals"]`), false, false)
	f(w(`"metadata":{"a":[5]}`), w(`"metadata":{"a":["5"]}`), false, false)
	f(w(`"metadata":{"a":{"above":5}}`), w(`"metadata":{"a":{"from":5}}`), false, false)
	f(w(`"amount_above":5`), w(`"amount_up_to":5`), false, false)
	f(w(`"present":["metadata.a"]`), w(`"absent":["metadata.a"]`), false, false)
	f(w(`"action_types":["spend"]`), "", false, false)
	f(w(`"categories":["meals"]`), w(`"categories":["meals"],"on_missing":"block"`), true, false)
}

// S90: who counts as one.
func TestDimensions(t *testing.T) {
	p := mustCompile(t, rule1("budget", `{"max_count":1,"window":"day",`+
		`"per":["metadata.order","payment_method","merchant_or_vendor","agent_id"],"on_missing":"skip"}`))
	f := func(metadata, rail, merchant, want string) {
		t.Helper()
		a := action(t, with(t, metadata), by(rail))
		a.MerchantOrVendor = merchant
		subject := ""
		for _, c := range p.Charges(nil, a, named(spend.Spend), "", noon) {
			subject = c.Subject
		}
		if subject != want {
			t.Errorf("S90 %s %q %q: %s, want %s", metadata, rail, merchant, subject, want)
		}
	}
	f(`{"order":5}`, " Wire", "Shop", `["agent-1","Shop","wire",5]`)
	f(`{"order":50e-1}`, "wIRE ", "Shop", `["agent-1","Shop","wire",5]`)
	f(`{"order":"5"}`, "дом", "cafe\u0301", `["agent-1","caf`+"\u00e9"+`","`+strings.ToUpper("дом")+`","5"]`)
	f(`{"order":true}`, "x", "y", `["agent-1","y","x",true]`)
	f(`{"order":-12e2}`, "x", "y", `["agent-1","y","x",-1200]`)
	f(`{"order":"cafe\u0301"}`, "x", "y", `["agent-1","y","x","caf`+"\u00e9"+`"]`)
	for _, none := range []string{
		`{"order":1.5}`, `{"order":1e300}`, `{"order":null}`, `{"order":[5]}`, `{"order":" "}`, `{}`,
		`{"order":` + strconv.Quote(strings.Repeat("x", 257)) + `}`,
	} {
		f(none, "x", "y", "")
	}
	f(`{"order":5}`, "", "y", "")
	f(`{"order":5}`, "x", "", "")
}
