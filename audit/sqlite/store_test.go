package sqlite

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

func open(t testing.TB, path string) *Store {
	t.Helper()
	s := must.Get(Open(t.Context(), path, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(s.Close)
	return s
}

// delayExpiries is audittest.Subject.DelayExpiries.
const delayExpiries = "DROP TRIGGER approvals_update; UPDATE approvals SET expires_at = expires_at + 3600 * 1000"

func execOn(s *Store) func(*testing.T, string) error {
	return func(t *testing.T, sql string) error {
		_, err := s.writer.ExecContext(t.Context(), sql)
		return err
	}
}

func countOn(s *Store) func(*testing.T, string) int {
	return func(t *testing.T, sql string) (n int) {
		must.Do(t, s.reader.QueryRowContext(t.Context(), sql).Scan(&n))
		return n
	}
}

func TestStore(t *testing.T) {
	audittest.Run(t, func(t *testing.T) audittest.Subject {
		s := open(t, filepath.Join(t.TempDir(), "odd ?name%20#.db"))
		return audittest.Subject{
			Store:         s,
			Exec:          execOn(s),
			Count:         countOn(s),
			ExpireKeys:    "UPDATE idempotency_keys SET expires_at = expires_at - 25 * 3600 * 1000",
			DelayExpiries: delayExpiries,
			AgePayments:   "UPDATE payments SET changed_at = changed_at - 31536000000",
			Unrecorded: []string{
				"UPDATE keys SET hash = x'00'", "UPDATE keys SET grants = '{\"role\":\"full\"}'", "REPLACE INTO keys (id, hash, name, rpm, active, " +
					"created_at, last_used, generation) SELECT id, hash, 'x', rpm, active, created_at, last_used, generation FROM keys",
				"INSERT INTO keys (id, hash, name, rpm, active, created_at, last_used, generation) SELECT x'00', x'00', name, rpm, active, " +
					"created_at, last_used, generation FROM keys",
				"INSERT INTO keys (id, hash, name, rpm, active, created_at, last_used, generation) SELECT x'00', x'00', name, rpm, active, " +
					"created_at, last_used, generation + 1 FROM keys",
				"UPDATE webhooks SET url = 'x'", "UPDATE webhooks SET url = 'x', generation = generation + 1", "DELETE FROM webhooks",
				"REPLACE INTO webhooks SELECT id, 'x', event_types, active, secret_sha256, created_at, generation FROM webhooks",
				"INSERT INTO webhooks SELECT x'00', url, event_types, active, secret_sha256, created_at, generation FROM webhooks",
			},
			Forbidden: []string{
				"REPLACE INTO changes SELECT * FROM changes",
				"REPLACE INTO checks SELECT * FROM checks",
				"REPLACE INTO approvals SELECT * FROM approvals",
				"REPLACE INTO approval_uses SELECT * FROM approval_uses",
				"REPLACE INTO violations SELECT * FROM violations",
				"REPLACE INTO policies SELECT * FROM policies",
				"PRAGMA recursive_triggers = 0; REPLACE INTO checks SELECT * FROM checks",
				"PRAGMA recursive_triggers = 0; REPLACE INTO policies (rowid, policy_id, version, name, description, rules, metadata," +
					" created_at, updated_at, generation) SELECT rowid, 'other', 1, '', '', '', '', 0, 0, 0 FROM policies",
			},
		}
	})
}

func BenchmarkCommit(b *testing.B) {
	audittest.Benchmark(b, func(b *testing.B) audit.Store { return open(b, filepath.Join(b.TempDir(), "bench.db")) })
}

// TestReopen finds everything again after reopening, including the epoch and the fences.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	first := open(t, path)
	epoch := must.Get(first.Epoch(t.Context()))(t)
	node := spend.NewID(time.Now())
	must.Do(t, first.Fence(t.Context(), node))
	first.Close()
	second := open(t, path)
	if again, err := second.Epoch(t.Context()); err != nil || again != epoch {
		t.Errorf("epoch is %x, %v; was %x", again, err, epoch)
	}
	c := minimal(spend.Fence{Node: node, Epoch: epoch})
	if err := audittest.Record(t.Context(), second, c); !errors.Is(err, audit.ErrFencedNode) {
		t.Errorf("got %v, want ErrFencedNode", err)
	}
}

// The files are readable only for their owner, whatever their permissions were before.
func TestFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	files := []string{path, path + "-wal", path + "-shm"}
	for _, before := range []string{"absent", "open to all"} {
		open(t, path) // the first is open when the second begins, which leaves files as a kill does
		for _, file := range files {
			info := must.Get(os.Stat(file))(t)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %s is %v", before, file, info.Mode())
			}
			must.Do(t, os.Chmod(file, 0o666))
		}
	}
}

// TestOpenTogether starts several processes' worth of stores on a new file.
func TestOpenTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(context.Background(), path, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
}

