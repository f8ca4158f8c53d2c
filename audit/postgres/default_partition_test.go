package postgres

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// rowsOf are all checks as text, with where they lie.
func rowsOf(t *testing.T, s *Store, table string) []string {
	t.Helper()
	return texts(t, s.Reads, "SELECT c::text FROM "+table+" AS c ORDER BY check_id")
}

// TestDefaultPartition: rows in the default partition show in a metric. The runbook's command moves
// them into partitions of their days and changes none of them.
func TestDefaultPartition(t *testing.T) {
	ctx := t.Context()
	registry := prometheus.NewRegistry()
	url := migrated(t)
	s := must.Get(Open(ctx, Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: true, Registerer: registry}))(t)
	t.Cleanup(s.Close)
	mustShow := func(want string) {
		t.Helper()
		must.Do(t, s.Tidy(ctx, time.Now()))
		want = "# HELP spendgate_audit_default_partition_occupied 1 when checks lie in the default partition, " +
			"which should be empty; looked at every 10 minutes.\n" +
			"# TYPE spendgate_audit_default_partition_occupied gauge\nspendgate_audit_default_partition_occupied " + want + "\n"
		must.Check(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "spendgate_audit_default_partition_occupied"))
	}
	mustShow("0")

	f := newFence(t, s)
	var misplaced []*spend.Check
	for _, at := range []time.Time{
		time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2001, 1, 1, 23, 59, 59, 999e6, time.UTC),
		time.Date(2001, 1, 2, 0, 0, 0, 0, time.UTC), time.Now().AddDate(3, 0, 0), time.UnixMilli(0),
	} {
		c := minimal(f)
		c.ID = spend.NewID(at)
		c.Action.Amount, _ = spend.ParseAmount("1.50")
		misplaced = append(misplaced, c)
	}
	ordinary := minimal(f)
	must.Do(t, audittest.Record(ctx, s, append(misplaced, ordinary)...))
	before := rowsOf(t, s, "checks")
	mustShow("1")

	command := runbookSQL(t, "empty_default_partition")
	moved := ""
	results, err := connect(t, url).PgConn().Exec(ctx, command).ReadAll() // as psql does
	for _, r := range results {
		for _, row := range r.Rows {
			moved += string(row[0])
		}
	}
	if err != nil || moved != strconv.Itoa(len(misplaced)) {
		t.Fatalf("%s moved %q, %v", command, moved, err)
	}
	mustShow("0")
	if after := rowsOf(t, s, "checks"); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("rows are now\n%s\nwere\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	if n := count(t, s, "checks_20010101"); n != 2 {
		t.Errorf("%d rows of the first day, want 2", n)
	}
	// The default partition takes such rows as before, everything is immutable, and nothing is left
	// behind.
	again := minimal(f)
	again.ID = spend.NewID(time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC))
	must.Do(t, audittest.Record(ctx, s, again))
	mustShow("1")
	for _, table := range []string{"checks", "checks_20010101", "checks_default"} {
		for _, change := range []string{"UPDATE " + table + " SET agent_id = 'x'", "DELETE FROM " + table, "TRUNCATE " + table} {
			if _, err := s.Reads.Exec(ctx, change); err == nil || !strings.Contains(err.Error(), "immutable") {
				t.Errorf("%s: got %v, want a refusal", change, err)
			}
		}
	}
	if n := count(t, s, "pg_class WHERE relname = 'unpartitioned' AND relnamespace = quote_ident(current_schema())::regnamespace"); n != 0 {
		t.Error("the old default partition is still there")
	}
}

// TestRowsThatCannotMove: a day that exists only as an archive takes no row, and a failed command
// leaves everything as it was.
func TestRowsThatCannotMove(t *testing.T) {
	ctx := t.Context()
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	misplaced := minimal(f)
	misplaced.ID = spend.NewID(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	must.Do(t, audittest.Record(ctx, s, misplaced))
	// A table that stands where the day's partition would.
	statement(t, url, "CREATE TABLE checks_20010101 ()")
	if _, err := s.Reads.Exec(ctx, "SELECT empty_default_partition()"); err == nil || !strings.Contains(err.Error(), "were not moved") {
		t.Errorf("got %v", err)
	}
	if n := count(t, s, "checks_default"); n != 1 || !recorded(t, s, misplaced) {
		t.Errorf("%d rows in the default partition after a move that failed", n)
	}

	statement(t, url, `INSERT INTO archived_days VALUES ('2002-02-02', 1, '\x00')`)
	late := minimal(f)
	late.ID = spend.NewID(time.Date(2002, 2, 2, 12, 0, 0, 0, time.UTC))
	if err := audittest.Record(ctx, s, late); err == nil || !strings.Contains(err.Error(), "archived") {
		t.Errorf("a check of an archived day is answered %v", err)
	}
}
