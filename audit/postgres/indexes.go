package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// An index of violations. Violations are never removed, so the table may be
// large when it gets another: commits must go on meanwhile, which an index made
// in the transaction of a migration would forbid.
type index struct{ name, on string }

// violationIndexes begin with what filters compare, so that each combination
// reads what it answers and little else, whatever else there is. That of
// transactions is for what is too new for the counts.
func violationIndexes() []index {
	return []index{
		{"violations_kind", "violations (action_type, decision, id)"},
		{"violations_agent_kind", "violations (agent_id, action_type, decision, id)"},
		{"violations_xid", "violations (xid) WHERE xid > '0'"},
	}
}

// replacedIndex is that of version 1, which violations_agent_kind replaces.
const replacedIndex = "violations_agent"

// ownSchema, put before a name, is what to_regclass finds in the deployment's
// own schema only: behind it on the search_path may be another deployment.
const ownSchema = "quote_ident(current_schema()) || '.' || "

// indexable says whether the schema is one that has all columns.
const indexable = `EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass(` + ownSchema + `'violations') AND attname = 'xid')`

// makeIndexesOfEmpty makes them as part of a migration if nobody would wait.
func makeIndexesOfEmpty(ctx context.Context, tx pgx.Tx) error {
	var empty bool
	err := tx.QueryRow(ctx, "SELECT "+indexable+" AND NOT EXISTS (SELECT FROM violations)").Scan(&empty)
	if err != nil || !empty {
		return err
	}
	for _, index := range violationIndexes() {
		if _, err := tx.Exec(ctx, "CREATE INDEX IF NOT EXISTS "+index.name+" ON "+index.on); err != nil {
			return err
		}
	}
	return dropReplaced(ctx, tx.Conn(), "")
}

// makeIndexes makes those that are missing while commits go on, which may take
// minutes. Of several nodes one makes them; the others ask now and then whether
// it is done. None may wait for it within a statement: an index waits for all
// older snapshots, so that each would wait for the other.
func makeIndexes(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig) error {
	for {
		due, err := indexesDue(ctx, conn)
		if err != nil || !due {
			return err
		}
		mine, err := makeIndexesInTurn(ctx, conn, config)
		if err != nil || mine {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the node that makes the indexes: %w", ctx.Err())
		case <-time.After(lockAgain):
		}
	}
}

func indexesDue(ctx context.Context, conn *pgx.Conn) (due bool, err error) {
	if err := conn.QueryRow(ctx, "SELECT "+indexable).Scan(&due); err != nil || !due {
		return false, err
	}
	for _, index := range violationIndexes() {
		if valid, err := indexValid(ctx, conn, index.name); err != nil || !valid {
			return true, err
		}
	}
	// Also one that a drop which did not finish left invalid: it costs commits
	// no less.
	err = conn.QueryRow(ctx, "SELECT to_regclass("+ownSchema+"$1) IS NOT NULL", replacedIndex).Scan(&due)
	return due, err
}

// makeIndexesInTurn makes them unless another node is at it. Whose turn it is
// shows in a lock of a transaction of its own, which is open, but has no
// snapshot that an index would wait for. It is idle for as long as the indexes
// take, which no timeout may end: another node would begin beside this one.
func makeIndexesInTurn(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig) (mine bool, err error) {
	turn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return false, err
	}
	defer func() { _ = turn.Close(context.WithoutCancel(ctx)) }() // which ends the turn
	tx, err := turn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return false, err
	}
	const take = "SELECT pg_try_advisory_xact_lock(hashtext('indexes'), hashtext(current_schema()))"
	if err := tx.QueryRow(ctx, take).Scan(&mine); err != nil || !mine {
		return false, err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		return true, err
	}
	// They wait for every transaction that began before, however long it takes.
	if _, err := conn.Exec(ctx, "SET lock_timeout = 0"); err != nil {
		return true, err
	}
	if err := replaceIndexes(ctx, conn); err != nil {
		return true, err
	}
	_, err = conn.Exec(ctx, "SET lock_timeout = '"+sessionLockTimeout+"'")
	return true, err
}

func replaceIndexes(ctx context.Context, conn *pgx.Conn) error {
	for _, index := range violationIndexes() {
		if err := makeIndex(ctx, conn, index); err != nil {
			return fmt.Errorf("cannot make the index %s: %w", index.name, asOwner(err))
		}
	}
	if err := dropReplaced(ctx, conn, "CONCURRENTLY"); err != nil {
		return fmt.Errorf("cannot drop the index %s: %w", replacedIndex, asOwner(err))
	}
	return nil
}

// dropInvalid drops an index that was begun and not finished. A server may
// still be at it, though the node that asked is gone: LOCK waits for that, and
// has no snapshot while it waits. Commits wait for the drop.
const dropInvalid = `BEGIN;
	LOCK TABLE violations IN SHARE UPDATE EXCLUSIVE MODE;
	DO $$ BEGIN
		IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(` + ownSchema + `'%[1]s') AND NOT indisvalid) THEN
			SET LOCAL lock_timeout = '500ms';
			EXECUTE format('DROP INDEX %%I.%[1]s', current_schema());
		END IF;
	END $$;
	COMMIT`

func makeIndex(ctx context.Context, conn *pgx.Conn, index index) error {
	if valid, err := indexValid(ctx, conn, index.name); err != nil || valid {
		return err
	}
	if _, err := conn.PgConn().Exec(ctx, fmt.Sprintf(dropInvalid, index.name)).ReadAll(); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "CREATE INDEX CONCURRENTLY IF NOT EXISTS "+index.name+" ON "+index.on)
	return err
}

// dropReplaced drops the replaced index of the deployment's own schema, which
// DROP alone would also take from another one's.
func dropReplaced(ctx context.Context, conn *pgx.Conn, concurrently string) error {
	var drop string
	err := conn.QueryRow(ctx, "SELECT format('DROP INDEX "+concurrently+" IF EXISTS %I."+replacedIndex+"', current_schema())").Scan(&drop)
	if err == nil {
		_, err = conn.Exec(ctx, drop)
	}
	return err
}

func indexValid(ctx context.Context, conn *pgx.Conn, name string) (valid bool, err error) {
	const query = "SELECT coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(" + ownSchema + "$1)), false)"
	err = conn.QueryRow(ctx, query, name).Scan(&valid)
	return valid, err
}
