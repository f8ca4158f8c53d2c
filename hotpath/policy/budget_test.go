package policy

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

func TestFaultsOfBudgets(t *testing.T) {
	f := func(parameters string, want ...string) {
		t.Helper()
		refusedParameters(t, "S33", "budget", parameters, want...)
	}
	f(`{}`, ".limit is required unless max_count is given", ".window is required unless rolling_minutes is given")
	f(`{"limit":1,"window":"day"}`, ".currency is required")
	f(`{"currency":"USD","window":"day"}`, ".limit is required unless max_count is given")
	f(`{"limit":-1,"currency":"US","window":"Day"}`, ".limit must not be negative", ".currency must be a currency code of three letters",
		".window must be hour, day, week, month, year or lifetime")
	for _, bad := range []string{"-1", "1.5", `"5"`, "1000000001"} {
		f(`{"max_count":`+bad+`,"window":"day"}`, ".max_count must be an integer from 0 to 1000000000")
	}
	for _, bad := range []string{"0", "44641", `"60"`} {
		f(`{"max_count":1,"rolling_minutes":`+bad+`}`, ".rolling_minutes must be an integer from 1 to 44640")
	}
	f(`{"max_count":1,"window":"day","rolling_minutes":5}`, ".rolling_minutes is not accepted beside window")
	f(`{"max_count":1,"window":"day","per":"agent_id"}`, ".per must be an array of strings")
	f(`{"max_count":1,"window":"day","per":["agent_id","key",null,"agent_id"]}`,
		".per[1] must be "+perForm,
		".per[2] must be a string", ".per[3] must not be in the list twice")
	f(`{"max_count":1,"window":"day","action_types":[]}`, ".action_types must have at least one entry")
	f(`{"max_count":1,"window":"day","action_types":["spend","pay","spend"]}`, ".action_types[1] must be refund, credit, discount or spend",
		".action_types[2] must not be in the list twice")
	for _, bad := range []string{`"Local"`, `""`, `" "`, `"europe/berlin"`, `"+01:00"`} {
		f(`{"max_count":1,"window":"day","time_zone":`+bad+`}`, ".time_zone "+mustBeZone)
	}
	f(`{"max_count":1,"window":"day","time_zone":1}`, ".time_zone must be a string")
	f(`{"max_count":1,"rolling_minutes":5,"time_zone":"UTC"}`, ".time_zone is not accepted with rolling_minutes")
	f(`{"max_count":1,"window":"day","on_exceed":"Block"}`, ".on_exceed must be block or escalate")
	f(`{"max_count":1,"window":"day","on_exceed":"block","approval":{}}`, ".approval is accepted only with on_exceed or on_missing escalate")
	const of = " with a per that has merchant_or_vendor, payment_method or metadata.NAME"
	f(`{"max_count":1,"window":"day","per":["agent_id"],"on_missing":"block"}`, ".on_missing is accepted only"+of)
	for _, per := range []string{"merchant_or_vendor", "payment_method", "metadata.order"} {
		f(`{"max_count":1,"window":"day","per":["`+per+`"]}`, ".on_missing is required"+of)
	}
	f(`{"max_count":1,"window":"day","per":["metadata.a","metadata.a","metadata. "],"on_missing":"skip"}`,
		".per[1] must not be in the list twice", ".per[2] must be "+perForm)
}

// TestApprovals: the approvals that escalating rules ask for.
func TestApprovals(t *testing.T) {
	refusedParameters(t, "approval", "escalate_if", `{"amount_above":1,"approval":[]}`, ".approval must be an object")
	refusedParameters(t, "approval", "escalate_if",
		`{"amount_above":1,"approval":{"required":6,"expires_minutes":0,"use_within_minutes":10081,"by":"Ann"}}`,
		".approval.required must be an integer from 1 to 5", ".approval.expires_minutes must be an integer from 1 to 43200",
		".approval.use_within_minutes must be an integer from 1 to 10080",
		".approval.by is not accepted here: accepted are required, from, exclude_author, expires_minutes, use_within_minutes")
	for _, missing := range []string{"", `,"on_missing":"block"`, `,"on_missing":"skip"`} {
		refusedParameters(t, "approval", "discount_cap", `{"max_percent":1,"approval":{}`+missing+`}`,
			".approval is accepted only with on_missing escalate")
	}
	refusedParameters(t, "approval", "max_amount", `{"limit":1,"approval":{}}`, ".approval is not accepted here: accepted are limit, currency")
	f := func(ruleType, parameters string, want *ApprovalTerms) {
		t.Helper()
		p := mustCompile(t, rule1(ruleType, parameters))
		got := append(p.rules, rule{})[0].approval
		if p.HasBudgets() {
			got = p.budgets[0].rule.approval
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("approval: %s %s: %+v, want %+v", ruleType, parameters, got, want)
		}
	}
	usual := &ApprovalTerms{Required: 1, Expires: 24 * time.Hour, UseWithin: time.Hour}
	f("escalate_if", `{"amount_above":1}`, nil)
	f("escalate_if", `{"amount_above":1,"approval":null}`, nil)
	f("escalate_if", `{"amount_above":1,"approval":{}}`, usual)
	f("discount_cap", `{"max_percent":1,"on_missing":"escalate","approval":{"required":5}}`,
		&ApprovalTerms{Required: 5, Expires: 24 * time.Hour, UseWithin: time.Hour})
	f("budget", `{"max_count":1,"window":"day","on_exceed":"escalate","approval":{"required":1.0,"expires_minutes":43200,`+
		`"use_within_minutes":10080}}`,
		&ApprovalTerms{Required: 1, Expires: 720 * time.Hour, UseWithin: 168 * time.Hour})
}

