package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/bench/must"
)

// TestDatabase returns the URL of the PostgreSQL database that TEST_DATABASE_URL names. Without it
// the test fails, or is skipped with -short.
func TestDatabase(t testing.TB) string {
	t.Helper()
	base := os.Getenv("TEST_DATABASE_URL")
	if base == "" {
		if testing.Short() {
			t.Skip("needs TEST_DATABASE_URL")
		}
		t.Fatal("set TEST_DATABASE_URL to a PostgreSQL database, or test with -short")
	}
	return base
}

// TestSchema returns the URL of an empty schema in the database of tests, which is dropped when the
// test ends. Its name needs quotes.
func TestSchema(t testing.TB) string {
	t.Helper()
	schema := `"Test-` + rand.Text() + `"`
	must.Do(t, execOn(TestDatabase(t), "CREATE SCHEMA "+schema))
	execAtEnd(t, "DROP SCHEMA "+schema+" CASCADE")
	return urlOf(t, "", schema)
}

// OwnTestDatabase returns the URL of an empty database, which is dropped when the test ends. The
// URL names no search_path: sessions have the database's settings.
func OwnTestDatabase(t testing.TB) string {
	t.Helper()
	name := newDatabaseName()
	must.Do(t, execOn(TestDatabase(t), "CREATE DATABASE "+name))
	execAtEnd(t, dropDatabase(name))
	return urlOf(t, name, "")
}

// TestLocks selects locks of the connection's database: other databases have the same OIDs.
const TestLocks = "(SELECT l.* FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database WHERE datname = current_database()) AS l"

// TestWaits returns the mode in which a session waits for a lock of a table, as soon as one does.
func TestWaits(t testing.TB, conn *pgx.Conn, table string) (mode string) {
	for deadline := time.Now().Add(time.Minute); mode == "" && time.Now().Before(deadline); {
		err := conn.QueryRow(t.Context(), "SELECT coalesce(min(mode), '') FROM "+TestLocks+
			" WHERE relation = $1::regclass AND NOT granted", table).Scan(&mode)
		if err != nil {
			t.Error(err)
			break
		}
	}
	return mode
}

// migratedSchema is the only schema of a database of TestMigrated.
const migratedSchema = `"Test-Schema"`

// TestMigrated returns the URL of a freshly migrated schema in a database of its own, which is
// dropped when the test ends. The schema's name needs quotes. The migrations run once for all tests
// on a server: each test has a copy, in which all objects have the same OIDs.
func TestMigrated(t testing.TB, migrate func(ctx context.Context, url string) error) string {
	t.Helper()
	name, template := newDatabaseName(), templateName(t)
	create := "CREATE DATABASE " + name + " TEMPLATE " + template
	err := execOn(TestDatabase(t), create)
	if missing, ok := errors.AsType[*pgconn.PgError](err); ok && missing.Code == "3D000" { // invalid_catalog_name
		makeTemplate(t, template, migrate)
		err = execOn(TestDatabase(t), create)
	}
	must.Do(t, err)
	execAtEnd(t, dropDatabase(name))
	copied := urlOf(t, name, migratedSchema)
	// The random identities that the migrations draw must differ between deployments.
	must.Do(t, execOn(copied, "UPDATE deployment SET id = gen_random_uuid(); UPDATE epoch SET id = gen_random_uuid()"))
	return copied
}

// templateName returns a name that depends on the text of the migrations.
func templateName(t testing.TB) string {
	t.Helper()
	root := must.Get(ModuleRoot())(t)
	texts := must.Get(filepath.Glob(filepath.Join(root, "audit/postgres/migrations/*.sql")))(t)
	if len(texts) == 0 {
		t.Fatalf("no migrations in %s", root)
	}
	sum := sha256.New()
	for _, path := range texts {
		text := must.Get(os.ReadFile(path))(t)
		_, _ = fmt.Fprintf(sum, "%d %s", len(text), text)
	}
	return fmt.Sprintf("test_migrated_%x", sum.Sum(nil)[:8])
}

// makeTemplate makes the database that tests copy, unless another test has made it. It is kept.
func makeTemplate(t testing.TB, name string, migrate func(ctx context.Context, url string) error) {
	t.Helper()
	ctx := t.Context()
	conn := must.Get(pgx.Connect(ctx, TestDatabase(t)))(t)
	defer conn.Close(context.Background()) //nolint:errcheck // ends the lock, too
	exec := func(statement string) {
		t.Helper()
		must.Get(conn.Exec(ctx, statement))(t)
	}
	exec("SELECT pg_advisory_lock(hashtext('test_migrated'))")
	var made bool
	must.Do(t, conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&made))
	if made {
		return
	}
	unfinished := name + "_unfinished"
	exec("DROP DATABASE IF EXISTS " + unfinished + " WITH (FORCE)")
	exec("CREATE DATABASE " + unfinished)
	must.Do(t, execOn(urlOf(t, unfinished, ""), "CREATE SCHEMA "+migratedSchema))
	must.Do(t, migrate(ctx, urlOf(t, unfinished, migratedSchema)))
	exec("ALTER DATABASE " + unfinished + " RENAME TO " + name)
}

func newDatabaseName() string { return "test_" + strings.ToLower(rand.Text()) }

func dropDatabase(name string) string { return "DROP DATABASE " + name + " WITH (FORCE)" }

// urlOf returns the URL of a schema in a database of the server; "" leaves the default.
func urlOf(t testing.TB, database, schema string) string {
	t.Helper()
	u := must.Get(url.Parse(TestDatabase(t)))(t)
	if database != "" {
		u.Path = "/" + database
	}
	if schema != "" {
		q := u.Query()
		q.Set("search_path", schema)
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// execAtEnd executes a statement when the test has ended.
func execAtEnd(t testing.TB, statement string) {
	t.Cleanup(func() {
		if err := execOn(TestDatabase(t), statement); err != nil {
			t.Error(err)
		}
	})
}

// execOn executes a statement on a connection of its own, since cleaning up outlives a test's
// context.
func execOn(url, statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is in progress
	_, err = conn.Exec(ctx, statement)
	return err
}
