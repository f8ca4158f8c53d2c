// Package policies_test holds the ready policies to what their comments say.
package policies_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/cmd/spendgate/policyfile"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/spend"
)

type readyPolicy struct {
	PolicyID    string            `json:"policy_id"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Rules       json.RawMessage   `json:"rules"`
	Metadata    map[string]string `json:"metadata"`
}

// readyPolicies reads and compiles every policy of the folder.
func readyPolicies(t *testing.T) (map[string]readyPolicy, map[string]*policy.Program) {
	t.Helper()
	files, err := policyfile.Read(".", nil)
	if err != nil {
		t.Fatal(err)
	}
	sources, programs := make(map[string]readyPolicy), make(map[string]*policy.Program)
	for _, file := range files {
		var p readyPolicy
		if err := json.Unmarshal(file.Body, &p); err != nil {
			t.Fatalf("%s: %v", file.Source, err)
		}
		if file.Source != p.PolicyID+".yaml" {
			t.Errorf("%s holds policy %q", file.Source, p.PolicyID)
		}
		var faults spend.Faults
		program := policy.Compile(p.PolicyID, 1, string(p.Rules), &faults)
		if program == nil {
			t.Fatalf("%s: %v", file.Source, faults)
		}
		sources[p.PolicyID], programs[p.PolicyID] = p, program
	}
	return sources, programs
}

// The four policies use all ten rule types, and each is documented.
func TestReadyPoliciesShowEveryRuleType(t *testing.T) {
	sources, _ := readyPolicies(t)
	shown := make(map[string]bool)
	for _, id := range []string{"refund-desk", "discounts", "procurement", "employee-expenses"} {
		p := sources[id]
		if p.Name == "" || p.Description == "" {
			t.Errorf("%s: name %q, description %q", id, p.Name, p.Description)
		}
		var rules []struct {
			RuleID      string `json:"rule_id"`
			RuleType    string `json:"rule_type"`
			Description string `json:"description"`
		}
		if err := json.Unmarshal(p.Rules, &rules); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		for _, r := range rules {
			shown[r.RuleType] = true
			if r.Description == "" {
				t.Errorf("%s: rule %s has no description", id, r.RuleID)
			}
		}
	}
	if len(shown) != 10 {
		t.Errorf("%d rule types shown, want 10: %v", len(shown), shown)
	}
}

type example struct {
	policyID   string
	actionType spend.ActionType
	amount     string
	currency   string
	to, by     string
	metadata   string
	effect     spend.Effect
	rule       string // that is reported
}

var examples = []example{
	{"refund-desk", spend.Refund, "40", "USD", "c-1", "card", `{"days_since_purchase":12}`, spend.Allow, ""},
	{"refund-desk", spend.Refund, "200", "EUR", "c-1", "", `{"days_since_purchase":30}`, spend.Allow, ""},
	{"refund-desk", spend.Credit, "25", "USD", "c-1", "", `{}`, spend.Allow, ""},
	{"refund-desk", spend.Refund, "350", "USD", "c-1", "", `{"days_since_purchase":12}`, spend.Escalate, "review-refunds"},
	{"refund-desk", spend.Refund, "40", "USD", "c-1", "", `{}`, spend.Escalate, "return-window"},
	{"refund-desk", spend.Credit, "75", "USD", "c-1", "", `{}`, spend.Escalate, "review-credits"},
	{"refund-desk", spend.Spend, "5", "USD", "c-1", "", `{}`, spend.Escalate, "not-our-business"},
	{"refund-desk", spend.Refund, "600", "USD", "c-1", "", `{"days_since_purchase":12}`, spend.Block, "cap-usd"},
	{"refund-desk", spend.Refund, "40", "USD", "c-1", "", `{"days_since_purchase":45}`, spend.Block, "return-window"},
	{"refund-desk", spend.Refund, "40", "CHF", "c-1", "", `{"days_since_purchase":5}`, spend.Block, "cap-usd"},

	{"discounts", spend.Discount, "80", "USD", "c-1", "", `{"discount_percent":15,"category":"shoes"}`, spend.Allow, ""},
	{"discounts", spend.Discount, "80", "USD", "c-1", "", `{"discount_percent":20}`, spend.Allow, ""},
	{"discounts", spend.Discount, "300", "USD", "c-1", "", `{"discount_percent":15}`, spend.Escalate, "review-large"},
	{"discounts", spend.Refund, "3", "USD", "c-1", "", `{}`, spend.Escalate, "discounts-only"},
	{"discounts", spend.Discount, "80", "USD", "c-1", "", `{"discount_percent":35}`, spend.Block, "cap-percent"},
	{"discounts", spend.Discount, "80", "USD", "c-1", "", `{}`, spend.Block, "cap-percent"},
	{"discounts", spend.Discount, "80", "USD", "c-1", "", `{"discount_percent":5,"category":"Gift_Cards"}`, spend.Block, "fixed-prices"},
	{"discounts", spend.Discount, "1500", "USD", "c-1", "", `{"discount_percent":5}`, spend.Block, "cap-usd"},

	{"procurement", spend.Spend, "420", "USD", "github", "card", `{"country":"US"}`, spend.Allow, ""},
	{"procurement", spend.Spend, "4200", "USD", "dell", "ach", `{"country":"US"}`, spend.Escalate, "review-purchases"},
	{"procurement", spend.Spend, "420", "USD", "github", "", `{"country":"US"}`, spend.Escalate, "rails"},
	{"procurement", spend.Refund, "420", "USD", "github", "card", `{}`, spend.Escalate, "purchases-only"},
	{"procurement", spend.Spend, "420", "USD", "acme", "card", `{"country":"US"}`, spend.Block, "approved-vendors"},
	{"procurement", spend.Spend, "420", "USD", "github", "Crypto", `{"country":"US"}`, spend.Block, "rails"},
	{"procurement", spend.Spend, "420", "USD", "github", "card", `{"country":"ir"}`, spend.Block, "sanctions"},
	{"procurement", spend.Spend, "12000", "EUR", "dell", "ach", `{"country":"IE"}`, spend.Block, "cap-eur"},

	{"employee-expenses", spend.Spend, "64.50", "EUR", "hotel", "card", `{"category":"travel","country":"DE"}`, spend.Allow, ""},
	{"employee-expenses", spend.Spend, "640", "GBP", "hotel", "card", `{"category":"travel","country":"GB"}`, spend.Escalate, "review-large"},
	{"employee-expenses", spend.Spend, "64.50", "EUR", "hotel", "card", `{"country":"DE"}`, spend.Escalate, "private"},
	{"employee-expenses", spend.Spend, "64.50", "EUR", "casino", "card", `{"category":"Gambling","country":"DE"}`, spend.Block, "private"},
	{"employee-expenses", spend.Spend, "64.50", "EUR", "hotel", "wire", `{"category":"travel"}`, spend.Block, "rails"},
	{"employee-expenses", spend.Spend, "2500", "USD", "hotel", "card", `{"category":"travel"}`, spend.Block, "cap-usd"},
}

// The policies decide as they are described, at any time of the week.
func TestReadyPoliciesDecide(t *testing.T) {
	_, programs := readyPolicies(t)
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	decided := make(map[string][]spend.Effect)
	for _, e := range examples {
		amount, err := spend.ParseAmount(e.amount)
		if err != nil {
			t.Fatal(err)
		}
		var faults spend.Faults
		a := &spend.Action{
			Type: e.actionType, Amount: amount, Currency: e.currency, Counterparty: e.to, PaymentMethod: e.by,
			Metadata: spend.ParseMetadata(jsontext.Value(e.metadata), "metadata", &faults),
		}
		p, r := programs[e.policyID], spend.Resolution{Type: e.actionType, Confidence: spend.High}
		if len(faults) > 0 || p == nil {
			t.Fatalf("%+v: program %v, faults %v", e, p, faults)
		}
		for hour := range 7 * 24 {
			d := p.Explain(p.Evaluate(a, r, monday.Add(time.Duration(hour)*time.Hour)), a, r)
			if d.Effect != e.effect || d.RuleID != e.rule {
				t.Fatalf("%+v: %v by %q: %s", e, d.Effect, d.RuleID, d.Message)
			}
		}
		decided[e.policyID] = append(decided[e.policyID], e.effect)
	}
	for id := range programs {
		for _, effect := range []spend.Effect{spend.Allow, spend.Block, spend.Escalate} {
			if !slices.Contains(decided[id], effect) {
				t.Errorf("%s: no example of %v", id, effect)
			}
		}
	}
}