// The examples of docs/use/budgets.md are sound.
func TestExamplesOfBudgets(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/use/budgets.md"))(t)
	_, section, _ := strings.Cut(string(text), "\n## Examples\n")
	section, _, _ = strings.Cut(section, "\n## ")
	examples := regexp.MustCompile("(?m)^- `({.*})`").FindAllStringSubmatch(section, -1)
	for _, example := range examples {
		mustCompile(t, rule1("budget", example[1]))
	}
	if len(examples) < 3 {
		t.Errorf("%d examples found", len(examples))
	}
}

// S37: a counter goes on while the meaning is the same.
func TestBudgetIdentities(t *testing.T) {
	identities := func(parameters string) []spend.Hash {
		t.Helper()
		return mustCompile(t, rule1("budget", parameters)).BudgetIdentities()["r1"]
	}
	same := func(a, b string) {
		t.Helper()
		if !slices.Contains(identities(a), identities(b)[0]) || !slices.Contains(identities(b), identities(a)[0]) {
			t.Errorf("S37: other counters: %s, %s", a, b)
		}
	}
	const all = `{"limit":1,"currency":"USD","max_count":5,"per":["agent_id","action_type"],"window":"day","time_zone":"Europe/Berlin",` +
		`"action_types":["refund","spend"]}`
	same(all, `{"limit":2,"currency":"usd","per":["action_type","agent_id"],"window":"day","time_zone":"Europe/Berlin",`+
		`"action_types":["spend","refund"],"on_exceed":"escalate","approval":{}}`)
	same(`{"max_count":1,"window":"day"}`, `{"max_count":2,"currency":" `+
		`","per":[],"window":"day","time_zone":"UTC","action_types":["spend","credit","discount","refund"],"on_exceed":"block"}`)
	same(`{"max_count":1,"window":"lifetime"}`, `{"max_count":1,"window":"lifetime","time_zone":"Asia/Tokyo"}`)
	same(`{"max_count":1,"window":"day"}`, `{"max_count":1,"window":"day","time_zone":"Etc/UTC"}`)
	same(`{"max_count":1,"window":"day","time_zone":"Asia/Calcutta"}`, `{"max_count":1,"window":"day","time_zone":"Asia/Kolkata"}`)
	seen := make(map[spend.Hash]string)
	for _, parameters := range []string{
		all, strings.Replace(all, "USD", "EUR", 1), strings.Replace(all, `"agent_id",`, "", 1), strings.Replace(all, "day", "week", 1),
		strings.Replace(all, "Berlin", "Paris", 1), strings.Replace(all, `"refund",`, "", 1), strings.Replace(all, "agent_id", "api_key", 1),
		`{"max_count":1,"rolling_minutes":1}`, `{"max_count":1,"rolling_minutes":10}`, `{"max_count":1,"window":"hour"}`,
	} {
		for _, identity := range identities(parameters) {
			if other, ok := seen[identity]; ok {
				t.Errorf("S37: one counter: %s, %s", other, parameters)
			}
			seen[identity] = parameters
		}
	}
	// Stores keep identities: this one must never change.
	if got := mustCompile(t, rule1("budget", all)).budgets[0].identityIn("Europe/Berlin"); got !=
		"per=agent_id,action_type;window=day Europe/Berlin;currency=USD;types=refund, spend" {
		t.Errorf("S37: identity %q", got)
	}
	if got := mustCompile(t, rule1("max_amount", `{"limit":1}`)); got.BudgetIdentities() != nil || got.HasBudgets() {
		t.Error("budgets of a policy without any")
	}
}

