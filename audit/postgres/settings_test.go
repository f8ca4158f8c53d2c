package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestSettingsOfTheDatabase: what the owner of the database sets for its sessions
// does not change what a node's statements mean, and an operator of theirs is not
// used.
func TestSettingsOfTheDatabase(t *testing.T) {
	ctx := t.Context()
	url := fleet.OwnTestDatabase(t)
	must.Do(t, Migrate(ctx, url))
	owner := connect(t, url)
	exec := func(sql string) {
		t.Helper()
		must.Get(owner.Exec(ctx, sql))(t)
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
	must.Get(owner.Exec(ctx, `CREATE FUNCTION public.same(uuid, uuid) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		CREATE OPERATOR public.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = public.same)`, pgx.QueryExecModeSimpleProtocol))(t)
	s := open(t, url, false)
	epoch := must.Get(s.Epoch(ctx))(t)
	c := minimal(spend.Fence{Node: spend.ID{1}, Epoch: epoch})
	must.Do(t, audittest.Record(ctx, s, c))
	if checks, err := s.Checks(ctx, []spend.ID{c.ID}); err != nil || len(checks) != 1 {
		t.Errorf("%d checks, %v", len(checks), err)
	}
	session := must.Get(pgconn.ConnectConfig(ctx, s.writers.config))(t)
	defer func() { _ = session.Close(ctx) }() // as above
	for setting, value := range hostile {
		results := must.Get(session.Exec(ctx, "SHOW "+setting).ReadAll())(t)
		if got := string(results[0].Rows[0][0]); strings.EqualFold(got, value) {
			t.Errorf("%s is %s", setting, got)
		}
	}
}
