package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// The secrets of compose.yaml and its two services that prepare the database lead
// to a service's role that can work and change nothing of the record.
func TestContainersDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a PostgreSQL")
	}
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("needs psql")
	}
	dir := t.TempDir()
	for _, folder := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(folder, 0o711); err != nil { //nolint:gosec // another user runs PostgreSQL
			t.Fatal(err)
		}
	}
	server, err := fleet.StartPostgres(t.Context(), filepath.Join(dir, "postgres"), "fsync=off")
	if err != nil {
		t.Skip("needs PostgreSQL: ", err)
	}
	t.Cleanup(func() { _ = server.Close() })
	secrets := filepath.Join(dir, "secrets")
	run := func(env []string, name string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Env = append(os.Environ(), env...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run(nil, "./secrets.sh", secrets)
	admin := must.Get(pgx.ParseConfig(server.URL))(t)
	password := filepath.Join(secrets, "postgres-password")
	if err = os.Chmod(password, 0o600); err == nil {
		err = os.WriteFile(password, []byte(admin.Password+"\n"), 0o600)
	}
	must.Do(t, err)
	port := strconv.Itoa(int(admin.Port))
	for range 2 {
		run([]string{"SECRETS=" + secrets, "PGHOST=" + admin.Host, "PGPORT=" + port, "PGUSER=" + admin.User, "PGDATABASE=" + admin.Database},
			"sh", "postgres/setup.sh")
	}
	url := func(name string) string {
		content := must.Get(os.ReadFile(filepath.Join(secrets, name)))(t)
		return strings.Replace(strings.TrimSpace(string(content)), "@postgres:5432/spendgate?", "@"+admin.Host+":"+port+"/"+admin.Database+"?", 1)
	}
	binary := must.Get(fleet.Build(t.Context(), dir, fleet.BuildOptions{}))(t)
	run([]string{"SPENDGATE_DATABASE_URL=" + url("owner-url")}, binary, "migrate", "--service", "spendgate")
	service := must.Get(pgx.Connect(t.Context(), url("database-url")))(t)
	defer service.Close(t.Context()) //nolint:errcheck // no query is in flight
	if _, err := service.Exec(t.Context(), "SELECT count(*) FROM checks"); err != nil {
		t.Error(err)
	}
	if _, err := service.Exec(t.Context(), "DELETE FROM checks"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("the service's role deletes checks: %v", err)
	}
}
