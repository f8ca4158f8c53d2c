package sqlite

import (
	"strings"
	"testing"

	"spendgate/audit"
)

// TestEventTypes has every type of events numbered by the schema and derived by the verifier.
func TestEventTypes(t *testing.T) {
	t.Parallel()
	for _, of := range audit.EventTypes() {
		for what, text := range map[string]string{"schema.sql": schema, "strayEvents": strayEvents} {
			if !strings.Contains(text, "'"+string(of)+"'") {
				t.Errorf("%s has no %s", what, of)
			}
		}
	}
}
