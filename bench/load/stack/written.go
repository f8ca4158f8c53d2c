package stack

import (
	"context"
	"fmt"

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
