package policy

import (
	"strings"
	"testing"

	"spendgate/audit/spend"
)

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
