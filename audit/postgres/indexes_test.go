package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// impatient is the configuration of a node's sessions, in which a timeout is
// short.
func impatient(t *testing.T, url, timeout string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := prepareSession(ctx, conn); err != nil {
			return err
		}
		return conn.Exec(ctx, "SET "+timeout+" = '200ms'").Close()
	}
	return config
}

func connectNode(t *testing.T, config *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), config.Copy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// makeUntil makes the indexes and comes back when a statement of that waits for
// a lock. The outcome follows.
func makeUntil(t *testing.T, url string, conn *pgx.Conn, config *pgx.ConnConfig, statement string) <-chan error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- makeIndexes(ctx, conn, config) }()
	waitFor(t, url, statement+" to wait", fmt.Sprintf(`SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE pid = %d AND wait_event_type = 'Lock' AND query LIKE '%s%%')`, conn.PgConn().PID(), statement))
	return done
}

// TestIndexThatTakesLong: while a node makes an index no other one begins, also
// once the transaction that tells them has been idle for longer than one may be.
func TestIndexThatTakesLong(t *testing.T) {
	url := database(t)
	open(t, url, true)
	statement(t, url, "DROP INDEX violations_kind")
	writer, err := connect(t, url).Begin(t.Context()) // which the index waits for
	if err != nil {
		t.Fatal(err)
	}
	insert(t, writer, "busy", 10, time.Hour)
	config := impatient(t, url, "idle_in_transaction_session_timeout")
	first, second := connectNode(t, config), connectNode(t, config)
	done := makeUntil(t, url, first, config, "CREATE INDEX CONCURRENTLY")
	time.Sleep(500 * time.Millisecond)

	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if mine, err := makeIndexesInTurn(soon, second, config); mine || err != nil {
		t.Errorf("the second node's turn came: %v, %v", mine, err)
	}
	end(t, writer.Commit)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := makeIndexes(t.Context(), connectNode(t, config), config); err != nil {
		t.Error(err)
	}
	if valid, err := indexValid(t.Context(), connect(t, url), "violations_kind"); err != nil || !valid {
		t.Errorf("the index was not made: %v", err)
	}
}

// TestReplacedIndex drops an index when no other is to be made, also if a drop
// before was interrupted, and waits for readers for longer than for a lock.
func TestReplacedIndex(t *testing.T) {
	for state, prepare := range map[string]string{
		"valid": "CREATE INDEX violations_agent ON violations (agent_id, id)",
		"partly gone": "CREATE INDEX violations_agent ON violations (agent_id, id); " +
			"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'violations_agent'::regclass",
	} {
		t.Run(state, func(t *testing.T) {
			url := database(t)
			s := open(t, url, true)
			if _, err := connect(t, url).PgConn().Exec(t.Context(), prepare).ReadAll(); err != nil {
				t.Fatal(err)
			}
			reader, err := connect(t, url).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := reader.Exec(t.Context(), "SELECT FROM violations"); err != nil {
				t.Fatal(err)
			}
			config := impatient(t, url, "lock_timeout")
			conn := connectNode(t, config)
			done := makeUntil(t, url, conn, config, "DROP INDEX CONCURRENTLY")
			time.Sleep(400 * time.Millisecond)
			end(t, reader.Commit)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if left := count(t, s, "pg_class WHERE oid = to_regclass('violations_agent')"); left > 0 {
				t.Error("it is still there")
			}
			var patience string
			if err := conn.QueryRow(t.Context(), "SHOW lock_timeout").Scan(&patience); err != nil || patience != sessionLockTimeout {
				t.Errorf("the session waits %s for a lock, want %s, %v", patience, sessionLockTimeout, err)
			}
		})
	}
}
