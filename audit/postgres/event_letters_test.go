package postgres

import (
	"fmt"
	"strings"
	"testing"

	"spendgate/audit"
)

// TestEventLetters has every type of events numbered by the schema, described there,
// and derived by the verifier.
func TestEventLetters(t *testing.T) {
	t.Parallel()
	schema, err := migrationFiles.ReadFile("migrations/0011_events.sql")
	if err != nil {
		t.Fatal(err)
	}
	described := strings.Join(strings.Fields(strings.ReplaceAll(string(schema), "\n-- ", "\n")), " ")
	for _, of := range audit.EventTypes() {
		letter := fmt.Sprintf("'%c'", of.Letter())
		if !strings.Contains(string(schema), letter) {
			t.Errorf("event_sources has no %s, of %s", letter, of)
		}
		if !strings.Contains(dueEvents, letter) {
			t.Errorf("dueEvents has no %s, of %s", letter, of)
		}
		if row := fmt.Sprintf(" %c %s", of.Letter(), of); !strings.Contains(described, row+",") && !strings.Contains(described, row+".") {
			t.Errorf("the comment on events does not say%s", row)
		}
	}
}