// TestSchemaIsFrozen: the schema of a version never changes once it was released, since files have it.
func TestSchemaIsFrozen(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	made := must.Get(one(t.Context(), s.reader, "", scalar[string],
		"SELECT group_concat(sql, char(10)) FROM (SELECT sql FROM sqlite_master ORDER BY type, name)"))(t)
	is := fmt.Sprintf("%x  %d", sha256.Sum256([]byte(made)), schemaVersion)
	released := strings.Split(strings.TrimSpace(string(must.Get(os.ReadFile("testdata/schema.sha256"))(t))), "\n")
	if len(released) < schemaVersion || released[schemaVersion-1] != is {
		t.Errorf("the schema is %s; released are %q", is, released)
	}
}

// TestOtherSchema refuses a file of a build with another schema, also to what only reads.
func TestOtherSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	must.Get(s.writer.ExecContext(t.Context(), "PRAGMA user_version = 99"))(t)
	if err := s.Ping(t.Context()); err == nil {
		t.Error("Ping accepts schema 99")
	}
	if _, err := Open(t.Context(), path, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("Open accepts schema 99")
	}
	if _, err := OpenMade(t.Context(), path, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("OpenMade accepts schema 99")
	}
}

// TestBusy locks the file from outside: a commit gives up in time, with a certain outcome.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, other := open(t, path), open(t, path)
	tx := must.Get(other.writer.BeginTx(t.Context(), nil))(t)
	epoch := must.Get(s.Epoch(t.Context()))(t)
	c := minimal(spend.Fence{Epoch: epoch})
	start := time.Now()
	if err := audittest.Record(t.Context(), s, c); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if took := time.Since(start); took > 2*busyTimeout {
		t.Errorf("took %v", took)
	}
	must.Do(t, tx.Rollback())
	if err := audittest.Record(t.Context(), s, c); err != nil {
		t.Errorf("with the file free again: %v", err)
	}
}

// TestTurn holds the one writing connection: a commit waits for its turn only as long as its
// context lasts.
func TestTurn(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	tx := must.Get(s.writer.BeginTx(t.Context(), nil))(t)
	defer func() { _ = tx.Rollback() }() // nothing was written
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- audittest.Record(ctx, s, minimal(spend.Fence{})) }()
	select {
	case err := <-done:
		if !errors.Is(err, audit.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the commit waits for ever")
	}
}

// TestKilled kills a process during commits (G1): confirmed commits are there, and each batch is
// there completely or not at all.
func TestKilled(t *testing.T) {
	const variable, size = "SPENDGATE_TEST_KILLED_STORE", 5
	if path := os.Getenv(variable); path != "" {
		commitForEver(t, path, size)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	for range 3 {
		victim := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
		victim.Env = append(os.Environ(), variable+"="+path)
		out := must.Get(victim.StdoutPipe())(t)
		must.Do(t, victim.Start())
		var confirmed []spend.ID
		for lines := bufio.NewScanner(out); lines.Scan(); {
			id, err := spend.ParseID(strings.TrimSpace(lines.Text()), spend.PrefixCheck)
			if err != nil {
				t.Fatalf("the process says %q", lines.Text())
			}
			if confirmed = append(confirmed, id); len(confirmed) == 50*size {
				_ = victim.Process.Kill() // it may not have ended by itself; Wait tells
			}
		}
		_ = victim.Wait() // it was killed
		if len(confirmed) < 50*size {
			t.Fatalf("the process ended after %d checks", len(confirmed))
		}
		s := open(t, path)
		found, err := s.Checks(t.Context(), confirmed)
		if err != nil || len(found) != len(confirmed) {
			t.Errorf("%d of %d confirmed checks are there, %v", len(found), len(confirmed), err)
		}
		var rows int
		if err := s.reader.QueryRowContext(t.Context(), "SELECT count(*) FROM checks").Scan(&rows); err != nil || rows%size != 0 {
			t.Errorf("%d checks, %v: not whole batches of %d", rows, err, size)
		}
		s.Close()
	}
}

func commitForEver(t *testing.T, path string, size int) {
	s := open(t, path)
	epoch := must.Get(s.Epoch(t.Context()))(t)
	node := spend.NewID(time.Now()) // each process one of its own
	for {
		batch := make([]*spend.Check, size)
		for i := range batch {
			batch[i] = minimal(spend.Fence{Node: node, Epoch: epoch})
		}
		must.Do(t, audittest.Record(t.Context(), s, batch...))
		var lines strings.Builder
		for _, c := range batch {
			lines.WriteString(c.ID.Text(spend.PrefixCheck) + "\n")
		}
		fmt.Print(lines.String())
	}
}

func minimal(f spend.Fence) *spend.Check {
	return &spend.Check{ID: spend.NewID(time.Now()), ActionType: spend.Spend, Fence: f}
}
