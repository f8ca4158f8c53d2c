package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"spendgate/audit/spend"
)

func TestWarnings(t *testing.T) {
	for rules, want := range map[string][]string{
		`max_amount {"limit":500,"currency":"USD"}; max_amount {"limit":500.0,"currency":"usd"}`: {
			`rules[1] is never reported: whenever it fires, so does rules[0] ("r0")`,
		},
		`max_amount {"limit":500}; max_amount {"limit":900,"currency":"USD"}`: {
			"rules[1] is never",
		},
		`max_amount {"limit":900,"currency":"USD"}; max_amount {"limit":500}`: nil,
		`escalate_if {"amount_above":500}; max_amount {"limit":500}`: {
			"rules[0] is never reported: every amount over",
		},
		`escalate_if {"amount_above":499}; max_amount {"limit":500}`: nil,
		`escalate_if {"amount_above":500}; max_amount {"limit":500,"currency":"USD"}`: {
			"rules[0] is never",
		},
		`escalate_if {"amount_above":500}; max_amount {"limit":1,"currency":"USD"}; max_amount {"limit":501,"currency":"EUR"}`: nil,
		`escalate_if {"amount_above":5}; escalate_if {"amount_above":9,"action_types":["refund"]}`: {
			"rules[1] is never",
		},
		`escalate_if {"amount_above":5,"approval":{}}; escalate_if {"amount_above":9,"approval":{"required":2}}`: nil,
		`escalate_if {"amount_above":5,"approval":{}}; escalate_if {"amount_above":9}`: {
			`rules[1] asks nobody, and where it fires beside rules[0] ("r0") cancels the approval`,
		},
		`escalate_if {"amount_above":5}; escalate_if {"amount_above":9,"approval":{}}`: {
			`rules[0] asks nobody, and where it fires beside rules[1]`,
		},
		`escalate_if {"amount_above":9,"action_types":["refund"]}; escalate_if {"amount_above":9,"action_types":["spend"],"approval":{}}`: nil,
		`budget {"limit":5,"currency":"USD","window":"day"}; budget {"limit":5,"currency":"USD","window":"day"}`:                          nil,
		`escalate_if {"amount_above":9}; escalate_if {"amount_above":5,"action_types":["refund"]}`:                                        nil,
		`escalate_if {"amount_above":5,"action_types":["credit"]}; escalate_if {"amount_above":9}`:                                        nil,
		`blocked_categories {"categories":["a","B"],"on_missing":"skip"}; blocked_categories {"categories":["b"],"on_missing":"skip"}`: {
			"rules[1] is never",
		},
		`blocked_categories {"categories":["a","B"],"on_missing":"skip"}; blocked_categories {"categories":["b"],"on_missing":"block"}`: nil,
		`blocked_payment_rails {"rails":["wire"]}`: {"rules[0] does not judge an action without payment_method"},
		`discount_cap {"max_percent":20,"on_missing":"block"}; discount_cap {"max_percent":30,"on_missing":"escalate"}`: {"rules[1] is never"},
		`refund_age_limit {"max_days":20,"on_missing":"block"}; refund_age_limit {"max_days":20,"on_missing":"block"}`:  {"rules[1] is never"},
		`geography_block {"blocked_countries":["KP","IR"],"on_missing":"block"}; geography_block ` +
			`{"blocked_countries":["ir"],"on_missing":"block"}`: {"rules[1] is never"},
		`vendor_allowlist {"vendors":["aws","b "]}; vendor_allowlist {"vendors":["aws","b ","c"]}`: {
			`vendors has "b "`, `vendors has "b "`, "rules[1] is never",
		},
		`vendor_allowlist {"vendors":["aws"]}; vendor_allowlist {"vendors":["AWS"]}`: {
			"rules[1] leaves no vendor",
		},
		`time_restriction {"allowed_hours_utc":"00:00-24:00"}`: {
			"rules[0] never fires",
		},
		`time_restriction {"allowed_days":["mon"]}; time_restriction {"allowed_days":["mon","tue"]}`: {"rules[1] is never"},
		`time_restriction {"allowed_hours_utc":"22:00-06:00"}; time_restriction {"allowed_hours_utc":"06:00-22:00"}`: {
			"rules[1] leaves no time",
		},
		`duplicate_guard {"window_minutes":5}; duplicate_guard {"window_minutes":9}; duplicate_guard {"window_minutes":9}`: {
			"rules[0] is never", `rules[2] is never reported: whenever it fires, so does rules[1]`,
		},
		`max_amount {"limit":500}; duplicate_guard {"window_minutes":5}`: nil,
		`max_amount {"limit":500,"currency":"eur"}; max_amount {"limit":500,"currency":"euo"}; max_amount {"limit":5,"currency":"XAU"}`: {
			"rules[1].parameters.currency is EUO, which is no currency of ISO 4217",
		},
		`budget {"limit":5,"currency":"HRK","window":"day"}`:                       {"rules[0].parameters.currency is HRK"},
		`max_amount {"limit":"x"}; max_amount {"limit":5}; max_amount {"limit":5}`: nil,
	} {
		var texts []string
		for i, text := range strings.Split(rules, "; ") {
			ruleType, parameters, _ := strings.Cut(text, " ")
			texts = append(texts, fmt.Sprintf(`{"rule_id":"r%d","rule_type":%q,"parameters":%s}`, i, ruleType, parameters))
		}
		got := Warnings("[" + strings.Join(texts, ",") + "]")
		ok := len(got) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = strings.Contains(got[i].Path+" "+got[i].Problem, want[i])
		}
		if !ok {
			t.Errorf("%s\ngot  %v\nwant %q", rules, got, want)
		}
	}
}

