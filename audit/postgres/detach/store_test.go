package detach

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// Store is a store, with a connection of its own to its database.
type Store struct {
	*postgres.Store
	reads *pgx.Conn
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	ctx := context.Background() // cleaning up outlives the test's context
	conn := must.Get(pgx.Connect(ctx, url))(t)
	t.Cleanup(func() { _ = conn.Close(ctx) })
	return conn
}

func statement(t testing.TB, url, sql string) {
	t.Helper()
	must.Get(connect(t, url).Exec(context.Background(), sql))(t)
}

func migrated(t testing.TB) string {
	t.Helper()
	return fleet.TestMigrated(t, postgres.Migrate)
}

func open(t testing.TB, url string) *Store {
	t.Helper()
	s := must.Get(postgres.Open(t.Context(), postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: true}))(t)
	t.Cleanup(s.Close)
	return &Store{s, connect(t, url)}
}

// minimal is a check with nothing optional.
func minimal(f spend.Fence) *spend.Check {
	return &spend.Check{ID: spend.NewID(time.Now()), ActionType: spend.Spend, Fence: f}
}

func newFence(t testing.TB, s *Store) spend.Fence {
	t.Helper()
	epoch := must.Get(s.Epoch(t.Context()))(t)
	changes := must.Get(s.ConfigChanges(t.Context(), 0))(t)
	return spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch, Stops: changes.Stops}
}

func count(t *testing.T, s *Store, table string) (rows int) {
	t.Helper()
	must.Do(t, s.reads.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&rows))
	return rows
}

// rowsOf are all checks as text.
func rowsOf(t *testing.T, s *Store, table string) []string {
	t.Helper()
	rows := must.Get(s.reads.Query(t.Context(), "SELECT c::text FROM "+table+" AS c ORDER BY check_id"))(t)
	return must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
}

func recorded(t testing.TB, s *Store, c *spend.Check) bool {
	t.Helper()
	return len(must.Get(s.Checks(t.Context(), []spend.ID{c.ID}))(t)) == 1
}
