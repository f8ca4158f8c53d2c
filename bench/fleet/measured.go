package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// StartMeasured starts the servers that benchmarks measure, as in production:
// PostgreSQL with the settings that are advised and a recycled log. Nodes, of a
// binary that the Makefile has built in .bin, are still to be added.
func StartMeasured(ctx context.Context, name string) (*Fleet, error) {
	if err := Install(ctx, os.Stderr, "redis-server", "postgresql"); err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(filepath.Join(".bin", name))
	if err != nil {
		return nil, fmt.Errorf("cannot find the service: %w", err)
	}
	f, err := Start(ctx, Options{Binary: binary, Settings: Settings{"PPROF": "true", "LOG_LEVEL": "warn"}, Postgres: AdvisedSettings()})
	if err != nil {
		return nil, err
	}
	if err := f.Postgres.recycleWAL(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// End ends the nodes, each of which must end well, and then everything else.
func (f *Fleet) End() error {
	var failures []error
	for _, n := range f.Nodes {
		failures = append(failures, n.End())
	}
	return errors.Join(append(failures, f.Close())...)
}

// Written returns how much the server has written so far, in bytes: to its log,
// and what the database takes up in tables and indexes.
func (p *Postgres) Written(ctx context.Context) (wal, stored int64, err error) {
	err = p.Pool.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, pg_database_size(current_database())`).
		Scan(&wal, &stored)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot ask PostgreSQL what it wrote: %w", err)
	}
	return wal, stored, nil
}

// recycledSegments is 4 GB of log: more than a benchmark writes, and as much as min_wal_size of
// AdvisedSettings keeps.
const recycledSegments = 256

// recycleWAL brings the write-ahead log into the state that it has on a server that has worked for
// a while, in which segments are reused. On a new server each segment must first be created, filled
// with zeros, and every commit waits for that, some 50 ms for every 16 MB.
func (p *Postgres) recycleWAL(ctx context.Context) error {
	for range recycledSegments {
		// An empty segment is not switched.
		if _, err := p.Pool.Exec(ctx, "SELECT pg_logical_emit_message(false, 'bench', ''); SELECT pg_switch_wal()"); err != nil {
			return fmt.Errorf("cannot recycle PostgreSQL's log: %w", err)
		}
	}
	if _, err := p.Pool.Exec(ctx, "CHECKPOINT"); err != nil {
		return fmt.Errorf("cannot recycle PostgreSQL's log: %w", err)
	}
	return nil
}

// Missing counts the checks, by their IDs in hexadecimal, that have no row.
func (p *Postgres) Missing(ctx context.Context, ids []string) (missing int, err error) {
	const atOnce = 5000
	for some := range slices.Chunk(ids, atOnce) {
		var n int
		err := p.Pool.QueryRow(ctx, `SELECT count(*) FROM unnest($1::uuid[]) AS id WHERE NOT EXISTS (SELECT FROM checks WHERE check_id = id)`,
			some).Scan(&n)
		if err != nil {
			return 0, fmt.Errorf("cannot look for recorded checks: %w", err)
		}
		missing += n
	}
	return missing, nil
}