// A description with another number than the limit is one that nobody changed with the limit.
func TestWarningsOfDescriptions(t *testing.T) {
	for _, c := range []struct{ description, parameters, number string }{
		{"No refund over 500 USD", `max_amount {"limit":5000,"currency":"USD"}`, "500"},
		{"No refund over 5,000.00 USD", `max_amount {"limit":5000,"currency":"USD"}`, ""},
		{"No refund over 5.000,50", `max_amount {"limit":5000.5}`, ""},
		{"No refund over 5 000", `max_amount {"limit":5000}`, ""},
		{"At most $5k", `max_amount {"limit":5000}`, ""},
		{"At most $5k", `max_amount {"limit":500}`, "5k"},
		{"At most 1.5m", `max_amount {"limit":1500000}`, ""},
		{"Form 12: at most 500", `max_amount {"limit":500}`, ""},
		{"As the handbook says (2026-03-04, R7, 3rd edition, #12, 08:30)", `max_amount {"limit":500}`, ""},
		{"2 people for more than 100", `escalate_if {"amount_above":100,"approval":{"required":2}}`, ""},
		{"2 people for more than 100", `escalate_if {"amount_above":1000,"approval":{"required":2}}`, "100"},
		{"Once in 2 hours", `duplicate_guard {"window_minutes":120}`, ""},
		{"Once in 3 hours", `duplicate_guard {"window_minutes":120}`, "3"},
		{"20 % at most", `discount_cap {"max_percent":20,"on_missing":"block"}`, ""},
		{"20 % at most", `discount_cap {"max_percent":25,"on_missing":"block"}`, "20"},
		{"50 a day", `budget {"limit":1000,"currency":"USD","max_count":50,"window":"day"}`, ""},
		{"1000 USD, 50 a day", `budget {"limit":2000,"currency":"USD","max_count":50,"window":"day"}`, "1000"},
		{"", `budget {"limit":2000,"currency":"USD","max_count":50,"rolling_minutes":90}`, ""},
		{"No level 3 goods", `blocked_categories {"categories":["guns"],"on_missing":"skip"}`, ""},
	} {
		ruleType, parameters, _ := strings.Cut(c.parameters, " ")
		got := Warnings(fmt.Sprintf(`[{"rule_id":"r","rule_type":%q,"description":%q,"parameters":%s}]`, ruleType, c.description, parameters))
		if c.number == "" && got == nil {
			continue
		}
		if len(got) != 1 || got[0].Path != "rules[0].description" ||
			got[0].Problem != "has the number "+c.number+", which is none of the rule's parameters" {
			t.Errorf("%q of %s: %v, want %q", c.description, c.parameters, got, c.number)
		}
	}
}

