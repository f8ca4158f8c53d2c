package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestMigrateTogether starts several nodes on an empty schema.
func TestMigrateTogether(t *testing.T) {
	url := fleet.TestSchema(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			must.Check(t, Migrate(context.Background(), url))
		})
	}
	wg.Wait()
	s := open(t, url, false)
	must.Check(t, s.Ping(t.Context()))
	var versions, epochs, partitions int
	must.Do(t, s.Reads.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM migrations), (SELECT count(*) FROM epoch),
		(SELECT count(*) FROM pg_inherits WHERE inhparent = 'checks'::regclass)`).Scan(&versions, &epochs, &partitions))
	if want := daysBehind + 1 + daysAhead + 1; versions != len(migrations()) || epochs != 1 || partitions != want {
		t.Errorf("%d migrations, %d epochs, %d partitions (want %d)", versions, epochs, partitions, want)
	}
}

func TestNotMigrated(t *testing.T) {
	s := open(t, fleet.TestSchema(t), false)
	if err := s.Ping(t.Context()); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("ping: got %v, want ErrUnavailable", err)
	}
	c := minimal(spend.Fence{})
	if err := audittest.Record(t.Context(), s, c); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("commit: got %v, want ErrUnavailable", err)
	}
}

// TestSearchPathMissing: Migrate says what is wrong instead of migrating another schema.
func TestSearchPathMissing(t *testing.T) {
	err := Migrate(t.Context(), with(t, fleet.TestSchema(t), "search_path", "no_such_schema"))
	if err == nil || !strings.Contains(err.Error(), "search_path") {
		t.Errorf("got %v", err)
	}
}

// TestPartitions commits to days without a partition, and makes partitions while commits continue.
// Partitions made later are immutable, too.
func TestPartitions(t *testing.T) {
	ctx := t.Context()
	s := open(t, migrated(t), true)
	f := newFence(t, s)
	later := time.Now().AddDate(0, 0, 30).UTC()
	old, future := minimal(f), minimal(f)
	old.ID = spend.NewID(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	future.ID = spend.NewID(later)
	must.Do(t, audittest.Record(ctx, s, old, minimal(f), future))
	if !recorded(t, s, old) || !recorded(t, s, future) {
		t.Error("a check beyond the partitions is not found")
	}
	if rows := count(t, s, "checks_default"); rows != 2 {
		t.Errorf("%d rows in the default partition, want 2", rows)
	}

	// Its day has rows in the default partition; the days around it have not.
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if err := audittest.Record(ctx, s, minimal(f)); err != nil {
					t.Errorf("commit amid new partitions: %v", err)
				}
			}
		}
	})
	err := s.Tidy(ctx, later)
	close(done)
	wg.Wait()
	if err == nil || !strings.Contains(err.Error(), later.Format(time.DateOnly)) {
		t.Errorf("got %v, want the day %s named", err, later.Format(time.DateOnly))
	}
	next := minimal(f)
	next.ID = spend.NewID(later.AddDate(0, 0, 1))
	must.Do(t, audittest.Record(ctx, s, next))
	part := "checks_" + later.AddDate(0, 0, 1).Format("20060102")
	if rows := count(t, s, part); rows != 1 {
		t.Errorf("%d rows in %s, want 1", rows, part)
	}
	for _, table := range []string{part, "checks_default"} {
		for _, change := range []string{"UPDATE " + table + " SET agent_id = 'x'", "DELETE FROM " + table, "TRUNCATE " + table} {
			if _, err := s.Reads.Exec(ctx, change); err == nil || !strings.Contains(err.Error(), "immutable") {
				t.Errorf("%s: got %v, want a refusal", change, err)
			}
		}
	}
}

// TestPartitionsUntil: the metric of the alert is the end of the last day before the first gap, and
// stays the same while partitions cannot be seen.
func TestPartitionsUntil(t *testing.T) {
	registry := prometheus.NewRegistry()
	s, err := Open(t.Context(), Options{URL: migrated(t), Logger: slog.New(slog.DiscardHandler), Migrate: true, Registerer: registry})
	must.Do(t, err)
	t.Cleanup(s.Close)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	tidy := func(days int) error { return s.Tidy(t.Context(), today.AddDate(0, 0, days)) }
	reaches := func(days int) {
		t.Helper()
		want := fmt.Sprintf(`# HELP spendgate_audit_partitions_until_timestamp_seconds When the last day ends that has a partition, `+
			`as Unix time; 0 until they were looked at.
# TYPE spendgate_audit_partitions_until_timestamp_seconds gauge
spendgate_audit_partitions_until_timestamp_seconds %d
`, today.AddDate(0, 0, days).Unix())
		must.Check(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "spendgate_audit_partitions_until_timestamp_seconds"))
	}

	must.Do(t, tidy(0))
	reaches(daysAhead + 1)

	stray := minimal(newFence(t, s)) // in the day after the next, which then can have no partition
	stray.ID = spend.NewID(today.AddDate(0, 0, daysAhead+2))
	must.Do(t, audittest.Record(t.Context(), s, stray))
	if err := tidy(4); err == nil {
		t.Error("a day with rows in the default partition got one of its own")
	}
	reaches(daysAhead + 2)
	if err := tidy(daysAhead + 2); err == nil { // on that very day
		t.Error("a day with rows in the default partition got one of its own")
	}
	reaches(daysAhead + 2)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Tidy(gone, today.AddDate(0, 0, 20)); err == nil {
		t.Error("tidied without a database")
	}
	reaches(daysAhead + 2)
}

