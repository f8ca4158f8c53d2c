package policy

import (
	"strings"
	"testing"
	"time"

	"spendgate/hotpath/spend"
)

// S14: the first block in the policy's order, else the first escalation.
func TestPrecedence(t *testing.T) {
	const (
		escalate1 = `{"rule_id":"e1","rule_type":"escalate_if","parameters":{"amount_above":10}}`
		escalate2 = `{"rule_id":"e2","rule_type":"escalate_if","parameters":{"amount_above":20}}`
		block1    = `{"rule_id":"b1","rule_type":"max_amount","parameters":{"limit":50}}`
		block2    = `{"rule_id":"b2","rule_type":"vendor_allowlist","parameters":{"vendors":["apex"]}}`
		quiet     = `{"rule_id":"q","rule_type":"max_amount","parameters":{"limit":5000}}`
		guard     = `{"rule_id":"g","rule_type":"duplicate_guard","parameters":{"window_minutes":1}}`
		missing   = `{"rule_id":"m","rule_type":"geography_block","parameters":{"blocked_countries":["KP"],"on_missing":"escalate"}}`
		skipped   = `{"rule_id":"s","rule_type":"geography_block","parameters":{"blocked_countries":["KP"]}}`
	)
	f := func(want string, rules ...string) {
		t.Helper()
		p := mustCompile(t, "["+strings.Join(rules, ",")+"]")
		a := action(t)
		d := p.Explain(p.Evaluate(a, named(spend.Spend), noon), a, named(spend.Spend))
		if d.RuleID != want {
			t.Errorf("S14 %v: rule %q, want %q", rules, d.RuleID, want)
		}
		if want != "" && d.Confidence != spend.High {
			t.Errorf("S16 %v: confidence %v on %v", rules, d.Confidence, d.Effect)
		}
	}
	f("b1", escalate1, block1, block2)
	f("b2", block2, escalate1, block1)
	f("b2", guard, quiet, escalate1, block2)
	f("e1", quiet, escalate1, guard, escalate2)
	f("e2", escalate2, escalate1)
	f("m", missing, escalate1)
	f("e1", escalate1, missing)
	f("b1", missing, block1)
	f("e1", skipped, escalate1)
	f("b1", skipped, block1)
	f("", quiet, guard)
	f("", guard)
}

// S16: whose confidence a decision has.
func TestConfidence(t *testing.T) {
	f := func(rules string, r spend.Resolution, want spend.Confidence, options ...func(*spend.Action)) {
		t.Helper()
		a := action(t, append(options, typed(spend.Unspecified))...)
		if got := mustCompile(t, rules).Evaluate(a, r, noon); got.Confidence != want {
			t.Errorf("S16 %v of %v: confidence %v, want %v", got.Reason, r, got.Confidence, want)
		}
	}
	low := func(t spend.ActionType) spend.Resolution {
		return spend.Resolution{Type: t, Confidence: spend.Low}
	}
	medium := spend.Resolution{Type: spend.Spend, Confidence: spend.Medium}

	// Blocks and escalations: high unless they depend on the type.
	f(rule1("max_amount", `{"limit":1}`), low(spend.Spend), spend.High)
	f(rule1("max_amount", `{"limit":1000,"currency":"EUR"}`), low(spend.Spend), spend.High)
	f(rule1("blocked_categories", `{"categories":["x"]}`), low(spend.Spend), spend.High, with(t, `{"category":"x"}`))
	f(rule1("blocked_payment_rails", `{"rails":["x"]}`), low(spend.Spend), spend.High, by("x"))
	f(rule1("geography_block", `{"blocked_countries":["KP"]}`), low(spend.Spend), spend.High, with(t, `{"country":"KP"}`))
	f(rule1("geography_block", `{"blocked_countries":["KP"],"on_missing":"block"}`), low(spend.Spend), spend.High)
	f(rule1("time_restriction", `{"allowed_days":["sun"]}`), low(spend.Spend), spend.High)
	f(rule1("escalate_if", `{"amount_above":1}`), low(spend.Spend), spend.High)
	f(rule1("escalate_if", `{"amount_above":1,"action_types":["spend","refund","discount","credit","spend"]}`), low(spend.Spend), spend.High)
	f(rule1("escalate_if", `{"amount_above":1,"action_types":["spend","refund","discount"]}`), low(spend.Spend), spend.Low)
	f(rule1("vendor_allowlist", `{"vendors":["x"]}`), medium, spend.Medium)
	f(rule1("vendor_allowlist", `{"vendors":["x"]}`), named(spend.Spend), spend.High)
	f(rule1("refund_age_limit", `{"max_days":1}`), low(spend.Refund), spend.Low, with(t, `{"days_since_purchase":2}`))
	f(rule1("refund_age_limit", `{"max_days":1,"on_missing":"block"}`), low(spend.Refund), spend.Low)
	f(rule1("discount_cap", `{"max_percent":1}`), low(spend.Discount), spend.Low, with(t, `{"discount_percent":2}`))

	// Allows: the resolution's, and at most medium after a skip.
	f(rule1("max_amount", `{"limit":1000}`), named(spend.Spend), spend.High)
	f(rule1("max_amount", `{"limit":1000}`), medium, spend.Medium)
	f(rule1("geography_block", `{"blocked_countries":["KP"]}`), named(spend.Spend), spend.Medium)
	f(rule1("geography_block", `{"blocked_countries":["KP"]}`), low(spend.Spend), spend.Low)
	f(rule1("refund_age_limit", `{"max_days":1}`), named(spend.Spend), spend.High)
}