// S33, S34: which budgets an action counts in, for whom and when.
func TestCharges(t *testing.T) {
	const since = 3
	f := func(parameters string, want string, options ...func(*spend.Action)) {
		t.Helper()
		p := mustCompile(t, rule1("budget", parameters))
		p.CountSince(map[string]spend.BudgetSince{"r1": {Version: since}, "gone": {Version: 1}})
		a := action(t, options...)
		got := ""
		for _, c := range p.Charges(nil, a, named(a.Type), `key "1"`, noon) {
			got += fmt.Sprintf("%s %v from %d by %d until %d", c.Subject, c.Amount, c.Counter.StartMS, c.Counter.BucketMS, c.EndMS)
			if c.RuleID != "r1" || c.Since != since || c.Counter.ID != spend.CounterID("desk", "r1", since, c.Subject) {
				t.Errorf("S37: %s: %+v", parameters, c)
			}
		}
		if got != want {
			t.Errorf("S34: %s: %q, want %q", parameters, got, want)
		}
	}
	const today = " from 1772582400000 by 0 until 1772668800000"
	f(`{"limit":500,"currency":"usd","window":"day"}`, "[] 100"+today)
	f(`{"limit":500,"currency":"usd","window":"day"}`, "", paying(t, "1", "EUR"))
	f(`{"max_count":5,"window":"day"}`, "[] 0"+today, paying(t, "1", "EUR"))
	f(`{"max_count":5,"currency":"USD","window":"day"}`, "[] 100"+today)
	f(`{"max_count":5,"currency":"USD","window":"day"}`, "", paying(t, "1", "EUR"))
	f(`{"max_count":5,"window":"day","action_types":["refund","credit"]}`, "")
	f(`{"max_count":5,"window":"day","action_types":["refund","credit"]}`, "[] 0"+today, typed(spend.Credit))
	f(`{"max_count":5,"window":"day","per":["action_type","api_key","counterparty","agent_id"]}`,
		`["agent-1","a\"c\nme","key \"1\"","spend"] 0`+today, to("a\"c\nme"))
	f(`{"max_count":5,"window":"day","per":["api_key"]}`, `["key \"1\""] 0`+today)
	f(`{"max_count":5,"window":"lifetime"}`, "[] 0 from 0 by 0 until 0")
	f(`{"max_count":5,"rolling_minutes":90}`, "[] 0 from 1772625600000 by 90000 until 1772631090000")

	// In the policy's order; of a version that nobody told of, since that version.
	p := mustCompile(t, `[{"rule_id":"b","rule_type":"budget","parameters":{"max_count":5,"window":"day"}},
		{"rule_id":"m","rule_type":"max_amount","parameters":{"limit":1}},
		{"rule_id":"a","rule_type":"budget","parameters":{"limit":5,"currency":"USD","window":"month"}}]`)
	got := p.Charges(make([]spend.Charge, 1), action(t), named(spend.Spend), "k", noon)
	if len(got) != 3 || got[1].RuleID != "b" || got[2].RuleID != "a" || got[1].Since != 7 {
		t.Errorf("S34: %+v", got)
	}
	if c := got[1]; c.Limited || !c.Counted || c.MaxCount != 5 || !c.NoCurrency {
		t.Errorf("S33: %+v", c)
	}
	if c := got[2]; !c.Limited || c.Counted || c.Limit != mustAmount(t, "5").Total() || c.NoCurrency {
		t.Errorf("S33: %+v", c)
	}
}

// A window that is remembered is not taken for another's.
func TestChargesOverTime(t *testing.T) {
	p := mustCompile(t, rule1("budget", `{"max_count":5,"window":"hour","time_zone":"Australia/Lord_Howe"}`))
	at := time.Date(2026, 4, 4, 10, 0, 0, 0, time.UTC)
	for range 1000 {
		c := p.Charges(nil, action(t), named(spend.Spend), "", at)[0]
		if want := p.budgets[0].period.window(at); c.Counter.StartMS != want.name || c.BeginMS() != want.start || c.EndMS != want.end {
			t.Fatalf("S34: at %v: %+v, want %v", at, c, want)
		}
		at = at.Add(time.Duration(at.UnixMilli()*7%(37*60_000))*time.Millisecond - 10*time.Minute)
	}
}

// A budget with per allocates nothing but the text of its subject.
func TestAllocationsOfCharges(t *testing.T) {
	f := func(most float64, parameters string) {
		t.Helper()
		p := mustCompile(t, rule1("budget", parameters))
		a, dst := action(t), make([]spend.Charge, 0, 4)
		if n := testing.AllocsPerRun(100, func() { dst = p.Charges(dst[:0], a, named(spend.Spend), "key", noon) }); n > most || len(dst) != 1 {
			t.Errorf("%s: %v allocations, want %v", parameters, n, most)
		}
	}
	f(0, `{"limit":5,"currency":"USD","window":"month","time_zone":"Europe/Berlin"}`)
	f(1, `{"limit":5,"currency":"USD","window":"month","time_zone":"Europe/Berlin","per":["agent_id","counterparty"]}`)
}
