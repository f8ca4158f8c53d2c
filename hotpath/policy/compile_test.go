package policy

import (
	"fmt"
	"strings"
	"testing"

	"spendgate/audit/spend"
)

// faultsOf compiles what must not compile.
func faultsOf(t *testing.T, rules string) spend.Faults {
	t.Helper()
	var faults spend.Faults
	if p := Compile("desk", 1, rules, &faults); p != nil {
		t.Errorf("%.200s: compiled", rules)
	} else if len(faults) == 0 {
		t.Errorf("%.200s: refused without a fault", rules)
	}
	return faults
}

// Every fault of an array of rules has its path and says what is accepted (S1, S2, S4, S7, S8, S9,
// S12).

// refused compiles what must not compile and holds its faults to want.
func refused(t *testing.T, number, rules string, want ...string) {
	t.Helper()
	var got []string
	for _, fault := range faultsOf(t, rules) {
		got = append(got, fault.Path+" "+fault.Problem)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: %.200s:\ngot  %q\nwant %q", number, rules, got, want)
	}
}

// refusedParameters is refused for the parameters of a single rule.
func refusedParameters(t *testing.T, number, ruleType, parameters string, want ...string) {
	t.Helper()
	for i := range want {
		want[i] = "rules[0].parameters" + want[i]
	}
	refused(t, number, rule1(ruleType, parameters), want...)
}

const kindList = "must be one of max_amount, refund_age_limit, blocked_categories, vendor_allowlist, blocked_payment_rails, " +
	"discount_cap, geography_block, time_restriction, duplicate_guard, escalate_if, block_if, budget"

func TestFaultsOfTheArray(t *testing.T) {
	for _, absent := range []string{"", " \n", "null", " null "} {
		refused(t, "S8", absent, "rules is required")
	}
	for _, other := range []string{"{}", `"rules"`, "1", "true"} {
		refused(t, "S8", other, "rules must be an array of rules")
	}
	refused(t, "S8", "[]", "rules must have at least one rule")
	for _, malformed := range []string{"[", `[{"a":1,"a":2}]`, "[1] 2", "\xff", `["\ud800"]`} {
		refused(t, "S1", malformed, "rules must be well-formed JSON without duplicate names")
	}
	refused(t, "S4", "["+strings.Repeat("1,", 500)+"1]", "rules must have at most 500 rules")
}

func TestFaultsOfARule(t *testing.T) {
	refused(t, "S8", `[1,null,[]]`, "rules[0] must be an object", "rules[1] must be an object", "rules[2] must be an object")
	refused(t, "S8", `[{}]`, "rules[0].rule_id is required", "rules[0].rule_type is required", "rules[0].parameters is required")
	refused(t, "S4", `[{"rule_id":" ","rule_type":"\t","parameters":null,"description":" "}]`,
		"rules[0].rule_id is required", "rules[0].rule_type is required", "rules[0].parameters is required")
	refused(t, "S1", `[{"rule_id":1,"rule_type":[],"parameters":"x","description":{}}]`, "rules[0].rule_id must be a string",
		"rules[0].rule_type must be a string", "rules[0].description must be a string", "rules[0].parameters must be an object")
	refused(t, "S8", `[{"rule_id":"a","rule_type":"max_amount","parameters":[]}]`, "rules[0].parameters must be an object")
	refused(t, "S8", rule1("Max_Amount", `{"whatever":1}`), "rules[0].rule_type "+kindList)
	refused(t, "S2", `[{"rule_id":"a","rule_type":"max_amount","parameters":{"limit":1},"enabled":true,"":null}]`,
		"rules[0].enabled is not accepted here: accepted are rule_id, rule_type, description, when, parameters",
		"rules[0]. is not accepted here: accepted are rule_id, rule_type, description, when, parameters")
	refused(t, "S4", `[{"rule_id":"`+strings.Repeat("é", 257)+`","rule_type":"max_amount","description":"`+strings.Repeat("é", 4097)+
		`","parameters":{"limit":1}}]`,
		"rules[0].rule_id must be at most 256 characters", "rules[0].description must be at most 4096 characters")
	same := `{"rule_id":"a","rule_type":"duplicate_guard","parameters":{"window_minutes":1}}`
	refused(t, "S8", "["+same+`,{"rule_id":"A","rule_type":"max_amount","parameters":{"limit":1}},`+same+","+same+"]",
		"rules[2].rule_id must be unique within the policy: rules[0] has it too",
		"rules[3].rule_id must be unique within the policy: rules[0] has it too")
}

