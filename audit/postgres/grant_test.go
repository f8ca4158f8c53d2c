package postgres

import (
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestAllowed: a role that lacks one of the rights that nodes are granted is told which, and one
// that has them all, or owns the tables, is not.
func TestAllowed(t *testing.T) {
	owner := fleet.OwnTestDatabase(t)
	open(t, owner, true)
	db := connect(t, owner)
	exec := func(statement string) {
		t.Helper()
		must.Get(db.Exec(t.Context(), statement))(t)
	}
	text := must.Get(os.ReadFile("../../deploy/postgres/grants.sql"))(t)
	script, name := string(text), lesserRole(t)
	role := pgx.Identifier{name}.Sanitize()
	t.Cleanup(func() { statement(t, owner, "DROP OWNED BY "+role) })
	lesser := as(t, owner, name)
	lacks := func(want string) {
		t.Helper()
		err := Allowed(t.Context(), lesser, script)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	lacks(`may not SELECT checks, SELECT violations, SELECT outcomes and `)
	grantAtOnce(t, owner, script, name)
	lacks("")
	if err := Allowed(t.Context(), owner, script); err != nil {
		t.Errorf("the owner: %v", err)
	}
	for right, want := range map[string]string{
		"INSERT ON sessions":                "INSERT sessions: run `spendgate migrate --service \"" + name + "\"`",
		"SELECT ON webhooks":                "may not SELECT webhooks: ",
		"UPDATE (holder) ON webhook_states": "may not UPDATE webhook_states: ",
		"EXECUTE ON FUNCTION delete_events": "may not EXECUTE delete_events: ",
		"EXECUTE ON FUNCTION use_approvals": "may not EXECUTE use_approvals: ",
	} {
		exec("REVOKE " + right + " FROM " + role + ", PUBLIC")
		lacks(want)
		exec("GRANT " + right + " TO " + role)
		lacks("")
	}
	exec("DROP FUNCTION delete_events(integer)") // another version's, say
	lacks("")
}

// lesserRole makes a role that owns nothing, until the test ends, and returns its name.
func lesserRole(t *testing.T) string {
	t.Helper()
	name, server := "lesser "+rand.Text(), fleet.TestDatabase(t)
	role := pgx.Identifier{name}.Sanitize()
	statement(t, server, "CREATE ROLE "+role+" LOGIN PASSWORD 'lesser'")
	t.Cleanup(func() { statement(t, server, "DROP ROLE "+role) })
	return name
}

// as returns a URL with a role of lesserRole.
func as(t *testing.T, text, role string) string {
	t.Helper()
	u := must.Get(url.Parse(text))(t)
	u.User = url.UserPassword(role, "lesser")
	return u.String()
}

// grantAtOnce grants as several jobs do that migrate at once.
func grantAtOnce(t *testing.T, url, script, name string) {
	t.Helper()
	failures := make([]error, 4)
	var granting sync.WaitGroup
	for i := range failures {
		granting.Go(func() { failures[i] = Grant(t.Context(), url, script, name) })
	}
	granting.Wait()
	must.Do(t, errors.Join(failures...))
}
