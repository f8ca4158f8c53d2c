package postgres

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// behind returns a URL whose search_path goes on with the schema of another.
func behind(t testing.TB, text, other string) string {
	t.Helper()
	schema := func(text string) string {
		u := must.Get(url.Parse(text))(t)
		return u.Query().Get("search_path")
	}
	return with(t, text, "search_path", schema(text)+","+schema(other))
}

// with sets a parameter of a URL.
func with(t testing.TB, text, name, value string) string {
	t.Helper()
	u := must.Get(url.Parse(text))(t)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// connect is a connection that knows nothing of the store.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	ctx := context.Background() // cleaning up outlives the test's context
	conn := must.Get(pgx.Connect(ctx, url))(t)
	t.Cleanup(func() { _ = conn.Close(ctx) }) // some tests have it killed
	return conn
}

// commitWaits says whether a session of the connection's database waits for another's end.
const commitWaits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid')"

// querier is a connection, a pool of them or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// texts returns the rows of a query for one text.
func texts(t *testing.T, db querier, query string) []string {
	t.Helper()
	rows := must.Get(db.Query(t.Context(), query))(t)
	return must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
}

func statement(t testing.TB, url, sql string) {
	t.Helper()
	must.Get(connect(t, url).Exec(context.Background(), sql))(t)
}

// migrated returns the URL of a schema that is up to date.
func migrated(t testing.TB) string {
	t.Helper()
	return fleet.TestMigrated(t, Migrate)
}

func open(t testing.TB, url string, migrate bool) *Store {
	t.Helper()
	s := must.Get(Open(t.Context(), Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: migrate}))(t)
	t.Cleanup(s.Close)
	return s
}

func TestCloseAgain(t *testing.T) {
	s := open(t, migrated(t), true)
	s.Close() // the test's end does so again
}

// delayExpiries is audittest.Subject.DelayExpiries.
const delayExpiries = "ALTER TABLE approvals DISABLE TRIGGER immutable; UPDATE approvals SET expires_at = expires_at + interval '1 hour'"

func execOn(s *Store) func(*testing.T, string) error {
	return func(t *testing.T, sql string) error {
		_, err := s.Reads.Exec(t.Context(), sql)
		return err
	}
}

func countOn(s *Store) func(*testing.T, string) int {
	return func(t *testing.T, sql string) (n int) {
		must.Do(t, s.Reads.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
}

// TestStore opens the store as nodes do, with a role that owns nothing and has the rights of grants.sql.
func TestStore(t *testing.T) {
	service := lesserRole(t)
	script := string(must.Get(os.ReadFile("../../deploy/postgres/grants.sql"))(t))
	audittest.Run(t, func(t *testing.T) audittest.Subject {
		owner := migrated(t)
		must.Do(t, Grant(t.Context(), owner, script, service))
		s := open(t, owner, true)
		today := "checks_" + time.Now().UTC().Format("20060102")
		return audittest.Subject{
			Store:         open(t, as(t, owner, service), false),
			Exec:          execOn(s),
			Count:         countOn(s),
			ExpireKeys:    "UPDATE idempotency_keys SET expires_at = expires_at - interval '25 hours'",
			DelayExpiries: delayExpiries,
			AgePayments:   "UPDATE payments SET changed_at = now() - interval '1 year'",
			FineCounts:    "UPDATE violation_count_state SET bucket_size = 4",
			Unrecorded: []string{
				`UPDATE keys SET hash = '\x00'`, `UPDATE keys SET grants = '{"role": "full"}'`,
				`INSERT INTO keys (id, hash, name, rpm, active, created_at, last_used, generation) SELECT '00000000-0000-0000-0000-000000000001',
					'\x00', name, rpm, active, created_at, last_used, generation + 1 FROM keys`,
				"UPDATE webhooks SET url = 'x'", "UPDATE webhooks SET generation = generation + 1", "DELETE FROM webhooks",
				`INSERT INTO webhooks SELECT '00000000-0000-0000-0000-000000000001', url, event_types, active, secret_sha256, created_at, generation
					FROM webhooks`,
			},
			Forbidden: []string{
				"TRUNCATE checks", "TRUNCATE checks_default", "TRUNCATE " + today, "TRUNCATE violations", "TRUNCATE policies", "TRUNCATE batches",
				"TRUNCATE changes", "TRUNCATE approvals CASCADE", "TRUNCATE approval_uses",
				"UPDATE " + today + " SET agent_id = 'x'", "DELETE FROM " + today,
				"TRUNCATE violations, checks CASCADE",
				"INSERT INTO violations SELECT * FROM violations ON CONFLICT (id) DO UPDATE SET agent_id = 'x'",
			},
		}
	})
}

func BenchmarkCommit(b *testing.B) {
	audittest.Benchmark(b, func(b *testing.B) audit.Store { return open(b, migrated(b), true) })
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

func recorded(t testing.TB, s *Store, c *spend.Check) bool {
	t.Helper()
	found := must.Get(s.Checks(t.Context(), []spend.ID{c.ID}))(t)
	return len(found) == 1
}
