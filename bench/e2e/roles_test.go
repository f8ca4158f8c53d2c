package e2e_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// roles is a fleet whose nodes connect to PostgreSQL with a role that owns
// nothing there, as deploy/postgres sets it up.
type roles struct {
	*fleet.Fleet
	owner, service string // URLs
	variables      map[string]string
	client         *fleet.Client
}

// testRoles: the service's role suffices for a node, and cannot change what was recorded (G8).
func testRoles(t *testing.T, binary string) {
	f := startFleet(t, fleet.Options{Binary: binary})
	r := &roles{Fleet: f, variables: map[string]string{"owner": "Gate Owner", "service": "Gate Service", "schema": "Gate"}}
	r.prepare(t)
	if t.Run("nothing migrates but the owner", func(t *testing.T) { r.migrate(t, binary) }) &&
		t.Run("a node works", r.work) {
		t.Run("the rest is refused", r.refused)
	}
}

// prepare makes the roles, with passwords.
func (r *roles) prepare(t *testing.T) {
	ctx := limited(t, patience)
	for range 2 { // it may be run again
		must.Do(t, r.Postgres.Script(ctx, r.Postgres.URL, "../../deploy/postgres/roles.sql", r.variables))
	}
	url := func(role string) string {
		password := rand.Text()
		must.Get(r.Postgres.Pool.Exec(ctx, fmt.Sprintf("ALTER ROLE %q PASSWORD '%s'", role, password)))(t)
		url := must.Get(r.Postgres.As(role, password))(t)
		return url
	}
	r.owner, r.service = url(r.variables["owner"]), url(r.variables["service"])
	conn := must.Get(pgx.Connect(ctx, r.service))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	var jit string
	if must.Do(t, conn.QueryRow(ctx, "SHOW jit").Scan(&jit)); jit != "off" {
		t.Error("queries are compiled where nodes share sessions through a pooler")
	}
}

func (r *roles) migrate(t *testing.T, binary string) {
	ctx := limited(t, patience)
	node, err := r.AddNode(fleet.Settings{"DATABASE_URL": r.service})
	must.Do(t, err)
	for _, says := range []string{"may not use it", "spendgate migrate"} {
		if err := node.Start(ctx); err == nil || !strings.Contains(err.Error(), says) {
			t.Fatalf("a node whose role may not make the schema says %v; want %q", err, says)
		}
		must.Get(r.Postgres.Pool.Exec(ctx, `GRANT USAGE ON SCHEMA "Gate" TO "Gate Service"`))(t)
	}
	run := func(role string) (int, string) {
		code, output, err := fleet.Run(ctx, binary, t.TempDir(), fleet.Settings{"DATABASE_URL": r.owner}, "migrate", "--service", role)
		must.Do(t, err)
		return code, output
	}
	// The owner would take its own rights away.
	if code, output := run(r.variables["owner"]); code == 0 || !strings.Contains(output, "owns the tables") {
		t.Fatalf("grants to the owner: %d, %s", code, output)
	}
	for range 2 { // it may be run again
		if code, output := run(r.variables["service"]); code != 0 {
			t.Fatalf("the owner cannot migrate: %d\n%s", code, output)
		}
	}
	r.told(t, binary)
	// psql runs the same script.
	must.Do(t, r.Postgres.Script(ctx, r.owner, "../../deploy/postgres/grants.sql", r.variables))
}

// told: --check names what an upgrade without --service left out, and what to do about it.
func (r *roles) told(t *testing.T, binary string) {
	checks := func(code int, want string) {
		t.Helper()
		got, output, err := fleet.Run(limited(t, patience), binary, t.TempDir(), fleet.Settings{
			"DATABASE_URL": r.service, "REDIS_URL": r.Redis.URL, "ADMIN_KEY": r.AdminKey, "OPS_ADDR": "127.0.0.1:0", "LISTEN_ADDR": "127.0.0.1:0",
		}, "serve", "--check")
		if err != nil || got != code || !strings.Contains(output, want) {
			t.Errorf("--check: %d, %v, want %d and %q\n%s", got, err, code, want, output)
		}
	}
	checks(0, "can be used")
	_, err := r.Postgres.Pool.Exec(t.Context(), `REVOKE ALL ON "Gate".sessions FROM "Gate Service"`)
	must.Do(t, err)
	checks(1, "may not SELECT sessions, INSERT sessions, UPDATE sessions and 1 more: run `spendgate migrate --service \"Gate Service\"`")
	_, err = r.Postgres.Pool.Exec(t.Context(), `GRANT ALL ON "Gate".sessions TO "Gate Service"`)
	must.Do(t, err)
}

