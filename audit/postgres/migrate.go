package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"spendgate/audit"
	"spendgate/audit/pause"
	"spendgate/audit/postgres/internal/pg"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the texts in order; the schema's version is how many of them were run. A
// released text never changes.
func migrations() []string {
	names, err := migrationFiles.ReadDir("migrations") // sorted by name
	if err != nil {
		panic("BUG: no migrations: " + err.Error())
	}
	texts := make([]string, len(names))
	for i, name := range names {
		text, err := migrationFiles.ReadFile("migrations/" + name.Name())
		if err != nil {
			panic("BUG: unreadable migration: " + err.Error())
		}
		texts[i] = string(text)
	}
	return texts
}

// CheckURL fails unless Open and Migrate can read the URL: its parameters have values that the
// driver knows, and the files that it names exist. The error quotes no part of the URL except a
// parameter's value.
func CheckURL(url string) error {
	config, err := pgxpool.ParseConfig(url) // knows the pool's parameters too
	if err == nil {
		return checkExecMode(config.ConnConfig)
	}
	text := err.Error()
	if _, problem, quotes := strings.Cut(text, "`: "); quotes { // pgx begins with the URL
		text = problem
	}
	return errors.New(text)
}

// checkExecMode refuses the modes in which the driver does not know the types
// of parameters, or reads no binary values: rows are decoded as they are hashed.
func checkExecMode(config *pgx.ConnConfig) error {
	switch mode := config.DefaultQueryExecMode; mode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return fmt.Errorf("default_query_exec_mode %s cannot be used; cache_describe suits poolers", mode)
	default:
		return nil
	}
}

// Migrate brings the schema in the first schema of the URL's search_path up to date. Any number of
// nodes may do so at once. Each migration is a transaction of its own: one that held the locks of all
// would wait for readers of several tables, which wait for it.
func Migrate(ctx context.Context, url string) error {
	config, err := pg.OwnerConfig(url)
	if err != nil {
		return err
	}
	return migrate(ctx, config, migrations())
}

// Migrated reports whether the schema is up to date; it changes nothing. It fails where Migrate
// would fail because the URL's role lacks a right.
func Migrated(ctx context.Context, url string) (migrated bool, err error) {
	conn, err := pg.ConnectOwner(ctx, url)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was changed
	var version int
	var may bool
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		if version, err = migratedTo(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT has_schema_privilege(current_schema(), 'CREATE')").Scan(&may)
	})
	switch known := len(migrations()); {
	case err != nil:
		return false, fmt.Errorf("cannot read the schema's version: %w", err)
	case version >= known:
		return true, nil
	case !may:
		return false, fmt.Errorf("the schema has %d of %d migrations, and this role may not make the others: "+
			"run `spendgate migrate` with the role that owns the schema, then grants.sql", version, known)
	}
	return false, nil
}

const (
	// lockWithin bounds how long a migration queues for a table's lock: all commits queue behind it
	// and have 1.2 s. The migration then gives way and tries again.
	lockWithin = "500ms"
	lockAgain  = time.Second
	lockTries  = 60
)

// lockVacuumed locks the tables that are being vacuumed, in the mode of a vacuum: no commit queues behind
// that, and autovacuum, which would outlast lockWithin, gives them up and does not come back before the
// migration ends. Whatever does not give its table up, such as CREATE INDEX CONCURRENTLY, may keep one
// that the migration does not need.
const lockVacuumed = `DO $$
	DECLARE vacuumed text;
	BEGIN
		FOR vacuumed IN SELECT DISTINCT l.relation::regclass::text
			FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
			WHERE l.mode = 'ShareUpdateExclusiveLock' AND l.granted AND l.pid <> pg_backend_pid()
				AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND c.relkind IN ('r', 'p') AND c.relnamespace = quote_ident(current_schema())::regnamespace
				AND pg_has_role(c.relowner, 'USAGE') LOOP
			BEGIN
				EXECUTE 'LOCK TABLE ' || vacuumed || ' IN SHARE UPDATE EXCLUSIVE MODE';
			EXCEPTION WHEN lock_not_available THEN NULL;
			END;
		END LOOP;
	END $$`

