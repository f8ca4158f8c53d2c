package verify

import (
	"testing"

	"spendgate/audit"
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