// work makes a node do everything that uses the database.
func (r *roles) work(t *testing.T) {
	ctx, node := limited(t, patience), r.Nodes[0]
	owner, err := pgx.Connect(ctx, r.owner)
	must.Do(t, err)
	defer owner.Close(ctx) //nolint:errcheck // no query is in flight
	// The partitions that a node makes and removes by itself, at its start and daily.
	day := "checks_" + time.Now().UTC().AddDate(0, 0, 3).Format("20060102")
	_, err = owner.Exec(ctx, `DROP TABLE `+day+`; INSERT INTO idempotency_keys VALUES ('\x00', gen_random_uuid(), now() - interval '1 hour')`)
	must.Do(t, err)
	must.Do(t, node.Start(ctx))
	eventually(t, patience, "the partition is made, and the expired key removed", func() (done bool) {
		err := owner.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM idempotency_keys) AND EXISTS (
			SELECT FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid JOIN pg_trigger AS t ON t.tgrelid = c.oid
			WHERE inhparent = 'checks'::regclass AND relname = $1 AND tgname = 'immutable_truncate'
			AND pg_get_userbyid(relowner) = current_user)`, day).Scan(&done)
		return err == nil && done
	})

	admin := node.Admin(r.AdminKey)
	id, key, err := admin.CreateKey(ctx, "test", plenty)
	must.Do(t, err)
	r.client = node.Client(key)
	ok(t, must.Get(admin.PatchKey(ctx, id, map[string]any{"name": "changed"}))(t), http.StatusOK)
	ok(t, must.Get(r.client.PostPolicy(ctx, standardPolicy()))(t), http.StatusCreated)
	action := fleet.Action{
		AgentID: "agent", PolicyID: standard, ActionType: "refund", Amount: "900", Currency: "USD", Counterparty: "customer",
		IdempotencyKey: "key",
	}
	first := check(t, r.client, action)
	if again := check(t, r.client, action); !again.Replayed() {
		t.Errorf("not a replay: %s", again)
	}
	ok(t, must.Get(r.client.GetCheck(ctx, first.Result().CheckID))(t), http.StatusOK)
	if list := ok(t, must.Get(r.client.Violations(ctx, "agent_id=agent"))(t), http.StatusOK); !strings.Contains(string(list.Body),
		`"total_count":1`) {
		t.Errorf("the violation is not listed: %s", list)
	}
	if feed := ok(t, must.Get(r.client.Do(ctx, http.MethodGet, "/v1/events?limit=100", nil))(t),
		http.StatusOK); !strings.Contains(string(feed.Body), "violation.recorded") {
		t.Errorf("the violation is not in the feed: %s", feed)
	}
	eventually(t, patience, "the violation is counted", func() (done bool) {
		err := owner.QueryRow(ctx, "SELECT sum(total) = 1 FROM violation_counts").Scan(&done)
		return err == nil && done
	})
	if list := ok(t, must.Get(r.client.Violations(ctx, "decision=block"))(t), http.StatusOK); !strings.Contains(string(list.Body),
		`"total_count":1`) {
		t.Errorf("the violation is not listed once it is counted: %s", list)
	}
	// A new epoch, and the windows from the database.
	must.Do(t, r.Redis.Client.FlushAll(ctx).Err())
	action.IdempotencyKey = ""
	if again := check(t, r.client, action); !again.Result().Duplicate() {
		t.Errorf("passed again after Redis was emptied: %s", again)
	}
	if _, log, _ := strings.Cut(node.Log(), `"msg":"listening"`); log == "" || strings.Contains(log, "permission denied") {
		t.Errorf("the node was refused something:\n%s", tail(log))
	}
}

// may lists what the service's role may do to a table besides reading it.
var may = map[string][]string{
	"checks": {"INSERT"}, "violations": {"INSERT"}, "batches": {"INSERT"},
	"idempotency_keys": {"INSERT", "UPDATE", "DELETE"},
	"fenced_nodes":     {"INSERT", "UPDATE"},
	"epoch":            {"UPDATE"}, "horizon": {"UPDATE"},
	// Derived from what checks were charged with, and recomputed by audit verify.
	"budget_counters": {"INSERT", "UPDATE", "DELETE"}, "budget_principals": {"INSERT", "UPDATE", "DELETE"},
	// Decisions and uses only by functions that prove them.
	"approvals": {"INSERT"}, "approval_deadlines": {"INSERT"}, "outcomes": {"INSERT"}, "budget_exhaustions": {"INSERT"},
	// Derived from outcomes.
	"redemptions_open": {"INSERT", "UPDATE", "DELETE"},
	// Derived from the record, and made again by audit verify.
	"payments": {"INSERT", "UPDATE"}, "payment_checks": {"INSERT"}, "allows_open": {"INSERT", "UPDATE", "DELETE"},
	// Webhooks change by functions that record it; how far deliveries are does not count
	// as their change.
	"webhook_retries": {"INSERT", "UPDATE", "DELETE"}, "webhook_deliveries": {"INSERT", "DELETE"},
	// Derived from the record, which they are no part of.
	"backtests": {"INSERT", "UPDATE", "DELETE"}, "backtest_flips": {"INSERT", "DELETE"},
	"nodes":    {"INSERT", "UPDATE", "DELETE"},
	"sessions": {"INSERT", "UPDATE", "DELETE"}, "session_logouts": {"INSERT", "UPDATE", "DELETE"},
	"session_askers": {"INSERT"}, // adds people to those whose checks count as their own
}

// quoted returns a name as SQL has it: schema, owner or service.
func (r *roles) quoted(variable string) string {
	return pgx.Identifier{r.variables[variable]}.Sanitize()
}

// refused tries forbidden statements with the service's role, on every table.
func (r *roles) refused(t *testing.T) {
	ctx, schema := limited(t, patience), r.quoted("schema")
	before, tables := r.recorded(t), r.tables(t)
	service, err := pgx.Connect(ctx, r.service)
	must.Do(t, err)
	defer service.Close(ctx) //nolint:errcheck // no query is in flight
	tried := []string{
		"SET session_replication_role = replica", "SET ROLE " + r.quoted("owner"), "SET ROLE postgres",
		`CREATE TABLE mine ()`, `CREATE SCHEMA mine`, "DROP SCHEMA " + schema + " CASCADE",
		`CREATE FUNCTION mine() RETURNS void LANGUAGE sql AS ''`, `CREATE ROLE mine SUPERUSER`,
		`CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
		`DROP FUNCTION refuse_change() CASCADE`, `ALTER FUNCTION make_partition(date) SECURITY INVOKER`,
		`CREATE OR REPLACE FUNCTION begin_commit(node uuid, epoch uuid) RETURNS void LANGUAGE sql AS ''`,
		`SELECT recount_violations()`, `SELECT split_bucket('', '00000000000000000000000000000000')`,
		`ALTER FUNCTION count_violations(integer) SECURITY INVOKER`, `SELECT sequence_restored()`,
		"ALTER TABLE checks DETACH PARTITION checks_default", "COPY checks TO PROGRAM 'true'", "COPY checks FROM '/etc/passwd'",
		"UPDATE webhook_states SET secret = ''", "UPDATE webhooks SET url = ''",
		"UPDATE keys SET active = true", "UPDATE keys SET hash = ''", "UPDATE keys SET last_used = NULL, rpm = 1",
		"SELECT close_day('2001-01-01')", `SELECT detach_day('2001-01-01', 0, '\x00')`, "SELECT empty_default_partition()",
		`SELECT detach_violations('2001-01-01', 0, '\x00')`, "SELECT trim_violation_counts()",
		`SELECT fold_chains('2001-01-01', '\x00', '{}')`,
		"SELECT delete_violations('2001-01-01', '00000000000000000000000000000000', 1)",
		"SELECT lo_import('/etc/passwd')", "SELECT pg_read_file('PG_VERSION')", "ALTER SYSTEM SET fsync = off",
	}
	for _, table := range tables {
		column, name := table[1], pgx.Identifier{table[0]}.Sanitize()
		for verb, statement := range map[string]string{
			"INSERT": "INSERT INTO " + name + " (" + column + ") SELECT " + column + " FROM " + name + " WHERE false",
			"UPDATE": "UPDATE " + name + " SET " + column + " = " + column + " WHERE false",
			"DELETE": "DELETE FROM " + name + " WHERE false",
			"":       "TRUNCATE " + name,
		} {
			if !slices.Contains(may[table[0]], verb) {
				tried = append(tried, statement)
			}
		}
		for _, change := range []string{
			"DISABLE TRIGGER ALL", "DISABLE TRIGGER immutable", "DISABLE TRIGGER immutable_truncate", "ADD COLUMN mine text",
			"OWNER TO CURRENT_USER", "RENAME TO mine", "DISABLE RULE mine", "ENABLE ROW LEVEL SECURITY",
		} {
			tried = append(tried, "ALTER TABLE "+name+" "+change)
		}
		tried = append(tried, "DROP TABLE "+name, "DROP TRIGGER immutable ON "+name,
			"CREATE TRIGGER mine BEFORE INSERT ON "+name+" FOR EACH ROW EXECUTE FUNCTION refuse_change()",
			"CREATE RULE mine AS ON INSERT TO "+name+" DO INSTEAD NOTHING", "CREATE INDEX ON "+name+" ("+column+")")
	}
	const notAllowed = "42501"
	for _, statement := range tried {
		_, err := service.Exec(ctx, statement)
		if refused, is := errors.AsType[*pgconn.PgError](err); !is ||
			refused.Code != notAllowed && !strings.HasPrefix(statement, "DROP TRIGGER") {
			t.Errorf("%s: got %v, want a refusal for lack of privileges", statement, err)
		}
	}
	if after := r.recorded(t); after != before {
		t.Errorf("what is in the database changed:\n%s\nbefore:\n%s", after, before)
	}
}

