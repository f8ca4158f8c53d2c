// Package snapshot reads a fleet's database as of one moment, for verifications, exports and archives.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// Snapshot is a database at one moment, while nodes go on writing. It only reads, and holds no lock
// for longer than one of its methods runs.
type Snapshot struct {
	pool  *pgxpool.Pool
	owned bool   // the pool ends with the snapshot
	held  pgx.Tx // keeps the snapshot open
	id    string // the exported snapshot, which other sessions import

	name   string // of the deployment's schema
	schema string // the same, as SQL names it
}

var _ verify.Evidence = (*Snapshot)(nil)

// Open takes a snapshot of the primary, or of a standby, that the URL names. It fails if
// the tables cannot be verified. conns bounds its connections.
func Open(ctx context.Context, url string, conns int) (*Snapshot, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("cannot read the database URL: %w", err)
	}
	config.MaxConns = int32(min(conns, 1<<10) + 1)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a connection pool: %w", err)
	}
	s, err := Take(ctx, pool)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// Take takes a snapshot over an existing pool. The pool remains the caller's, and must have
// one session more than there are concurrent reads.
func Take(ctx context.Context, pool *pgxpool.Pool) (*Snapshot, error) {
	s := &Snapshot{pool: pool}
	if err := s.begin(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot read the audit trail: %w", err)
	}
	return s, nil
}

func (s *Snapshot) begin(ctx context.Context) (err error) {
	if s.held, err = s.pool.BeginTx(ctx, pg.ReadOnly()); err != nil {
		return err
	}
	var schema *string
	if err := s.held.QueryRow(ctx, "SELECT pg_catalog.current_schema(), pg_catalog.pg_export_snapshot()").Scan(&schema, &s.id); err != nil {
		return err
	}
	if schema == nil {
		return errors.New("no schema of the search_path exists, or the role may not use it")
	}
	s.name, s.schema = *schema, pgx.Identifier{*schema}.Sanitize()
	if err := s.prepare(ctx, s.held); err != nil {
		return err
	}
	return s.read(ctx, "the tables", func(ctx context.Context, tx pgx.Tx) error { return suitable(ctx, tx, *schema) })
}

// prepare sets the transaction up. It sets nothing for the session, since the next transaction may
// have another one.
func (s *Snapshot) prepare(ctx context.Context, tx pgx.Tx) error {
	if err := tx.Conn().PgConn().Exec(ctx, pg.ReadingSettings).Close(); err != nil {
		return fmt.Errorf("cannot set up the session: %w", err)
	}
	return nil
}

// in replaces {schema} in a query with the deployment's schema.
func (s *Snapshot) in(query string) string { return strings.ReplaceAll(query, "{schema}", s.schema) }

// Close releases the snapshot; no method may be in use.
func (s *Snapshot) Close() {
	if s.held != nil {
		_ = s.held.Rollback(context.Background()) // it wrote nothing
	}
	if s.owned {
		s.pool.Close()
	}
}

// reading runs a query on the snapshot in a session of its own; it is the type of read and
// readChecks.
type reading func(ctx context.Context, what string, query func(context.Context, pgx.Tx) error) error