func count(t *testing.T, s *Store, table string) (rows int) {
	t.Helper()
	must.Do(t, s.Reads.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&rows))
	return rows
}

// TestHorizon shows that look-ups of passes touch the partitions of the
// longest window only, and grow with it.
func TestHorizon(t *testing.T) {
	ctx := t.Context()
	s := open(t, migrated(t), true)
	f := newFence(t, s)
	now := time.Now()
	pass := func(age, window time.Duration) *spend.Check {
		c := minimal(f)
		c.ID = spend.NewID(now.Add(-age))
		c.Fingerprint = spend.HashKey(c.ID.Text(""))
		c.Pass = spend.Pass{ClaimedMS: c.ID.Time().UnixMilli(), UntilMS: c.ID.Time().Add(window).UnixMilli()}
		return c
	}
	mustReach := func(want time.Duration) {
		t.Helper()
		var ms int64
		if err := s.Reads.QueryRow(ctx, "SELECT ms FROM horizon").Scan(&ms); err != nil || ms != want.Milliseconds() {
			t.Errorf("the horizon is %d ms, %v; want %v", ms, err, want)
		}
	}
	short, jitter, week := pass(time.Minute, 5*time.Minute), pass(0, 5*time.Minute-20*time.Millisecond), pass(6*24*time.Hour, 7*24*time.Hour)
	for _, step := range []struct {
		check *spend.Check
		want  time.Duration
	}{
		{minimal(f), 0},
		{short, 5 * time.Minute},
		{jitter, 5 * time.Minute},
		{week, 7 * 24 * time.Hour},
		{pass(0, time.Minute), 7 * 24 * time.Hour},
	} {
		must.Do(t, audittest.Record(ctx, s, step.check))
		mustReach(step.want)
	}
	if guarded := count(t, s, "checks WHERE claimed_ms IS NULL AND until_ms IS NULL"); guarded != 1 {
		t.Errorf("%d checks without a pass, want 1", guarded) // those with one are in an index
	}
	live, err := s.LivePasses(ctx, []spend.Hash{short.Fingerprint, week.Fingerprint}, spend.ID{}, now.UnixMilli(), spend.Block)
	if err != nil || len(live) != 2 {
		t.Errorf("%d live, %v", len(live), err)
	}
	pages, err := s.PagePasses(ctx, spend.ID{}, now.UnixMilli(), 10)
	if err != nil || !slices.ContainsFunc(pages, func(p audit.LivePass) bool { return p.CheckID == week.ID }) {
		t.Errorf("the pass of a week ago is not among %d, %v", len(pages), err)
	}
	// Another node, which knows nothing of this, does not lower it.
	other := open(t, s.Reads.Config().ConnString(), false)
	must.Do(t, audittest.Record(ctx, other, pass(0, time.Minute)))
	mustReach(7 * 24 * time.Hour)
}

