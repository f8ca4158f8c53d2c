package fleet

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestDatabase returns the URL of the PostgreSQL database that TEST_DATABASE_URL
// names. Without one the test fails, and is skipped by -short.
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

// TestSchema returns the URL of an empty schema in the database of tests, which goes
// when the test ends. Its name needs quotes.
func TestSchema(t testing.TB) string {
	t.Helper()
	schema := `"Test-` + rand.Text() + `"`
	made(t, "SCHEMA "+schema, " CASCADE")
	u := parse(t)
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// OwnTestDatabase returns the URL of an empty database, which goes when the test ends.
// It names no search_path: the settings of its sessions are the database's.
func OwnTestDatabase(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	made(t, "DATABASE "+name, " WITH (FORCE)")
	u := parse(t)
	u.Path = "/" + name
	return u.String()
}

func parse(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse(TestDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// made creates an object until the test ends.
func made(t testing.TB, object, drop string) {
	t.Helper()
	exec := func(statement string) {
		ctx := context.Background() // cleaning up outlives the test's context
		conn, err := pgx.Connect(ctx, TestDatabase(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx) //nolint:errcheck // nothing is in progress
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Error(err)
		}
	}
	exec("CREATE " + object)
	t.Cleanup(func() { exec("DROP " + object + drop) })
}
