package verify

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"spendgate/audit"
	"spendgate/bench/must"
)

// TestSourcesHaveNames has a name for what every type of events is about.
func TestSourcesHaveNames(t *testing.T) {
	t.Parallel()
	for _, of := range audit.EventTypes() {
		if int(of.Source()) >= len(sourceNames) || sourceNames[of.Source()] == nil {
			t.Errorf("what %s is about has no name", of)
		}
	}
}

// TestStrangerKnowsEventTypes has every type of events derived by verify.py.
func TestStrangerKnowsEventTypes(t *testing.T) {
	t.Parallel()
	program := string(must.Get(os.ReadFile("../../deploy/audit/verify.py"))(t))
	_, table, _ := strings.Cut(program, "\nCHANGE_EVENTS = {")
	table, _, _ = strings.Cut(table, "}")
	_, due, _ := strings.Cut(program, "    def due(self):")
	due, _, _ = strings.Cut(due, "    def removal(")
	for _, of := range audit.EventTypes() {
		if !strings.Contains(table+due, fmt.Sprintf("%q", of)) {
			t.Errorf("it does not derive %s", of)
		}
	}
}
