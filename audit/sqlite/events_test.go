package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"spendgate/audit"
	"spendgate/bench/must"
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

// TestEventsAreMatchedByIndexes reads no table once for each row of another: a record of many events would not be verified.
func TestEventsAreMatchedByIndexes(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "plan.db"))
	for name, query := range map[string]string{"events": selectEvents(), "stray events": strayEvents} {
		must.Do(t, each(t.Context(), s.reader, "cannot read a plan", func(row scanner) error {
			var id, parent, unused int
			var step string
			err := row.Scan(&id, &parent, &unused, &step)
			if strings.HasPrefix(step, "SCAN") && strings.Contains(step, "JOIN") {
				t.Errorf("%s: %s", name, step)
			}
			return err
		}, "EXPLAIN QUERY PLAN "+query, 0))
	}
}
