package postgres

import (
	"context"
	"fmt"

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

// indexable says whether the schema is one that has all columns.
const indexable = `EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('violations') AND attname = 'xid')`

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
	_, err = tx.Exec(ctx, "DROP INDEX IF EXISTS "+replacedIndex)
	return err
}

// makeIndexes makes those that are missing while commits go on, which may take
// minutes. Of several nodes one makes them; the others wait for it.
func makeIndexes(ctx context.Context, conn *pgx.Conn) error {
	var due bool
	if err := conn.QueryRow(ctx, "SELECT "+indexable).Scan(&due); err != nil || !due {
		return err
	}
	for _, index := range violationIndexes() {
		if valid, err := hasIndex(ctx, conn, index.name); err != nil {
			return err
		} else if valid {
			continue
		}
		// What another node began and did not finish is there, but not valid.
		// Under the lock nobody is at it any more.
		for _, statement := range []string{
			"SET lock_timeout = 0",
			fmt.Sprintf(`DO $$ BEGIN
				LOCK TABLE violations IN SHARE UPDATE EXCLUSIVE MODE;
				IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('%[1]s') AND NOT indisvalid) THEN
					SET LOCAL lock_timeout = '500ms'; -- commits wait for this one
					DROP INDEX %[1]s;
				END IF;
			END $$`, index.name),
			"CREATE INDEX CONCURRENTLY IF NOT EXISTS " + index.name + " ON " + index.on,
			"RESET lock_timeout",
		} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("cannot make the index %s: %w", index.name, asOwner(err))
			}
		}
	}
	replaced, err := hasIndex(ctx, conn, replacedIndex)
	if err == nil && replaced {
		if _, err = conn.Exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+replacedIndex); err != nil {
			err = fmt.Errorf("cannot drop the index %s: %w", replacedIndex, asOwner(err))
		}
	}
	return err
}

func hasIndex(ctx context.Context, conn *pgx.Conn, name string) (valid bool, err error) {
	err = conn.QueryRow(ctx, "SELECT coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)), false)", name).Scan(&valid)
	return valid, err
}
