package policy

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

var draws = flag.Int("draws", 400, "how many policies TestEvaluateAgainstPlain draws with each seed")

// Evaluate against the plain evaluator, over random policies and actions whose
// values are drawn so that they meet each other's limits often. A failure
// prints its seed; put it into seeds to see it again.
func TestEvaluateAgainstPlain(t *testing.T) {
	seeds := []uint64{1, 2, 3, uint64(time.Now().UnixNano())}
	tally, budgets := make(map[spend.Reason]int), budgetCases{}
	for _, seed := range seeds {
		draw := drawer{rand.New(rand.NewPCG(seed, 0))}
		for range *draws {
			rules := draw.policy()
			var texts []string
			for _, r := range rules {
				texts = append(texts, r.json())
			}
			p := mustCompile(t, "["+strings.Join(texts, ",")+"]")
			var former charged
			for range 20 {
				a, r, now := draw.action(t)
				wantWindow, guardRule := plainWindow(rules, a, r.Type)
				window, _ := p.Guard(a, r.Type)
				if d := p.Duplicate(spend.ID{}, a, r); window != wantWindow || d.RuleID != guardRule {
					t.Fatalf("seed %d: S17 window %v of %q, want %v of %q: %s", seed, window, d.RuleID, wantWindow, guardRule, texts)
				}
				f := p.Evaluate(a, r, now)
				d := p.Explain(f, a, r)
				got := plainFinding{d.Effect, d.Reason, d.RuleID, d.Confidence}
				want := plainEvaluate(rules, a, r, now)
				if got != want {
					t.Fatalf("seed %d: got %+v, want %+v\nrules  %s\naction %+v as %+v at %v", seed, got, want, texts, a, r, now)
				}
				if problem := decisionProblem(f, d); problem != "" {
					t.Fatalf("seed %d: %s: %+v", seed, problem, d)
				}
				tally[d.Reason]++
				if !p.HasBudgets() {
					continue
				}
				by := asked{a, r.Type, draw.of("till", "TILL", "bot")}
				f, problem := draw.budgetDiffers(t, p, rules, by, r, f, want, &former, &budgets)
				if d = p.Explain(f, a, r); problem == "" {
					problem = decisionProblem(f, d)
				}
				if problem != "" {
					t.Fatalf("seed %d: %s\nrules  %s\naction %+v as %+v", seed, problem, texts, a, r)
				}
				tally[d.Reason]++
			}
		}
	}
	// A generator that never meets a rule would prove nothing.
	for _, reason := range []spend.Reason{
		"", spend.ReasonMaxAmount, spend.ReasonCurrencyNotCovered, spend.ReasonRefundAge, spend.ReasonBlockedCategory,
		spend.ReasonVendorNotOnAllowlist, spend.ReasonBlockedPaymentRail, spend.ReasonDiscountCap, spend.ReasonBlockedGeography,
		spend.ReasonTimeRestriction, spend.ReasonEscalationThreshold, spend.ReasonRequiredContextMissed, spend.ReasonConditionMet,
		spend.ReasonBudgetExceeded, spend.ReasonCountLimitExceeded,
	} {
		if tally[reason] < 100 {
			t.Errorf("reason %q was drawn %d times only", reason, tally[reason])
		}
	}
	if n := budgets; min(n.raised, n.reached, n.together, n.apart) < 100 {
		t.Errorf("drawn of budgets: %+v", n)
	}
	t.Logf("%d actions judged; %+v", len(seeds)**draws*20, budgets)
}

// decisionProblem returns what is wrong with a decision, whatever the policy is.
func decisionProblem(f Finding, d spend.Decision) string {
	allowed := d.Effect == spend.Allow
	switch {
	case f.Effect != d.Effect || f.Reason != d.Reason || f.Confidence != d.Confidence:
		return "Explain changed the finding"
	case d.Message == "" || d.NextStep == "":
		return "S15: message or next step missing"
	case allowed && (d.Reason != "" || d.RuleID != "" || d.RuleDescription != ""):
		return "S15: an allow names a rule"
	case !allowed && (d.Reason == "" || d.RuleID == "" || d.RuleDescription == ""):
		return "S14: rule, reason or description missing"
	}
	return ""
}

// drawer draws policies and actions.
type drawer struct{ *rand.Rand }

func (d drawer) of(values ...string) string { return values[d.IntN(len(values))] }

// some draws one to four of the values, nil now and then.
func (d drawer) some(values ...string) []string {
	var drawn []string
	for range 1 + d.IntN(4) {
		drawn = append(drawn, d.of(values...))
	}
	return drawn
}

func (d drawer) maybe(list []string) []string {
	if d.IntN(3) == 0 {
		return nil
	}
	return list
}

func (d drawer) amount() string {
	return d.of("0", "0.01", "99.99", "100", "1e2", "100.000000001", "500.00", "5e2", "501", "999999999999999998", "999999999999999999")
}

func (d drawer) name() string {
	return d.of("card", "Card", " card", "wire", "WIRE", "ſo", "so", "SO", "straße", "STRASSE", "дом", "ДОМ", strings.Repeat("ä", 60),
		strings.Repeat("Ä", 60))
}

func (d drawer) clock() string { return fmt.Sprintf("%02d:%02d", d.IntN(24), d.IntN(60)) }

func (d drawer) hours() string {
	from, until := d.clock(), d.of("24:00", "00:00", d.clock(), d.clock())
	if from == until {
		return "00:00-24:00"
	}
	return from + "-" + until
}

