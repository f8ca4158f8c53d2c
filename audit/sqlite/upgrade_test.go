package sqlite

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSchemaVersion: files are upgraded by their version, so a changed schema must have a new
// version.
func TestSchemaVersion(t *testing.T) {
	const version, sum = 4, "b0c93a2511cdac0a2b9c790fdb3af18d511b1f2d839853fc0aeb7d0c4a688896"
	statements := strings.Join(strings.Fields(regexp.MustCompile(`--[^\n]*`).ReplaceAllString(schema, "")), " ")
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(statements))); got != sum || schemaVersion != version {
		t.Errorf("schema.sql of version %d has the sum %s, and not that of version %d: raise schemaVersion, have upgrade make it of "+
			"the version before, and write both here", schemaVersion, got, version)
	}
}

// TestEarlierSchema: files of earlier schemas are upgraded when a node opens them; programs that
// only read refuse them.
func TestEarlierSchema(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	const (
		logout = "INSERT INTO session_logouts VALUES (x'01', x'02', 'i', 's', 'p', 3);"
		third  = "DROP TABLE redeemable; PRAGMA user_version = 3;"
		second = third + "CREATE INDEX checks_shadowed ON checks (policy_id, check_id) WHERE shadow IS NOT NULL; PRAGMA user_version = 2;"
		first  = second + `DROP INDEX changes_events; DROP TRIGGER events_delete;
			CREATE TRIGGER events_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are immutable'); END;
			PRAGMA user_version = 1;`
	)
	for name, earlier := range map[string]string{
		"0.1.0": first + `DROP TABLE session_logouts;
			CREATE TABLE session_logouts (token BLOB PRIMARY KEY, request BLOB NOT NULL) STRICT, WITHOUT ROWID;
			INSERT INTO session_logouts VALUES (x'01', x'02');`,
		"later":    first + logout,
		"schema 2": second + logout,
		"schema 3": third + logout,
	} {
		path := filepath.Join(t.TempDir(), "store.db")
		s := open(t, path)
		_, err := s.writer.ExecContext(t.Context(), earlier)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, err := OpenMade(t.Context(), path, log); err == nil {
			t.Errorf("%s: what only reads opens it", name)
		}
		open(t, path).Close()
		if s, err = OpenMade(t.Context(), path, log); err != nil {
			t.Fatalf("%s, upgraded: %v", name, err)
		}
		snapshot, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found, made, err := snapshot.Schema(t.Context())
		if err != nil || len(found) != len(made) {
			t.Fatalf("%s: %d objects, %v; want %d", name, len(found), err, len(made))
		}
		for i := range made {
			if found[i] != made[i] {
				t.Errorf("%s: it has\n%q, want\n%q", name, found[i], made[i])
			}
		}
		snapshot.Close()
		var kept int
		err = s.reader.QueryRowContext(t.Context(), "SELECT count(*) FROM session_logouts WHERE token = x'01' AND request = x'02'").Scan(&kept)
		if err != nil || kept != 1 {
			t.Errorf("%s: %d logouts are kept, %v", name, kept, err)
		}
		s.Close()
	}
}
