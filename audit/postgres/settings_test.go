package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
)

// TestSettingsOfTheDatabase: what the owner of the database sets for its sessions
// does not change what a node's statements mean, and an operator of theirs is not
// used.
func TestSettingsOfTheDatabase(t *testing.T) {
	ctx := t.Context()
	url := fleet.OwnTestDatabase(t)
	if err := Migrate(ctx, url); err != nil {
		t.Fatal(err)
	}
	owner := connect(t, url)
	exec := func(sql string) {
		t.Helper()
		if _, err := owner.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	name := owner.Config().Database
	hostile := map[string]string{
		"search_path": "public, pg_catalog", "row_security": "on", "client_encoding": "LATIN1", "standard_conforming_strings": "off",
		"transform_null_equals": "on", "client_min_messages": "error", "session_replication_role": "replica", "timezone": "Asia/Tokyo",
		"datestyle": "German", "statement_timeout": "1min", "bytea_output": "escape",
	}
	for setting, value := range hostile {
		if setting != "search_path" {
			value = "'" + value + "'"
		}
		exec("ALTER DATABASE " + name + " SET " + setting + " = " + value)
	}
	owner = connect(t, url) // with those settings
	if _, err := owner.Exec(ctx, `CREATE FUNCTION public.same(uuid, uuid) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		CREATE OPERATOR public.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = public.same)`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	s := open(t, url, false)
	epoch, err := s.Epoch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := minimal(spend.Fence{Node: spend.ID{1}, Epoch: epoch})
	if err := audittest.Record(ctx, s, c); err != nil {
		t.Fatal(err)
	}
	if checks, err := s.Checks(ctx, []spend.ID{c.ID}); err != nil || len(checks) != 1 {
		t.Errorf("%d checks, %v", len(checks), err)
	}
	session, err := pgconn.ConnectConfig(ctx, s.writers.config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }() // as above
	for setting, value := range hostile {
		results, err := session.Exec(ctx, "SHOW "+setting).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(results[0].Rows[0][0]); strings.EqualFold(got, value) {
			t.Errorf("%s is %s", setting, got)
		}
	}
}
