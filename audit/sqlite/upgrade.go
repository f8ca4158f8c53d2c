package sqlite

import (
	"database/sql"
	"fmt"
	"strings"
)

// deleteOfEvents refuses deletions of events whose removal is not recorded.
const deleteOfEvents = "CREATE TRIGGER events_delete BEFORE DELETE ON events WHEN OLD.sequence > " + eventsFloor +
	" BEGIN SELECT RAISE(ABORT, 'events are immutable'); END;"

// upgrade changes an earlier schema into that of this build.
func upgrade(tx *sql.Tx, version int) error {
	statements := []string{
		"DROP INDEX IF EXISTS checks_shadowed", made("CREATE TABLE redeemable"), made("INSERT INTO redeemable"),
		fmt.Sprint("PRAGMA user_version = ", schemaVersion),
	}
	if version == 1 {
		second, err := toSecond(tx)
		if err != nil {
			return err
		}
		statements = append(second, statements...)
	}
	for _, statement := range statements {
		if _, err := tx.Exec(statement); err != nil {
			return fmt.Errorf("cannot upgrade schema %d: %w", version, err)
		}
	}
	return nil
}

// toSecond changes schema 1 into schema 2. In files of schema 1, logouts may lack the subject that
// they meant: such logouts mean nobody, but still count as received.
func toSecond(tx *sql.Tx) ([]string, error) {
	statements := []string{
		"DROP INDEX IF EXISTS changes_events", made("CREATE INDEX changes_events"), "DROP TRIGGER IF EXISTS events_delete", deleteOfEvents,
	}
	columns, err := scalar[int](tx.QueryRow("SELECT count(*) FROM pragma_table_info('session_logouts')"))
	switch {
	case err != nil:
		return nil, err
	case columns == 2:
		statements = append(statements, "ALTER TABLE session_logouts RENAME TO earlier_logouts", made("CREATE TABLE session_logouts"),
			"INSERT INTO session_logouts SELECT token, request, '', '', '', 0 FROM earlier_logouts", "DROP TABLE earlier_logouts")
	case columns != 6:
		return nil, fmt.Errorf("cannot upgrade schema 1: session_logouts has %d columns, which no build that was published made", columns)
	}
	return statements, nil
}

// made returns the statement of the schema with a beginning.
func made(beginning string) string {
	_, rest, _ := strings.Cut(schema, beginning)
	rest, _, _ = strings.Cut(rest, ";")
	return beginning + rest
}