// Warnings about conditions, of the last rule.
func TestWarningsOfConditions(t *testing.T) {
	const usd = `{"rule_id":"usd","rule_type":"max_amount","parameters":{"limit":9,"currency":"USD"}},`
	f := func(before, rule, want string) {
		t.Helper()
		var got string
		for _, w := range Warnings("[" + before + strings.TrimPrefix(rule, "[")) {
			if strings.HasPrefix(w.Path, fmt.Sprintf("rules[%d]", strings.Count(before, "rule_id"))) {
				got += w.Problem
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
	}
	tier := rule1("escalate_if", `{"amount_above":1,"amount_up_to":5}`)
	const avoids = "does not match an action without metadata.category, so an agent avoids"
	f("", tier, "compares amounts in any currency")
	f(usd, tier, "")
	f("", ruleWhen("escalate_if", `{"amount_above":1,"amount_up_to":5}`, `{"currencies":["EUR"]}`), "")
	f(usd, ruleWhen("max_amount", `{"limit":5,"currency":"EUR"}`, `{"categories":["a"]}`), "takes the limit away")
	f(usd, ruleWhen("max_amount", `{"limit":5,"currency":"USD"}`, `{"categories":["a"]}`), avoids)
	f(usd, ruleWhen("max_amount", `{"limit":5,"currency":"USD"}`, `{"categories":["a"],"on_missing":"skip"}`), "")
	f(usd, ruleWhen("duplicate_guard", `{"window_minutes":9}`, `{"categories":["a"]}`), "")
	const named = `{"rule_id":"named","rule_type":"block_if","parameters":{},"when":{"absent":["metadata.category"]}},`
	f(named, ruleWhen("escalate_if", `{}`, `{"categories":["a"]}`), "")
	f("", ruleWhen("escalate_if", `{}`, `{"metadata":{"nights":{"up_to":1}},"on_missing":"skip"}`), "")
	nights := ruleWhen("escalate_if", `{}`, `{"metadata":{"nights":{"up_to":1}},"on_missing":"block"}`)
	f(usd, nights, "does not match a metadata.nights that is no number, so an agent that sends \"1\" for 1 avoids the rule")
	number := strings.Trim(ruleWhen("max_amount", `{"limit":9,"currency":"USD"}`, `{"metadata":{"nights":{"from":0}}}`), "[]") + `,`
	none := strings.Replace(usd, "USD", "XTS", 1)
	f(none+number, nights, "")
	f(none+usd+number, nights, "does not match")
	f(none, strings.TrimSuffix(number, ",")+"]", "")
	f("", strings.TrimSuffix(number, ",")+"]", "takes the limit away")
	f("", ruleWhen("escalate_if", `{}`, `{"metadata":{"discount_percent":{"up_to":1}},"on_missing":"block"}`), "")
	tierOf := func(parameters string) string { return strings.Trim(rule1("escalate_if", parameters), "[]") + "," }
	f(usd+tierOf(`{"amount_above":4,"approval":{}}`), tier, "asks nobody")
	f(usd+tierOf(`{"amount_above":5,"approval":{}}`), tier, "")
	const never = "never fires: its conditions and parameters exclude each other"
	f(usd, ruleWhen("refund_age_limit", `{"max_days":5,"on_missing":"skip"}`, `{"action_types":["spend"]}`), never)
	f(usd, ruleWhen("block_if", `{}`, `{"present":["metadata.a"],"absent":["metadata.a"]}`), never)
	f(usd, ruleWhen("block_if", `{}`, `{"metadata":{"a":[1]},"absent":["metadata.a"]}`), never)
	f(usd, ruleWhen("escalate_if", `{"amount_above":5}`, `{"amount_up_to":5}`), never)
	f(usd, ruleWhen("escalate_if", `{"amount_above":4}`, `{"amount_up_to":5}`), "")
}

// A rule that Warnings calls never reported is reported for no action, over random policies and
// actions.
func TestWarningsAreTrue(t *testing.T) {
	draw := drawer{rand.New(rand.NewPCG(7, 0))}
	warned := make(map[string]int)
	for range 1500 {
		var texts []string
		for _, r := range draw.policy() {
			texts = append(texts, r.json())
		}
		rules := "[" + strings.Join(texts, ",") + "]"
		p, never, claims := mustCompile(t, rules), make(map[string]string), Warnings(rules)
		for _, w := range claims {
			for _, claim := range []string{"is never reported", "never fires", "leaves no time", "leaves no vendor"} {
				if strings.HasPrefix(w.Problem, claim) {
					never[w.Path] = claim
					warned[claim]++
				}
			}
		}
		if len(never) == 0 {
			continue
		}
		for range 60 {
			a, r, now := draw.action(t)
			if d := p.Duplicate(spend.ID{}, a, r); never[pathOf(d.RuleID)] != "" {
				t.Fatalf("the guard reports %s: %s", d.RuleID, rules)
			}
			f := p.Evaluate(a, r, now)
			d := p.Explain(f, a, r)
			if claim := never[pathOf(d.RuleID)]; claim == "is never reported" || claim == "never fires" {
				t.Fatalf("%s is reported for %+v at %v\n%s\n%v", d.RuleID, a, now, rules, claims)
			}
			for _, claim := range never {
				if d.Effect == spend.Allow && (claim == "leaves no time" || claim == "leaves no vendor" && r.Type == spend.Spend) {
					t.Fatalf("%s, and yet %+v at %v passes\n%s", claim, a, now, rules)
				}
			}
		}
	}
	for _, claim := range []string{"is never reported", "leaves no time", "leaves no vendor"} {
		if warned[claim] < 5 {
			t.Errorf("%q was drawn %d times only", claim, warned[claim])
		}
	}
}

// pathOf returns the path of a rule that is named by its index.
func pathOf(id string) string { return "rules[" + strings.TrimPrefix(id, "r") + "]" }