// read is the reading for queries that read no checks.
func (s *Snapshot) read(ctx context.Context, what string, query func(context.Context, pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pg.ReadOnly(), func(tx pgx.Tx) error {
		// Snapshots have names of digits and dashes, so the name needs no escaping.
		if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+s.id+"'"); err != nil {
			return err
		}
		if err := s.prepare(ctx, tx); err != nil {
			return err
		}
		return query(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", what, err)
	}
	return nil
}

// readChecks is the reading for queries that read checks. A query sees the partitions that are
// attached now, even in an older snapshot. readChecks therefore fails if a partition has left
// since, whose checks would seem removed.
func (s *Snapshot) readChecks(ctx context.Context, what string, query func(context.Context, pgx.Tx) error) error {
	return s.read(ctx, what, func(ctx context.Context, tx pgx.Tx) error {
		// From here on no partition can leave; commits are not held up.
		if _, err := tx.Exec(ctx, s.in("LOCK TABLE ONLY {schema}.checks IN ACCESS SHARE MODE")); err != nil {
			return err
		}
		var left *string // pg_inherits is read as of the snapshot, the function tells the present
		err := tx.QueryRow(ctx, s.in(`SELECT min(relname::text) FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
			WHERE inhparent = '{schema}.checks'::regclass AND pg_partition_root(inhrelid) IS DISTINCT FROM inhparent`)).Scan(&left)
		if err != nil {
			return err
		}
		if left != nil {
			return fmt.Errorf("%s was taken out of checks meanwhile: begin again", *left)
		}
		return query(ctx, tx)
	})
}

// Rows implements verify.Evidence.
func (s *Snapshot) Rows(ctx context.Context, r verify.Range, each func([]byte) error) error {
	return s.Walk(ctx, verify.Checks(r), each)
}

// Walk implements verify.Evidence. It reads the rows in the format of COPY.
func (s *Snapshot) Walk(ctx context.Context, w verify.Walk, each func([]byte) error) error {
	query := "SELECT " + pg.ColumnList(w.Table) + " FROM " + s.schema + "." + w.Name
	switch { // COPY takes no parameters
	case w.Text != "":
		query += fmt.Sprintf(` WHERE %s = convert_from('\x%x', 'UTF8')`, w.By, w.Text)
	case w.By != "":
		query += " WHERE " + w.By + " BETWEEN '" + w.Range.Low.Text("") + "' AND '" + w.Range.High.Text("") + "'"
	}
	read := reading(s.read)
	if w.Name == "checks" {
		read = s.readChecks
	}
	return read(ctx, "table "+w.Name, func(ctx context.Context, tx pgx.Tx) error {
		rows := pg.Copied{Each: each}
		if _, err := tx.Conn().PgConn().CopyTo(ctx, &rows, "COPY ("+query+" ORDER BY "+w.Order+") TO STDOUT (FORMAT binary)"); err != nil {
			return err
		}
		return rows.End()
	})
}

// Overview implements verify.Evidence.
func (s *Snapshot) Overview(ctx context.Context, r verify.Range) (o verify.Overview, err error) {
	o.Days = make(map[verify.Day]bool)
	err = s.readChecks(ctx, "what there is", func(ctx context.Context, tx pgx.Tx) error {
		var low, high spend.ID
		err := tx.QueryRow(ctx, s.in(`SELECT min(low::text COLLATE "C")::uuid, max(high::text COLLATE "C")::uuid,
			coalesce(sum(entries), 0)::bigint FROM (
			SELECT (SELECT check_id FROM {schema}.checks WHERE check_id BETWEEN $1 AND $2 ORDER BY check_id LIMIT 1) AS low,
				(SELECT check_id FROM {schema}.checks WHERE check_id BETWEEN $1 AND $2 ORDER BY check_id DESC LIMIT 1) AS high, 0 AS entries
			UNION ALL SELECT (SELECT id FROM {schema}.violations WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT 1),
				(SELECT id FROM {schema}.violations WHERE id BETWEEN $1 AND $2 ORDER BY id DESC LIMIT 1), 0
			UNION ALL SELECT (SELECT outcome_id FROM {schema}.outcomes WHERE outcome_id BETWEEN $1 AND $2 ORDER BY outcome_id LIMIT 1),
				(SELECT outcome_id FROM {schema}.outcomes WHERE outcome_id BETWEEN $1 AND $2 ORDER BY outcome_id DESC LIMIT 1), 0
			UNION ALL SELECT (SELECT check_id FROM {schema}.redemptions_open WHERE check_id BETWEEN $1 AND $2 ORDER BY check_id LIMIT 1),
				(SELECT check_id FROM {schema}.redemptions_open WHERE check_id BETWEEN $1 AND $2 ORDER BY check_id DESC LIMIT 1), 0
			UNION ALL SELECT min(first_id::text COLLATE "C")::uuid, max(last_id::text COLLATE "C")::uuid, sum(octet_length(entries)) / $3
				FROM {schema}.batches WHERE first_id <= $2 AND last_id >= $1) AS bounds`),
			[16]byte(r.Low), [16]byte(r.High), chain.EntrySize).Scan(pg.UUID(&low), pg.UUID(&high), &o.Entries)
		if err != nil {
			return err
		}
		o.Range = verify.Range{Low: low, High: high} // both are zero without rows
		if err := tx.QueryRow(ctx, "SELECT now()").Scan(&o.At); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, s.in(`SELECT (to_date(substr(relname, 8), 'YYYYMMDD') - date '1970-01-01')::bigint
			FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
			WHERE inhparent = '{schema}.checks'::regclass AND relname ~ '^checks_[0-9]{8}$'`)) // the rows return its error
		days, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		for _, day := range days {
			o.Days[verify.Day(day)] = true
		}
		if err != nil {
			return err
		}
		if err := s.archivedDays(ctx, tx, r, &o); err != nil {
			return err
		}
		return s.archivedMonths(ctx, tx, r, &o)
	})
	return o, err
}

