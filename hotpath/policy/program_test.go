package policy

import (
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
)

// S17: which rule sets the guard's window and is reported on a hit.
func TestDuplicateGuard(t *testing.T) {
	guardRule := func(id, minutes string) string {
		return `{"rule_id":"` + id + `","rule_type":"duplicate_guard","parameters":{"window_minutes":` + minutes + `}}`
	}
	inShop := func(id, minutes string) string {
		return strings.TrimSuffix(guardRule(id, minutes), "}") + `,"when":{"merchants":["shop"]}}`
	}
	const other = `{"rule_id":"m","rule_type":"max_amount","parameters":{"limit":1}}`
	of := spend.NewID(noon)
	f := func(window time.Duration, rule string, rules ...string) {
		t.Helper()
		p := mustCompile(t, "["+strings.Join(rules, ",")+"]")
		if p.LongestWindow() != window {
			t.Errorf("S17 %v: window %v, want %v", rules, p.LongestWindow(), window)
		}
		d := p.Duplicate(of, action(t), spend.Resolution{Type: spend.Spend, Confidence: spend.Medium})
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
	f(time.Hour, "g", inShop("s", "20"), inShop("t", "60"), inShop("u", "5"), guardRule("g", "10"))
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