// tables returns all of the schema, each with a column of its own.
func (r *roles) tables(t *testing.T) (tables [][2]string) {
	t.Helper()
	rows, err := r.Postgres.Pool.Query(t.Context(), `SELECT relname, attname FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid
		AND attnum = 1
		WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p') ORDER BY relname`, r.quoted("schema"))
	must.Do(t, err)
	tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (table [2]string, err error) {
		err = row.Scan(&table[0], &table[1])
		return table, err
	})
	must.Do(t, err)
	const least = 18 // with a week of partitions
	if len(tables) < least {
		t.Fatalf("only %d tables: %v", len(tables), tables)
	}
	return tables
}

// recorded describes what must not change: rows, triggers and owners.
func (r *roles) recorded(t *testing.T) (all string) {
	t.Helper()
	query := strings.ReplaceAll(`SELECT concat_ws(E'\n',
		(SELECT string_agg(c::text, E'\n' ORDER BY check_id) FROM SCHEMA.checks AS c),
		(SELECT string_agg(v::text, E'\n' ORDER BY id) FROM SCHEMA.violations AS v),
		(SELECT string_agg(p::text, E'\n') FROM SCHEMA.policies AS p),
		(SELECT string_agg(b::text, E'\n' ORDER BY chain_id, seq) FROM SCHEMA.batches AS b),
		(SELECT string_agg(p::text, E'\n' ORDER BY seq) FROM SCHEMA.changes AS p),
		(SELECT string_agg(d::text, E'\n' ORDER BY day) FROM SCHEMA.archived_days AS d),
		(SELECT string_agg(f::text, E'\n' ORDER BY chain_id, to_seq) FROM SCHEMA.folded_chains AS f),
		(SELECT string_agg(concat_ws(' ', tgrelid::regclass, tgname, tgenabled), E'\n' ORDER BY tgrelid, tgname) FROM pg_trigger),
		(SELECT string_agg(concat_ws(' ', relname, relowner::regrole), E'\n' ORDER BY relname) FROM pg_class
		WHERE relnamespace = 'SCHEMA'::regnamespace))`, "SCHEMA", r.quoted("schema"))
	must.Do(t, r.Postgres.Pool.QueryRow(t.Context(), query).Scan(&all))
	return all
}
