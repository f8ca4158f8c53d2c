package verify_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

func (tr *trail) database() (name string) {
	tr.t.Helper()
	must.Do(tr.t, tr.conn.QueryRow(tr.t.Context(), "SELECT current_database()").Scan(&name))
	return name
}

// forge adds a check that no batch lists.
func (tr *trail) forge() spend.ID {
	tr.t.Helper()
	id := spend.NewID(time.Now())
	tr.exec(`CREATE TEMPORARY TABLE copy AS SELECT * FROM checks WHERE check_id = '%s'; UPDATE copy SET check_id = '%s';
		INSERT INTO checks SELECT * FROM copy; DROP TABLE copy`, tr.find(isAllowed).ID.Text(""), id.Text(""))
	return id
}

// TestLedAstray is a database whose owner forged a check and then does everything possible to hide
// it from a verifier. Each time the check is reported, or verifying is refused: the trail is never
// called clean.
func TestLedAstray(t *testing.T) {
	t.Parallel()
	tr := newTrailIn(t, fleet.OwnTestDatabase(t))
	id := tr.forge()
	forged := id.Text("")
	name := tr.database()
	first := fmt.Sprintf("ALTER DATABASE %s SET search_path = public, pg_catalog; ", name)
	reset := fmt.Sprintf("ALTER DATABASE %s RESET ALL; ", name)
	tomorrow := "checks_" + time.Now().UTC().AddDate(0, 0, 1).Format("20060102")
	refused := map[string]bool{ // the others do not lead anybody astray
		"row-level security": true, "a view": true, "a foreign table": true, "a rule": true, "a table that inherits": true,
		"a partition that is none of a day": true, "a partition in another schema": true, "a constraint that nobody validated": true,
		"another type": true, "a cast of built-in types": true, "an operator beside the built-in ones": true,
		"a function beside the built-in ones": true,
	}
	for what, c := range map[string]struct{ do, undo string }{
		"an operator hides a row": {
			first + fmt.Sprintf(`CREATE FUNCTION public.ge(uuid, uuid) RETURNS boolean LANGUAGE sql IMMUTABLE
				AS $$ SELECT pg_catalog.uuid_ge($1, $2) AND pg_catalog.uuid_ne($1, '%s') $$;
				CREATE OPERATOR public.>= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = public.ge)`, forged),
			reset + "DROP FUNCTION public.ge CASCADE",
		},
		"an operator hides all rows": {
			first + `CREATE FUNCTION public.ge(uuid, uuid) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';
				CREATE OPERATOR public.>= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = public.ge);
				CREATE OPERATOR public.<= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = public.ge)`,
			reset + "DROP FUNCTION public.ge CASCADE",
		},
		"a function finds no time": {
			first + `CREATE FUNCTION public.min(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT NULL'`,
			reset + "DROP FUNCTION public.min(text)",
		},
		"tables of its own in the place of the catalogue": {
			first + "CREATE TABLE public.pg_inherits AS SELECT * FROM pg_catalog.pg_inherits LIMIT 0",
			reset + "DROP TABLE public.pg_inherits",
		},
		"an operator for types that are not quite those": {
			`CREATE FUNCTION public.less(name, name) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';
				CREATE OPERATOR public.~ (LEFTARG = name, RIGHTARG = name, FUNCTION = public.less)`,
			"DROP FUNCTION public.less CASCADE",
		},
		"settings": {
			fmt.Sprintf(`ALTER DATABASE %s SET client_encoding = 'LATIN1'; ALTER DATABASE %[1]s SET constraint_exclusion = on;
				ALTER DATABASE %[1]s SET transform_null_equals = on`, name), reset,
		},
		"row-level security": {"ALTER TABLE checks ENABLE ROW LEVEL SECURITY", "ALTER TABLE checks DISABLE ROW LEVEL SECURITY"},
		"a view": {
			"ALTER TABLE batches RENAME TO kept; CREATE VIEW batches AS TABLE kept", "DROP VIEW batches; ALTER TABLE kept RENAME TO batches",
		},
		"a foreign table": {
			`CREATE FOREIGN DATA WRAPPER elsewhere; CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere; ALTER TABLE archived_days RENAME TO kept;
				CREATE FOREIGN TABLE archived_days (day date, rows bigint, manifest_sha256 bytea, at timestamptz) SERVER elsewhere`,
			"DROP FOREIGN DATA WRAPPER elsewhere CASCADE; ALTER TABLE kept RENAME TO archived_days",
		},
		"a rule": {
			"CREATE RULE kept AS ON INSERT TO violations DO INSTEAD NOTHING", "DROP RULE kept ON violations",
		},
		"a table that inherits": {"CREATE TABLE more () INHERITS (violations)", "DROP TABLE more"},
		"a partition that is none of a day": {
			"ALTER TABLE " + tomorrow + " RENAME TO checks_20010101", "ALTER TABLE checks_20010101 RENAME TO " + tomorrow,
		},
		"a partition in another schema": {
			"CREATE SCHEMA aside; ALTER TABLE " + tomorrow + " SET SCHEMA aside", "ALTER TABLE aside." + tomorrow +
				" SET SCHEMA public; DROP SCHEMA aside",
		},
		"a constraint that nobody validated": {
			"ALTER TABLE violations ADD CONSTRAINT none CHECK (id < '00000000-0000-0000-0000-000000000001') NOT VALID",
			"ALTER TABLE violations DROP CONSTRAINT none",
		},
		"another type": {
			"CREATE DOMAIN number AS integer; ALTER TABLE violations ALTER COLUMN latency_ms TYPE number",
			"ALTER TABLE violations ALTER COLUMN latency_ms TYPE integer; DROP DOMAIN number",
		},
		"a cast of built-in types": {
			`CREATE FUNCTION public.told(numeric) RETURNS text LANGUAGE sql IMMUTABLE AS $$
				SELECT '1' $$; CREATE CAST (numeric AS text) WITH FUNCTION public.told(numeric)`,
			"DROP FUNCTION public.told CASCADE",
		},
		"an operator beside the built-in ones": {
			`CREATE FUNCTION public.less(name, name) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';
				CREATE OPERATOR pg_catalog.~ (LEFTARG = name, RIGHTARG = name, FUNCTION = public.less)`,
			"DROP FUNCTION public.less CASCADE",
		},
		"a function beside the built-in ones": {
			`CREATE FUNCTION pg_catalog.substr(name, integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT '19700101' $$`,
			"DROP FUNCTION pg_catalog.substr(name, integer)",
		},
	} {
		tr.exec("%s", c.do)
		found, _, err := tr.verify(tr.held)
		if named := slices.Equal(found, []string{check("inserted", &spend.Check{ID: id})}); (err != nil) != refused[what] ||
			named == refused[what] {
			t.Errorf("%s: found %v, %v", what, found, err)
		}
		tr.exec("%s", c.undo)
		tr.finds(tr.held, check("inserted", &spend.Check{ID: id}))
	}
}

// TestIndexWithoutARow hides a check from everybody who looks for it by its identifier: the index
// was not updated when it was inserted.
func TestIndexWithoutARow(t *testing.T) {
	t.Parallel()
	tr := newTrailIn(t, fleet.OwnTestDatabase(t))
	tr.exec("UPDATE pg_index SET indisready = false WHERE indrelid = '%s'::regclass", today())
	tr.conn = connect(t, tr.url) // one that never saw the index ready
	tr.exec("SET session_replication_role = replica")
	tr.forge()
	tr.exec("UPDATE pg_index SET indisready = true WHERE indrelid = '%s'::regclass", today())
	tr.exec("ALTER DATABASE %s SET enable_seqscan = off", tr.database())
	found, _, err := tr.verify(tr.held)
	if err != nil || len(found) != 1 || found[0] != "unchecked table checks" {
		t.Errorf("found %v, %v", found, err)
	}
}