// archivedDays adds the archived days of the range.
func (s *Snapshot) archivedDays(ctx context.Context, tx pgx.Tx, r verify.Range, o *verify.Overview) error {
	o.Archived = make(map[verify.Day]verify.ArchiveNote)
	var day int64
	var a verify.ArchiveNote
	return stream(ctx, tx, []any{&day, &a.Rows, pg.Bytea(&a.Manifest), pg.UTC(&a.At)}, func() error {
		one := verify.Day(day)
		if one < verify.DayOf(r.Low) || verify.DayOf(r.High) < one {
			return nil
		}
		o.Archived[one] = a
		o.Range = union(o.Range, one.Range())
		return nil
	}, s.in("SELECT (day - date '1970-01-01')::bigint, rows, manifest_sha256, archived_at FROM {schema}.archived_days"))
}

// archivedMonths adds the months of the range whose violations are archived.
func (s *Snapshot) archivedMonths(ctx context.Context, tx pgx.Tx, r verify.Range, o *verify.Overview) error {
	o.Months = make(map[verify.Month]verify.ArchivedMonth)
	var begin time.Time
	var a verify.ArchivedMonth
	into := []any{&begin, &a.Rows, pg.Bytea(&a.Manifest), pg.UTC(&a.At)}
	for i := range a.Kinds {
		into = append(into, &a.Kinds[i])
	}
	return stream(ctx, tx, into, func() error {
		one := verify.MonthOf(begin)
		if part := one.Range(); part.High.Compare(r.Low) < 0 || r.High.Compare(part.Low) < 0 {
			return nil
		}
		o.Months[one] = a
		o.Range = union(o.Range, one.Range())
		return nil
	}, s.in(`SELECT month, rows, manifest_sha256, archived_at, refund_blocks, refund_escalations, credit_blocks, credit_escalations,
		discount_blocks, discount_escalations, spend_blocks, spend_escalations FROM {schema}.archived_violations`))
}

// union returns the smallest range that holds both; the zero range is empty.
func union(a, b verify.Range) verify.Range {
	if a == (verify.Range{}) {
		return b
	}
	if b.Low.Compare(a.Low) < 0 {
		a.Low = b.Low
	}
	a.High = spend.Later(a.High, b.High)
	return a
}

// Weigh implements verify.Evidence.
func (s *Snapshot) Weigh(ctx context.Context, r verify.Range) (w verify.Weight, err error) {
	err = s.readChecks(ctx, "how much is in a range", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, s.in(`SELECT
			(SELECT coalesce(sum(octet_length(entries)) / $3, 0) FROM {schema}.batches WHERE first_id <= $2 AND last_id >= $1),
			EXISTS (SELECT FROM {schema}.batches WHERE first_id <= $2 AND last_id >= $1 AND (first_id >= $1 OR last_id <= $2)),
			(SELECT count(*) FROM {schema}.violations WHERE id BETWEEN $1 AND $2),
			(SELECT count(*) FROM {schema}.outcomes WHERE outcome_id BETWEEN $1 AND $2)
				+ (SELECT count(*) FROM {schema}.redemptions_open WHERE check_id BETWEEN $1 AND $2),
			EXISTS (SELECT FROM {schema}.checks WHERE check_id BETWEEN $1 AND $2)`),
			[16]byte(r.Low), [16]byte(r.High), chain.EntrySize).Scan(&w.Entries, &w.Edges, &w.Violations, &w.Outcomes, &w.Rows)
	})
	return w, err
}

// noIndex keeps the planner from indexes, which may lack rows.
const noIndex = "SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off"

// Totals implements verify.Evidence. It scans the whole tables, because an index may lack rows.
func (s *Snapshot) Totals(ctx context.Context) (t verify.Totals, err error) {
	err = s.readChecks(ctx, "how many rows there are", func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.Conn().PgConn().Exec(ctx, noIndex).Close(); err != nil {
			return err
		}
		return tx.QueryRow(ctx, s.in(`SELECT (SELECT count(*) FROM {schema}.checks), (SELECT count(*) FROM {schema}.violations),
			(SELECT count(*) FROM {schema}.outcomes), (SELECT count(*) FROM {schema}.batches), (SELECT count(*) FROM {schema}.policies),
			(SELECT count(*) FROM {schema}.keys), (SELECT count(*) FROM {schema}.changes), (SELECT count(*) FROM {schema}.events),
			(SELECT count(*) FROM {schema}.idempotency_keys),
			(SELECT count(*) FROM {schema}.redemptions_open), (SELECT count(*) FROM {schema}.payments)`)).
			Scan(&t.Checks, &t.Violations, &t.Outcomes, &t.Batches, &t.Policies, &t.Keys, &t.Changes, &t.Events, &t.IdempotencyKeys,
				&t.OpenRedemptions, &t.Payments)
	})
	return t, err
}
