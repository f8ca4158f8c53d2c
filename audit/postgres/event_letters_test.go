package postgres

import (
	"fmt"
	"strings"
	"testing"

	"spendgate/audit"
	"spendgate/bench/must"
)

// TestEventLetters has every type of events numbered by the schema, described there,
// and derived by the verifier.
func TestEventLetters(t *testing.T) {
	t.Parallel()
	files := must.Get(migrationFiles.ReadDir("migrations"))(t)
	var described, numbered string // by the newest event_sources
	for _, file := range files {
		text := must.Get(migrationFiles.ReadFile("migrations/" + file.Name()))(t)
		described += strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n-- ", "\n")), " ")
		if _, begun, found := strings.Cut(string(text), "FUNCTION event_sources("); found {
			numbered, _, _ = strings.Cut(begun, "$$;")
		}
	}
	for _, of := range audit.EventTypes() {
		letter := fmt.Sprintf("'%c'", of.Letter())
		if !strings.Contains(numbered, letter) {
			t.Errorf("event_sources has no %s, of %s", letter, of)
		}
		if !strings.Contains(dueEvents, letter) {
			t.Errorf("dueEvents has no %s, of %s", letter, of)
		}
		if row := fmt.Sprintf(" %c %s", of.Letter(), of); !strings.Contains(described, row+",") && !strings.Contains(described, row+".") {
			t.Errorf("no migration describes%s", row)
		}
	}
}
