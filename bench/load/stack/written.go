package stack

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Written is how much PostgreSQL has written so far, in bytes: to its log, and
// what the database takes up in tables and indexes.
func (b Backends) Written(ctx context.Context) (wal, stored int64, err error) {
	conn, err := pgx.Connect(ctx, b.DatabaseURL)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot ask PostgreSQL what it wrote: %w", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing was written
	err = conn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, pg_database_size(current_database())`).Scan(&wal, &stored)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot ask PostgreSQL what it wrote: %w", err)
	}
	return wal, stored, nil
}

// settledSegments are 4 GB of log: more than a benchmark writes, and what
// min_wal_size of the servers in deploy/servers keeps.
const settledSegments = 256

// Settle brings PostgreSQL's log into the state that it has on a server that
// has worked for a while: segments are used again. On a new server each has to
// be made first, filled with zeros, and every commit waits for that, some 50 ms
// for every 16 MB.
func (b Backends) Settle(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, b.DatabaseURL)
	if err != nil {
		return fmt.Errorf("cannot settle PostgreSQL's log: %w", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is left to be said
	for range settledSegments {
		// A segment with nothing in it is not switched.
		if _, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(false, 'bench', ''); SELECT pg_switch_wal()"); err != nil {
			return fmt.Errorf("cannot settle PostgreSQL's log: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
		return fmt.Errorf("cannot settle PostgreSQL's log: %w", err)
	}
	return nil
}

// Missing counts the checks, by their ids in hexadecimal, that have no row.
func (b Backends) Missing(ctx context.Context, ids []string) (missing int, err error) {
	conn, err := pgx.Connect(ctx, b.DatabaseURL)
	if err != nil {
		return 0, fmt.Errorf("cannot look for recorded checks: %w", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing was written
	const atOnce = 5000
	for some := range slices.Chunk(ids, atOnce) {
		var n int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM unnest($1::uuid[]) AS id WHERE NOT EXISTS (SELECT FROM checks WHERE check_id = id)`, some).Scan(&n)
		if err != nil {
			return 0, fmt.Errorf("cannot look for recorded checks: %w", err)
		}
		missing += n
	}
	return missing, nil
}

// CheckID is the id in an answer to a check, in hexadecimal; "" without one.
func CheckID(body []byte) string {
	const prefix, length = `"check_id":"chk_`, 32
	i := bytes.Index(body, []byte(prefix))
	if i < 0 || len(body) < i+len(prefix)+length {
		return ""
	}
	return string(body[i+len(prefix):][:length])
}