// policy draws one to eight rules, now and then many of one type.
func (d drawer) policy() []plainRule {
	var rules []plainRule
	only := d.IntN(4 * len(ruleTypes)) // mostly none
	for i := range 1 + d.IntN(8) {
		k := ruleTypes[d.IntN(len(ruleTypes))]
		if only < len(ruleTypes) {
			k = ruleTypes[only]
		} else if d.IntN(6) == 0 {
			k = *Type("budget")
		}
		r := plainRule{id: "r" + strconv.Itoa(i), ruleType: k.Name}
		r.when = d.when(k.Name == duplicateGuard)
		for k.Name == blockIf && r.when == nil {
			r.when = d.when(false)
		}
		if indexOf(k.Parameters, paramOnMissing) >= 0 && k.Name != "budget" {
			r.onMissing = d.of("", "", "skip", "block", "escalate")
		}
		rules = append(rules, d.parameters(r))
	}
	return rules
}

func (d drawer) parameters(r plainRule) plainRule {
	switch r.ruleType {
	case "max_amount":
		r.number, r.text = d.amount(), d.of("", "USD", "usd", "EUR", "gbp")
	case "refund_age_limit":
		r.number = d.of("0", "30", "31.0", "3e1")
	case "blocked_categories", "blocked_payment_rails":
		r.list = d.some(d.name(), d.name(), d.name())
	case "vendor_allowlist":
		r.list = d.some("acme", "Acme", "apex")
	case "discount_cap":
		r.number = d.of("0", "20", "20.5", "1e2")
	case "geography_block":
		r.list = d.some("KP", "kp", "IR", "us", "gb", "GR")
	case "time_restriction":
		r.list, r.text = d.maybe(d.some(dayNames[:]...)), d.of("", d.hours(), d.hours())
		if r.list == nil && r.text == "" {
			r.text = d.hours()
		}
		r.zone = d.of("", "", "", "", "", "", "Europe/Berlin", "America/St_Johns")
	case "duplicate_guard":
		r.number = d.of("1", "5", "10", "10.0", "10080")
	case "budget":
		r = d.budget(r)
	case "block_if":
	case "escalate_if":
		if r.number = d.amount(); plainNumber(r.number).Cmp(plainNumber("600")) < 0 {
			r.upTo = d.of("", "600", "6000e-1")
		}
		if r.when != nil && d.IntN(2) == 0 {
			r.number = ""
		}
		r.list = d.maybe(d.some("refund", "credit", "discount", "spend"))
		if d.IntN(4) == 0 {
			r.list = []string{"spend", "refund", "spend", "discount", "credit"}
		}
	default:
		panic("BUG: no parameters are drawn for rule type " + r.ruleType)
	}
	return r
}

func (d drawer) action(t *testing.T) (*spend.Action, spend.Resolution, time.Time) {
	t.Helper()
	metadata := []string{}
	drawn := map[string][]string{
		"days_since_purchase": {"0", "30", "31", "32"}, "discount_percent": {"0", "20", "20.5", "20.500000001", "150"},
		"country": {`"kp"`, `"US"`, `"DE"`, `"uk"`, `"GB"`, `"EL"`}, "category": {strconv.Quote(d.name())},
		"tier": {`"gold"`, `"5"`, `5`, `5.0`, `50e-1`, `true`, `false`, `null`, `" "`, `{"a":5}`, `[5]`, `"caf\u00e9"`, `"café"`, `"silver"`},
		"n":    {`5`, `-1`, `-0.6`, `4.999`, `1000`, `999.9`, `1e300`, `0`, `"5"`, `true`, `5.00001`},
	}
	for _, key := range slices.Sorted(maps.Keys(drawn)) { // a seed draws the same again
		if d.IntN(3) > 0 {
			metadata = append(metadata, strconv.Quote(key)+":"+d.of(drawn[key]...))
		}
	}
	a := &spend.Action{
		Amount: mustAmount(t, d.amount()), Currency: d.of("USD", "EUR", "GBP", "CHF"), Counterparty: d.of("acme", "Acme", "apex", "other"),
		AgentID: d.of("agent-1", "caf\u00e9", "cafe\u0301"),
	}
	if d.IntN(3) > 0 {
		a.PaymentMethod = d.name()
	}
	if d.IntN(3) > 0 {
		a.MerchantOrVendor = d.of("shop", "Shop", "café", "café")
	}
	if d.IntN(2) > 0 {
		a.ReasonText = "because"
	}
	var faults spend.Faults
	a.Metadata = spend.ParseMetadata(jsontext.Value("{"+strings.Join(metadata, ",")+"}"), "metadata", &faults)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	r := named(spend.ActionTypes[d.IntN(4)])
	if a.Type = r.Type; d.IntN(2) == 0 {
		a.Type, r.Confidence = spend.Unspecified, spend.Confidence(d.IntN(3))
	}
	if d.IntN(3) == 0 { // about when clocks are changed
		change := []time.Time{
			time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC),
			time.Date(2026, 3, 8, 5, 30, 0, 0, time.UTC), time.Date(2026, 11, 1, 4, 30, 0, 0, time.UTC),
		}[d.IntN(4)]
		return a, r, change.Add(time.Duration(d.IntN(6*3600)-3*3600) * time.Second)
	}
	now := time.Date(2026, 1, 1, d.IntN(24), d.IntN(60), d.IntN(60), 0, time.UTC).AddDate(0, 0, d.IntN(60))
	return a, r, now.In(time.FixedZone("", 3600*(d.IntN(25)-12)))
}