func migrate(ctx context.Context, config *pgx.ConnConfig, texts []string) error {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return fmt.Errorf("cannot migrate: %w: %w", audit.ErrUnavailable, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what it did is committed
	for tries := 1; ; tries++ {
		done := false
		err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
			done, err = runNext(ctx, tx, texts)
			return err
		})
		switch {
		case done && err == nil:
			return makeTodaysPartition(ctx, conn, time.Now())
		case err == nil:
			tries = 0
			continue
		case conn.IsClosed():
			return fmt.Errorf("cannot migrate: %w: %w", audit.ErrUnavailable, err)
		case !lockedOut(err) || ctx.Err() != nil:
			return fmt.Errorf("cannot migrate: %w", err)
		case tries == lockTries:
			return fmt.Errorf("cannot migrate: another session keeps a table in use: %w", err)
		}
		_ = pause.For(ctx, lockAgain)
	}
}

func lockedOut(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == pg.CodeLockTimeout
}

// makeTodaysPartition makes all missing partitions, but fails only without today's: another node
// may be making the others, and Tidy tries again.
func makeTodaysPartition(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	_, err := makePartitions(ctx, conn, now)
	if err == nil {
		return nil
	}
	if exists, look := hasPartition(ctx, conn, now.UTC().Format(time.DateOnly)); look == nil && exists {
		return nil
	}
	return fmt.Errorf("%w: %w", audit.ErrUnavailable, err)
}

// runNext runs the first of the texts that was not run, or reports that all were.
func runNext(ctx context.Context, tx pgx.Tx, texts []string) (done bool, err error) {
	version, err := migratedTo(ctx, tx)
	if err != nil || version >= len(texts) {
		return true, err // a role that may not change the schema need not
	}
	// The first lock is the schema's own, so that other deployments in the database migrate
	// independently.
	const prepare = `SET LOCAL lock_timeout = 0;
		SELECT pg_advisory_xact_lock(hashtext('migrations'), hashtext(current_schema()));
		SET LOCAL lock_timeout = '` + pg.VacuumWithin + `';
		` + lockVacuumed + `;
		SET LOCAL lock_timeout = '` + lockWithin + `';
		CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`
	if _, err := tx.Conn().PgConn().Exec(ctx, prepare).ReadAll(); err != nil {
		return false, asOwner(err)
	}
	if version, err = migratedTo(ctx, tx); err != nil || version >= len(texts) {
		return true, err
	}
	if _, err := tx.Conn().PgConn().Exec(ctx, texts[version]).ReadAll(); err != nil {
		return false, fmt.Errorf("migration %d: %w", version+1, asOwner(err))
	}
	if _, err := tx.Exec(ctx, "INSERT INTO migrations (version) VALUES ($1)", version+1); err != nil {
		return false, asOwner(err)
	}
	return version+1 == len(texts), nil
}

// migratedTo returns the version of the schema; 0 when it is empty.
func migratedTo(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var schema *string
	var begun bool
	err = tx.QueryRow(ctx, "SELECT current_schema(), to_regclass("+pg.OwnSchema+"'migrations') IS NOT NULL").Scan(&schema, &begun)
	switch {
	case err != nil:
		return 0, err
	case schema == nil:
		return 0, errors.New("no schema of the search_path exists, or the role may not use it: " +
			"make it with roles.sql, then run `spendgate migrate --service ROLE` with the role that owns it")
	case !begun:
		return 0, nil
	}
	err = tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM migrations").Scan(&version)
	return version, err
}

// asOwner adds advice to the error of a role that may not change the schema.
func asOwner(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == codeNotAllowed {
		return fmt.Errorf("run `spendgate migrate` with the role that owns the schema, then grants.sql: %w", err)
	}
	return err
}