// S17: which rule sets the guard's window and is reported on a hit.
func TestDuplicateGuard(t *testing.T) {
	guardRule := func(id, minutes string) string {
		return `{"rule_id":"` + id + `","rule_type":"duplicate_guard","parameters":{"window_minutes":` + minutes + `}}`
	}
	const other = `{"rule_id":"m","rule_type":"max_amount","parameters":{"limit":1}}`
	of := spend.NewID(noon)
	f := func(window time.Duration, rule string, rules ...string) {
		t.Helper()
		p := mustCompile(t, "["+strings.Join(rules, ",")+"]")
		if p.Window() != window {
			t.Errorf("S17 %v: window %v, want %v", rules, p.Window(), window)
		}
		d := p.Duplicate(of, spend.Resolution{Type: spend.Spend, Confidence: spend.Medium})
		if d.RuleID != rule || d.Effect != spend.Block || d.Reason != spend.ReasonDuplicate || d.PolicyVersion != 7 {
			t.Errorf("S17 %v: %+v, want rule %q", rules, d, rule)
		}
		if d.Confidence != spend.Medium {
			t.Errorf("S16 guard: confidence %v, want the resolution's", d.Confidence)
		}
		if d.RuleDescription == "" || d.NextStep == "" || !strings.Contains(d.Message, of.Text(spend.PrefixCheck)) {
			t.Errorf("S14, S17: texts of %+v", d)
		}
	}
	f(5*time.Minute, "duplicate_guard", other)
	f(time.Minute, "g", guardRule("g", "1"))
	f(10080*time.Minute, "g", other, guardRule("g", "10080"))
	f(9*time.Minute, "h", guardRule("g", "3"), guardRule("h", "9.0"), other, guardRule("i", "9"), guardRule("j", "4"))
}

func TestProgramNamesItsPolicy(t *testing.T) {
	p := mustCompile(t, rule1("max_amount", `{"limit":1}`))
	if p.policyID != "desk" || p.Version() != 7 {
		t.Errorf("program of %s, version %d", p.policyID, p.Version())
	}
}

// An unresolved type would pass every rule, so judging it is a bug.
func TestUnresolvedTypeIsABug(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "BUG:") {
			t.Errorf("panic %q, want BUG:", text)
		}
	}()
	mustCompile(t, rule1("max_amount", `{"limit":1}`)).Evaluate(action(t), spend.Resolution{}, noon)
}