// TestPreparedCommit commits several times on one connection, also where a pooler shares
// connections and the prepared statements may be gone.
func TestPreparedCommit(t *testing.T) {
	url := migrated(t)
	open(t, url, true)
	for mode, kept := range map[string]bool{"cache_statement": true, "cache_describe": false, "describe_exec": false} {
		s, err := Open(t.Context(), Options{
			URL: with(t, url, "default_query_exec_mode", mode), Logger: slog.New(slog.DiscardHandler),
		})
		must.Do(t, err)
		t.Cleanup(s.Close)
		other := <-s.writers.idle // all commits have the connection that is left
		t.Cleanup(func() { s.writers.give(other) })
		f := newFence(t, s)
		for range 3 {
			c := minimal(f)
			if err := audittest.Record(t.Context(), s, c); err != nil || !recorded(t, s, c) {
				t.Errorf("%s: %v", mode, err)
			}
			session := <-s.writers.idle
			forget := "SELECT 1" // replaces the unnamed statement
			if !kept {
				forget = "DEALLOCATE ALL"
			}
			if session.buf, err = appendStatements(session.buf[:0], textStatement{sql: forget}); err != nil {
				t.Fatal(err)
			}
			if _, err := session.exchange(t.Context(), 0); err != nil {
				t.Error(err)
			}
			s.writers.give(session)
		}
	}
}

// TestExecModes refuses a URL by which no check could be looked up.
func TestExecModes(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol"} {
		url := "postgres://localhost/?default_query_exec_mode=" + mode
		if err := CheckURL(url); err == nil || !strings.Contains(err.Error(), "default_query_exec_mode") {
			t.Errorf("%s is checked: %v", mode, err)
		}
		if _, err := Open(t.Context(), Options{URL: url}); err == nil || !strings.Contains(err.Error(), "default_query_exec_mode") {
			t.Errorf("%s is opened: %v", mode, err)
		}
	}
}

// TestIndexes shows that the hot look-ups use theirs.
func TestIndexes(t *testing.T) {
	s := open(t, migrated(t), true)
	tx := must.Get(s.Reads.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }() // nothing was written
	must.Get(tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off"))(t)
	for index, query := range map[string]string{
		"_pkey":                 "SELECT 1 FROM checks WHERE check_id = ANY ('{00000000000000000000000000000000}')",
		"fingerprint_check_id":  "SELECT 1 FROM checks WHERE fingerprint = '' AND claimed_ms IS NOT NULL AND until_ms > 0 ORDER BY check_id DESC",
		"violations_agent_kind": "SELECT 1 FROM violations WHERE agent_id = 'a' AND action_type = 'r' AND decision = 'b' AND id < first_id(1)",
		"violations_pkey":       "SELECT 1 FROM violations ORDER BY id DESC LIMIT 1",
		"keys_generation":       "SELECT 1 FROM keys WHERE generation > 1",
		"policies_generation":   "SELECT 1 FROM policies WHERE generation > 1",
	} {
		rows := must.Get(tx.Query(t.Context(), "EXPLAIN "+query))(t)
		var plan strings.Builder
		for rows.Next() {
			var line string
			must.Do(t, rows.Scan(&line))
			plan.WriteString(line + "\n")
		}
		if rows.Err() != nil || !strings.Contains(plan.String(), index) {
			t.Errorf("%s does not use %s, %v:\n%s", query, index, rows.Err(), plan.String())
		}
	}
}

// runbookSQL returns the statement of the runbook's command in which a word is.
func runbookSQL(t *testing.T, word string) string {
	t.Helper()
	page := must.Get(os.ReadFile("../../docs/operate/runbook.md"))(t)
	found := regexp.MustCompile(`psql "\$OWNER_URL" -c "([^"]*` + word + `[^"]*)"`).FindSubmatch(page)
	if found == nil {
		t.Fatalf("the runbook has no command with %s", word)
	}
	return string(found[1])
}

// TestRunbookSQL pastes the runbook's query for the key that has a hash.
func TestRunbookSQL(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/operate/runbook.md"))(t)
	url := migrated(t)
	s := open(t, url, true)
	leaked := sha256.Sum256([]byte("svc_live_0123456789abcdef0123456789abcdef")) // the page's
	k := &audit.Key{ID: spend.NewID(time.Now()), Hash: leaked, Name: "leaked", RateLimitRPM: 1, CreatedAt: time.Now()}
	must.Do(t, s.CreateKey(t.Context(), audit.Actor{}, k))
	query := regexp.MustCompile(`psql "\$DATABASE_URL" -c "(SELECT [^"]+)"`).FindSubmatch(page)
	if query == nil {
		t.Fatal("the runbook has no query")
	}
	var id, name string
	must.Do(t, connect(t, url).QueryRow(t.Context(), string(query[1])).Scan(&id, &name))
	if id != k.ID.Text("key_") || name != k.Name {
		t.Errorf("the key is %s, %s, not %s", id, name, k.ID.Text("key_"))
	}
}