func TestFaultsOfPresence(t *testing.T) {
	refusedParameters(t, "S2", "max_amount", `{"limit":1,"limits":2,"on_missing":"skip"}`,
		".limits is not accepted here: accepted are limit, currency", ".on_missing is not accepted here: accepted are limit, currency")
	for ruleType, parameters := range map[string]string{
		"vendor_allowlist": `{"vendors":["a"],"on_missing":"block"}`, "duplicate_guard": `{"window_minutes":1,"on_missing":"block"}`,
		"escalate_if": `{"amount_above":1,"on_missing":"block"}`, "time_restriction": `{"allowed_days":["mon"],"on_missing":"block"}`,
	} {
		if got := faultsOf(t, rule1(ruleType, parameters)); len(got) != 1 || got[0].Path != "rules[0].parameters.on_missing" {
			t.Errorf("S9: %s: %v", ruleType, got)
		}
	}
	refusedParameters(t, "S2", "refund_age_limit", `{"max_days":1,"days":1}`,
		".days is not accepted here: accepted are max_days, on_missing, approval")
	refusedParameters(t, "S9", "refund_age_limit", `{"max_days":1,"on_missing":"Block"}`, ".on_missing must be block, escalate or skip")
	refusedParameters(t, "S9", "discount_cap", `{"max_percent":1,"on_missing":"allow"}`, ".on_missing must be block, escalate or skip")
	refusedParameters(t, "S9", "geography_block", `{"blocked_countries":["KP"],"on_missing":true}`, ".on_missing must be a string")
	refusedParameters(t, "S8", "max_amount", `{}`, ".limit is required")
	refusedParameters(t, "S8", "refund_age_limit", `{"max_days":null}`, ".max_days is required")
	refusedParameters(t, "S8", "blocked_categories", `{}`, ".categories is required")
	refusedParameters(t, "S8", "vendor_allowlist", `{"vendors":" "}`, ".vendors is required")
	refusedParameters(t, "S8", "blocked_payment_rails", `{}`, ".rails is required")
	refusedParameters(t, "S8", "discount_cap", `{"max_percent":""}`, ".max_percent is required")
	refusedParameters(t, "S8", "geography_block", `{}`, ".blocked_countries is required")
	refusedParameters(t, "S8", "duplicate_guard", `{}`, ".window_minutes is required")
	refusedParameters(t, "S8", "escalate_if", `{"action_types":["spend"]}`, ".amount_above is required")
	for _, neither := range []string{`{}`, `{"allowed_days":null}`, `{"allowed_days":null,"allowed_hours_utc":""}`} {
		refusedParameters(t, "S8", "time_restriction", neither, ".allowed_days is required unless allowed_hours_utc or allowed_hours is given")
	}
}

func TestFaultsOfNumbers(t *testing.T) {
	const digits = " must have at most 18 integer and 9 fraction digits, and at most 19 in all"
	refusedParameters(t, "S7", "max_amount", `{"limit":"500"}`, ".limit must be a number")
	refusedParameters(t, "S7", "max_amount", `{"limit":-0.01}`, ".limit must not be negative")
	refusedParameters(t, "S7", "max_amount", `{"limit":1e18}`, ".limit"+digits)
	refusedParameters(t, "S7", "max_amount", `{"limit":1e-10}`, ".limit"+digits)
	refusedParameters(t, "S7", "escalate_if", `{"amount_above":[1]}`, ".amount_above must be a number")
	refusedParameters(t, "S7", "escalate_if", `{"amount_above":-1}`, ".amount_above must not be negative")
	refusedParameters(t, "S8", "discount_cap", `{"max_percent":100.01}`, ".max_percent must be at most 100")
	refusedParameters(t, "S7", "discount_cap", `{"max_percent":-1}`, ".max_percent must not be negative")
	refusedParameters(t, "S7", "discount_cap", `{"max_percent":true}`, ".max_percent must be a number")
	for _, bad := range []string{"-1", "1.5", `"30"`, "1e18", "{}"} {
		refusedParameters(t, "S8", "refund_age_limit", `{"max_days":`+bad+`}`,
			".max_days must be an integer of 0 or more, with at most 18 digits")
	}
	for _, bad := range []string{"0", "10081", "-5", "1.5", `"5"`, "1e9"} {
		refusedParameters(t, "S17", "duplicate_guard", `{"window_minutes":`+bad+`}`, ".window_minutes must be an integer from 1 to 10080")
	}
}

