package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/audittest"
	"spendgate/audit/postgres/snapshot"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// A database in which there is no trail is told as such.
func TestSnapshotOfAnEmptyDatabase(t *testing.T) {
	s, err := snapshot.Open(t.Context(), fleet.TestSchema(t), 1)
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "there is no table") || !strings.Contains(err.Error(), "`spendgate migrate`") {
		t.Error(err)
	}
}

// TestMigrationsAreFrozen: a migration that was released never changes, since databases that have had it do not
// have it again. testdata/migrations.sha256 has the hashes of all that were.
func TestMigrationsAreFrozen(t *testing.T) {
	list := must.Get(os.ReadFile("testdata/migrations.sha256"))(t)
	names := must.Get(migrationFiles.ReadDir("migrations"))(t)
	var are []string
	for i, text := range migrations() {
		are = append(are, fmt.Sprintf("%x  %s", sha256.Sum256([]byte(text)), names[i].Name()))
	}
	if name, changed := firstChanged(strings.Split(string(list), "\n"), are); changed {
		t.Errorf("%s is another than was released", name)
	}
	other := append(slices.Clone(are), "0123  9001_next.sql")
	for what, released := range map[string][]string{"unchanged": are, "a new one": are[:len(are)-1], "none released": nil, "removed": other} {
		if name, changed := firstChanged(released, are); changed != (what == "removed") {
			t.Errorf("%s: %q", what, name)
		}
	}
	if name, changed := firstChanged(are, slices.Concat([]string{"0123  0001_common.sql"}, are[1:])); !changed || name != "0001_common.sql" {
		t.Errorf("a change of 0001_common.sql: %q", name)
	}
}

// firstChanged returns the first released migration that is another now, or is not there. Lines have a hash and a name.
func firstChanged(released, are []string) (name string, changed bool) {
	for i, line := range released {
		if line != "" && (i >= len(are) || are[i] != line) {
			return strings.Fields(line)[1], true
		}
	}
	return "", false
}

// TestMigrationGivesWay: a migration that waits for a table which someone reads for long does not
// make the commits wait behind it, and holds no lock of the migration before, for which the reader
// could wait (G11).
func TestMigrationGivesWay(t *testing.T) {
	ctx := t.Context()
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	reader, observer := connect(t, url), connect(t, url)
	must.Get(reader.Exec(ctx, "BEGIN; SELECT count(*) FROM checks"))(t)
	next := append(slices.Clone(migrations()), "ALTER TABLE outcomes ADD COLUMN more text", "ALTER TABLE checks ADD COLUMN more text")
	done := make(chan error, 1)
	go func() { done <- migrate(context.WithoutCancel(ctx), s.Reads.Config().ConnConfig, next) }()
	for range 2 { // it comes back
		for waits := false; !waits; {
			if len(done) > 0 {
				t.Fatalf("the migration ended while the table was in use: %v", <-done)
			}
			must.Do(t, observer.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+fleet.TestLocks+`
				WHERE relation = 'checks'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted)`).Scan(&waits))
		}
		if _, err := observer.Exec(ctx, "BEGIN; LOCK TABLE outcomes IN ACCESS SHARE MODE NOWAIT; COMMIT"); err != nil {
			t.Fatalf("the table of the migration before: %v", err)
		}
		for range 5 {
			if err := audittest.Record(ctx, s, minimal(f)); err != nil {
				t.Fatalf("a commit amid a migration that waits: %v", err)
			}
		}
	}
	must.Get(reader.Exec(ctx, "COMMIT"))(t)
	must.Do(t, <-done)
	if rows := count(t, s, "migrations"); rows != len(next) {
		t.Errorf("%d migrations, want %d", rows, len(next))
	}
	if err := audittest.Record(ctx, s, minimal(f)); err != nil {
		t.Errorf("a commit of the version before: %v", err)
	}
	if err := s.Ping(ctx); err != nil {
		t.Errorf("a schema that is newer than the node: %v", err)
	}
}

// TestMigrationOutlastsVacuum: a vacuum is waited for in its own mode, for which autovacuum gives the
// table up and behind which no commit queues; one that goes on keeps no migration of other tables.
func TestMigrationOutlastsVacuum(t *testing.T) {
	ctx := t.Context()
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	vacuum, other, observer := connect(t, url), connect(t, url), connect(t, url)
	for conn, table := range map[*pgx.Conn]string{vacuum: "checks", other: "webhooks"} {
		must.Get(conn.Exec(ctx, "BEGIN; LOCK TABLE "+table+" IN SHARE UPDATE EXCLUSIVE MODE"))(t)
	}
	next := append(slices.Clone(migrations()), "ALTER TABLE checks ADD COLUMN more text")
	done := make(chan error, 1)
	go func() { done <- migrate(context.WithoutCancel(ctx), s.Reads.Config().ConnConfig, next) }()
	if mode := fleet.TestWaits(t, observer, "checks"); mode != "ShareUpdateExclusiveLock" {
		t.Errorf("the migration waits for %q", mode)
	}
	if err := audittest.Record(ctx, s, minimal(f)); err != nil {
		t.Errorf("a commit amid a migration that waits for a vacuum: %v", err)
	}
	must.Get(vacuum.Exec(ctx, "COMMIT"))(t)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
