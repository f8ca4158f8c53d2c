package policy

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// conditionsOf returns conditions, to be added to parameters, for the rule type that needs some.
func conditionsOf(r *RuleType) string {
	if r.Name == blockIf {
		return `,"when":{"amount_above":75}`
	}
	return ""
}

// The page for users has the rule types with their examples, which compile, and
// the compiler reads every parameter that is declared.
func TestRuleTypes(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/use/rules.md"))(t)
	table, _, _ := strings.Cut(string(page), "\n## ")
	if rows := strings.Count(table, "\n| `") - 1; rows != len(RuleTypes()) { // one is the table's head
		t.Errorf("rules.md has %d rule types", rows)
	}
	for _, r := range RuleTypes() {
		example := r.Example()
		mustCompile(t, rule1(r.Name, example+conditionsOf(&r)))
		if !strings.Contains(table, "\n| `"+r.Name+"` | `"+example+"` |") {
			t.Errorf("rules.md has no %s with the example %s", r.Name, example)
		}
		for _, p := range r.Parameters {
			if p.Text == "" || p.Example != "" && !jsontext.Value(p.Example).IsValid() {
				t.Errorf("%s of %s: text %q, example %s", p.Name, r.Name, p.Text, p.Example)
			}
			faults := faultsOf(t, rule1(r.Name, `{"`+p.Name+`":[[]]}`+conditionsOf(&r)))
			read := func(f spend.Fault) bool { return strings.HasPrefix(f.Path, "rules[0].parameters."+p.Name) }
			if f := slices.IndexFunc(faults, read); f < 0 || strings.Contains(faults[f].Problem, isRequired) {
				t.Errorf("%s of %s is not read: %v", p.Name, r.Name, faults)
			}
		}
	}
}