func TestFaultsOfLists(t *testing.T) {
	for _, bad := range []string{`"US"`, `"US1"`, `"USDX"`, `"€€€"`, `" USD"`} {
		refusedParameters(t, "S7", "max_amount", `{"limit":1,"currency":`+bad+`}`, ".currency must be a currency code of three letters")
	}
	refusedParameters(t, "S1", "max_amount", `{"limit":1,"currency":840}`, ".currency must be a string")
	lists := map[string]string{
		"categories": "blocked_categories", "vendors": "vendor_allowlist", "rails": "blocked_payment_rails",
		"blocked_countries": "geography_block",
	}
	for name, ruleType := range lists {
		refusedParameters(t, "S8", ruleType, `{"`+name+`":[]}`, "."+name+" must have at least one entry")
		refusedParameters(t, "S1", ruleType, `{"`+name+`":"KP"}`, "."+name+" must be an array of strings")
		refusedParameters(t, "S1", ruleType, `{"`+name+`":["KP",1,null," ","`+strings.Repeat("é", 257)+`"]}`, "."+name+"[1] must be a string",
			"."+name+"[2] must be a string", "."+name+"[3] must not be blank", "."+name+"[4] must be at most 256 characters")
		refusedParameters(t, "S4", ruleType, `{"`+name+`":[`+strings.Repeat(`"KP",`, 10000)+`"KP"]}`, "."+name+" must have at most 10000 entries")
	}
	for _, name := range []string{"categories", "vendors", "rails"} {
		refusedParameters(t, "S4", lists[name], `{"`+name+`":["wire","wi\u200bre"," wire","\u0301wire","wire\ufe0f"]}`,
			"."+name+"[1] must not have the character U+200B, which shows nothing",
			"."+name+"[3] must not have the character U+0301, which shows nothing",
			"."+name+"[4] must not have the character U+FE0F, which shows nothing")
		var faults spend.Faults
		if CompileStored("desk", 7, rule1(lists[name], `{"`+name+`":["wi\u200bre"]}`), &faults) == nil {
			t.Errorf("a stored version is refused: %v", faults)
		}
	}
	refusedParameters(t, "S8", "geography_block", `{"blocked_countries":["US","USA","1A","ÜS"," US"]}`,
		".blocked_countries[1] must be a country code of two letters",
		".blocked_countries[2] must be a country code of two letters", ".blocked_countries[3] must be a country code of two letters",
		".blocked_countries[4] must be a country code of two letters")
	refusedParameters(t, "S89", "geography_block", `{"blocked_countries":["UK","el","ZZ","su","XK","gb"]}`,
		".blocked_countries[0] must be GB, as ISO 3166 names the country",
		".blocked_countries[1] must be GR, as ISO 3166 names the country",
		".blocked_countries[2] must be a country of ISO 3166, which has no ZZ",
		".blocked_countries[3] must be a country of ISO 3166, which has no SU")
	refusedParameters(t, "S8", "escalate_if", `{"amount_above":1,"action_types":[]}`, ".action_types must have at least one entry")
	refusedParameters(t, "S8", "escalate_if", `{"amount_above":1,"action_types":["refund","Spend"]}`,
		".action_types[1] must be refund, credit, discount or spend")
}

func TestFaultsOfTimes(t *testing.T) {
	refusedParameters(t, "S8", "time_restriction", `{"allowed_days":[]}`, ".allowed_days must have at least one entry")
	refusedParameters(t, "S8", "time_restriction", `{"allowed_days":"mon"}`, ".allowed_days must be an array of strings")
	refusedParameters(t, "S8", "time_restriction", `{"allowed_days":["mon","Tue","wednesday"]}`,
		".allowed_days[1] must be a day: mon, tue, wed, thu, fri, sat, sun",
		".allowed_days[2] must be a day: mon, tue, wed, thu, fri, sat, sun")
	refusedParameters(t, "S12", "time_restriction", `{"allowed_hours_utc":"09:00-09:00"}`, ".allowed_hours_utc must not end when it starts")
	for _, bad := range []string{`"9-17"`, `"24:00-06:00"`, `5`, `["09:00-17:00"]`} {
		refusedParameters(t, "S8", "time_restriction", `{"allowed_hours_utc":`+bad+`}`,
			".allowed_hours_utc must be of the form HH:MM-HH:MM, from 00:00 to 23:59, or 24:00 as the end")
	}
}

