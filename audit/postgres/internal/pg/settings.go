package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// meaning are the settings that change what a statement means or returns. The owner of the
// database, or of the role, can set each of them for all sessions, so every session sets them
// itself.
const meaning = `
	('row_security', 'off'), -- policies make a query fail, instead of leaving rows out
	('client_encoding', 'UTF8'),
	('standard_conforming_strings', 'on'), ('transform_null_equals', 'off'), ('array_nulls', 'on'), ('quote_all_identifiers', 'off'),
	('bytea_output', 'hex'), ('extra_float_digits', '1'),
	('DateStyle', 'ISO, MDY'), ('IntervalStyle', 'postgres'), ('TimeZone', 'UTC'),
	('default_transaction_deferrable', 'off'),
	('statement_timeout', '0')`

// sessionSettings prepare a node's session. The search_path is set first and separately, because it
// decides the meaning of the statements after it. In it the deployment's schema comes right after
// pg_catalog, which a path that names pg_catalog after another schema would change, and no
// temporary table comes before a table.
//
// The session of a dead client must release its locks by itself (F16). Nothing may time out or
// weaken a COMMIT (F17), or hide the warning that it did not wait for a standby. Disabled triggers
// would let rows be changed; only a superuser may enable them again, any other role is refused the
// session.
const (
	sessionLockTimeout = "2s"
	sessionSettings    = `SELECT pg_catalog.set_config('search_path', coalesce(
			pg_catalog.quote_ident(pg_catalog.current_schema()) OPERATOR(pg_catalog.||) ', pg_temp',
			pg_catalog.current_setting('search_path')), false); -- with no schema nothing is found, and migrations say why
		SELECT set_config(name, value, false) FROM (VALUES ` + meaning + `,
			('default_transaction_isolation', 'read committed'),
			('client_min_messages', 'notice'),
			('lock_timeout', '` + sessionLockTimeout + `'),
			('idle_in_transaction_session_timeout', '5s'), ('idle_session_timeout', '0'),
			('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),
			('tcp_user_timeout', '5000')) AS wanted (name, value)
		UNION ALL SELECT set_config('synchronous_commit', -- always, so that a reload of the server's settings changes nothing here
			CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)
		UNION ALL SELECT set_config('transaction_timeout', '0', false)
			WHERE current_setting('transaction_timeout', true) IS NOT NULL -- PostgreSQL 17
		UNION ALL SELECT set_config('session_replication_role', 'origin', false)
			WHERE current_setting('session_replication_role') <> 'origin'`
	// Some platforms refuse this setting.
	optionalSettings = `SELECT set_config('client_connection_check_interval', '1s', false)`
)

// ReadingSettings prepare a transaction that verifies. It searches only pg_catalog, so its queries
// name tables with their schema. It trusts no constraint, because it looks for rows that contradict
// one.
const ReadingSettings = `SET LOCAL search_path = pg_catalog, pg_temp;
	SELECT set_config(name, value, true) FROM (VALUES ` + meaning + `,
		('constraint_exclusion', 'off'), ('lock_timeout', '0'),
		('idle_in_transaction_session_timeout', '0')) AS wanted (name, value) -- the first session waits for all
	UNION ALL SELECT set_config('transaction_timeout', '0', true) WHERE current_setting('transaction_timeout', true) IS NOT NULL`

func prepareSession(ctx context.Context, conn *pgconn.PgConn) error {
	if err := conn.Exec(ctx, sessionSettings).Close(); err != nil {
		return fmt.Errorf("cannot set up the session: %w", err)
	}
	_ = conn.Exec(ctx, optionalSettings).Close() // the next use finds a lost connection
	return nil
}