func TestFaultsAllAtOnce(t *testing.T) {
	refused(t, "S8", `[{"rule_id":"a","rule_type":"max_amount","parameters":{"limit":-1}},
		{"rule_id":"a","rule_type":"nope","parameters":{}},
		{"rule_id":"c","rule_type":"duplicate_guard","parameters":{"window_minutes":0,"x":1}}]`,
		"rules[0].parameters.limit must not be negative",
		"rules[1].rule_type "+kindList,
		"rules[1].rule_id must be unique within the policy: rules[0] has it too",
		"rules[2].parameters.window_minutes must be an integer from 1 to 10080",
		"rules[2].parameters.x is not accepted here: accepted are window_minutes, after_block")
}

// The limits of S4 and S8 are themselves accepted.
func TestLimitsAccepted(t *testing.T) {
	many := make([]string, spend.MaxRules)
	for i := range many {
		many[i] = fmt.Sprintf(`{"rule_id":"%d","rule_type":"escalate_if","parameters":{"amount_above":%d}}`, i, i)
	}
	mustCompile(t, "["+strings.Join(many, ",")+"]")
	mustCompile(t, rule1("vendor_allowlist", `{"vendors":[`+strings.Repeat(`"a",`, spend.MaxListEntries-1)+`"b"]}`))
	mustCompile(t, `[{"rule_id":"`+strings.Repeat("é", 256)+`","rule_type":"max_amount","description":"`+strings.Repeat("é", 4096)+
		`","parameters":{"limit":1}}]`)
	mustCompile(t, rule1("blocked_categories", `{"categories":["`+strings.Repeat("é", 256)+`"]}`))
	mustCompile(t, rule1("discount_cap", `{"max_percent":100.000}`))
	mustCompile(t, rule1("max_amount", `{"limit":999999999999999999}`))
	mustCompile(t, rule1("refund_age_limit", `{"max_days":0}`))
	mustCompile(t, rule1("duplicate_guard", `{"window_minutes":1e1}`))
}

// Faults are added to those that the caller found already, and only a fault in
// the rules costs the Program.
func TestFaultsAreAdded(t *testing.T) {
	faults := spend.Faults{{Path: "name", Problem: "is required"}}
	if Compile("desk", 1, rule1("max_amount", `{"limit":1}`), &faults) == nil || len(faults) != 1 {
		t.Errorf("sound rules refused: %v", faults)
	}
	if Compile("desk", 1, "[]", &faults) != nil || len(faults) != 2 || faults[0].Path != "name" {
		t.Errorf("faults %v", faults)
	}
}

// A policy that is wrong all over costs a bounded answer.
func TestFaultsAreBounded(t *testing.T) {
	faults := faultsOf(t, rule1("vendor_allowlist", `{"vendors":[`+strings.Repeat("1,", 9999)+`1]}`))
	if len(faults) != maxFaults {
		t.Errorf("%d faults, want %d", len(faults), maxFaults)
	}
	faults = faultsOf(t, rule1("max_amount", `{"limit":1,"`+strings.Repeat("é", 1000)+`":1}`))
	if len(faults[0].Path) > 200 {
		t.Errorf("fault repeats a name of 1000 characters: %s", faults[0].Path)
	}
}

// S89: a stored version with a code that ISO does not know stays in force, and judges as it reads actions.
func TestStoredCountries(t *testing.T) {
	var faults spend.Faults
	p := CompileStored("desk", 7, rule1("geography_block", `{"blocked_countries":["UK","ZZ"]}`), &faults)
	if p == nil {
		t.Fatal(faults)
	}
	for country, want := range map[string]spend.Reason{
		"UK": spend.ReasonBlockedGeography, "gb": spend.ReasonBlockedGeography,
		"zz": spend.ReasonBlockedGeography, "FR": "",
	} {
		a := action(t, with(t, `{"country":"`+country+`"}`))
		if f := p.Evaluate(a, named(a.Type), noon); f.Reason != want {
			t.Errorf("%s: %q, want %q", country, f.Reason, want)
		}
	}
}
