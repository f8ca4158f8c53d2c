package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"spendgate/audit/chain"
	"spendgate/audit/verify"
	"spendgate/hotpath/spend"
)

// Snapshot is a database at one moment, while nodes go on writing. It reads,
// and takes no lock for longer than one of its methods.
type Snapshot struct {
	pool *pgxpool.Pool
	held pgx.Tx // keeps the moment
	id   string // by which other sessions read the same moment
}

var _ verify.Evidence = (*Snapshot)(nil)

// OpenSnapshot takes one of the primary, or of a standby, that the URL names.
// It fails when the tables are not those that can be verified. conns bounds its
// connections.
func OpenSnapshot(ctx context.Context, url string, conns int) (*Snapshot, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("cannot read the database URL: %w", err)
	}
	config.MaxConns = int32(min(conns, 1<<10) + 1)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		// The longest statement reads a whole chain, and the first session waits for all.
		_, err := conn.Exec(ctx, `SELECT set_config(name, '0', false) FROM (VALUES
			('statement_timeout'), ('idle_in_transaction_session_timeout')) AS wanted (name)`)
		return err
	}
	s := new(Snapshot)
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("cannot make a connection pool: %w", err)
	}
	if err := s.begin(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot read the audit trail: %w", err)
	}
	return s, nil
}

func (s *Snapshot) begin(ctx context.Context) (err error) {
	if s.held, err = s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}); err != nil {
		return err
	}
	if err := s.held.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&s.id); err != nil {
		return err
	}
	return s.read(ctx, s.suitable)
}

// Close lets the moment go; no method may be in use.
func (s *Snapshot) Close() {
	if s.held != nil {
		_ = s.held.Rollback(context.Background()) // it wrote nothing
	}
	s.pool.Close()
}

// countedBy is the column of violations by which they are counted. It is no
// part of the record.
const countedBy = "xid"

// verified is what there is to know of a table before its rows are read.
type verified struct {
	columns []string
	keys    []string // of them those that rows are found by, which a row without would not be
}

func verifiedTables() map[string]verified {
	batches := []string{"chain_id", "seq", "first_id", "last_id", "version", "head", "entries"}
	links := []string{"seq", "policy_id", "version", "hash", "head"}
	days := []string{"day", "rows", "manifest_sha256", "archived_at"}
	return map[string]verified{
		"checks": {chain.CheckColumns(), []string{"check_id"}}, "violations": {chain.ViolationColumns(), []string{"id"}},
		"policies": {chain.PolicyColumns(), []string{"policy_id", "version", "generation"}},
		"batches":  {batches, batches}, "policy_chain": {links, links}, "archived_days": {days, days},
	}
}

// describe says of a table what a catalogue that somebody changed could use to
// hide rows from the verifier, or show others to the rest. The name is looked up
// as statements do, and must lead to the deployment's own schema.
const describe = `SELECT array_agg(a.attname::text), coalesce(array_agg(a.attname::text) FILTER (WHERE NOT a.attnotnull), '{}'),
		c.relkind IN ('r', 'p') AND NOT c.relrowsecurity
			AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND NOT convalidated)
			AND c.relnamespace IS NOT DISTINCT FROM quote_ident(current_schema())::regnamespace
	FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	WHERE c.oid = to_regclass($1) GROUP BY c.oid`

// suitable refuses tables with columns that nobody verifies, without those that
// are verified, and of whose rows not everybody sees the same.
func (s *Snapshot) suitable(ctx context.Context, tx pgx.Tx) error {
	for table, wanted := range verifiedTables() {
		var columns, nullable []string
		var plain bool
		err := tx.QueryRow(ctx, describe, table).Scan(&columns, &nullable, &plain)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("there is no table %s: is this the database of spendgate, and did `spendgate migrate` bring it up to date?", table)
		}
		if err != nil {
			return err
		}
		if !plain {
			return fmt.Errorf("%s is no table, has row-level security or a constraint that was not validated, or is not in the first schema of the search_path: "+
				"who verifies might not see what others see", table)
		}
		columns = slices.DeleteFunc(columns, func(c string) bool { return table == "violations" && c == countedBy })
		slices.Sort(columns)
		if expected := slices.Sorted(slices.Values(wanted.columns)); !slices.Equal(columns, expected) {
			return fmt.Errorf("table %s has the columns %s; this program verifies %s",
				table, strings.Join(columns, ", "), strings.Join(expected, ", "))
		}
		for _, key := range wanted.keys {
			if slices.Contains(nullable, key) {
				return fmt.Errorf("column %s of table %s may be null, which it was not made to be: such rows would not be found", key, table)
			}
		}
	}
	return nil
}

// reading runs a query on the moment in a session of its own: read, or readChecks.
type reading func(ctx context.Context, query func(context.Context, pgx.Tx) error) error

// read is a reading.
func (s *Snapshot) read(ctx context.Context, query func(context.Context, pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
		// Exporting sessions name snapshots by digits and dashes.
		if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+s.id+"'"); err != nil {
			return err
		}
		return query(ctx, tx)
	})
}

// readChecks is a reading of what reads checks. One reads the partitions that
// are attached now, also in the snapshot of a moment when there were others: it
// fails when one has left since, whose checks would look removed.
func (s *Snapshot) readChecks(ctx context.Context, query func(context.Context, pgx.Tx) error) error {
	return s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// From here on none can leave; commits are not held up.
		if _, err := tx.Exec(ctx, "LOCK TABLE ONLY checks IN ACCESS SHARE MODE"); err != nil {
			return err
		}
		var left *string // pg_inherits is read as of the moment, the function tells of now
		err := tx.QueryRow(ctx, `SELECT min(relname::text) FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
			WHERE inhparent = 'checks'::regclass AND pg_partition_root(inhrelid) IS DISTINCT FROM inhparent`).Scan(&left)
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
	return s.copy(ctx, s.readChecks, "checks", columnList(chain.CheckColumns()), "check_id", r, each)
}

// Violations implements verify.Evidence.
func (s *Snapshot) Violations(ctx context.Context, r verify.Range, each func([]byte) error) error {
	return s.copy(ctx, s.read, "violations", columnList(chain.ViolationColumns()), "id", r, each)
}

// columnList is what a row's encoding is made of.
func columnList(columns []string) string {
	return strings.ReplaceAll(strings.Join(columns, ","), "amount", "amount::text")
}

func (s *Snapshot) copy(ctx context.Context, in reading, table, columns, id string, r verify.Range, each func([]byte) error) error {
	query := "COPY (SELECT " + columns + " FROM " + table + " WHERE " + id + " BETWEEN '" + hex.EncodeToString(r.Low[:]) +
		"' AND '" + hex.EncodeToString(r.High[:]) + "' ORDER BY " + id + ") TO STDOUT (FORMAT binary)"
	err := s.copyRows(ctx, in, query, each)
	if err != nil {
		return fmt.Errorf("cannot read table %s: %w", table, err)
	}
	return nil
}

func (s *Snapshot) copyRows(ctx context.Context, in reading, query string, each func([]byte) error) error {
	return in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows := copied{each: each}
		if _, err := tx.Conn().PgConn().CopyTo(ctx, &rows, query); err != nil {
			return err
		}
		return rows.end()
	})
}

// Overview implements verify.Evidence.
func (s *Snapshot) Overview(ctx context.Context, r verify.Range) (o verify.Overview, err error) {
	o.Days = make(map[verify.Day]bool)
	err = s.readChecks(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var low, high *[16]byte
		err := tx.QueryRow(ctx, `SELECT min(low::text)::uuid, max(high::text)::uuid, coalesce(sum(entries), 0)::bigint FROM (
			SELECT (SELECT check_id FROM checks WHERE check_id BETWEEN $1 AND $2 ORDER BY check_id LIMIT 1) AS low,
				(SELECT check_id FROM checks WHERE check_id BETWEEN $1 AND $2 ORDER BY check_id DESC LIMIT 1) AS high, 0 AS entries
			UNION ALL SELECT (SELECT id FROM violations WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT 1),
				(SELECT id FROM violations WHERE id BETWEEN $1 AND $2 ORDER BY id DESC LIMIT 1), 0
			UNION ALL SELECT min(first_id::text)::uuid, max(last_id::text)::uuid, sum(octet_length(entries)) / $3
				FROM batches WHERE first_id <= $2 AND last_id >= $1) AS bounds`,
			[16]byte(r.Low), [16]byte(r.High), chain.EntrySize).Scan(&low, &high, &o.Entries)
		if err != nil {
			return err
		}
		if low != nil && high != nil {
			o.Range = verify.Range{Low: spend.ID(*low), High: spend.ID(*high)}
		}
		rows, err := tx.Query(ctx, `SELECT (to_date(substr(relname, 8), 'YYYYMMDD') - date '1970-01-01')::bigint
			FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
			WHERE inhparent = 'checks'::regclass AND relname ~ '^checks_[0-9]{8}$'`)
		if err != nil {
			return err
		}
		days, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		for _, day := range days {
			o.Days[verify.Day(day)] = true
		}
		if err != nil {
			return err
		}
		return archivedDays(ctx, tx, r, &o)
	})
	if err != nil {
		return o, fmt.Errorf("cannot look the audit trail over: %w", err)
	}
	return o, nil
}

// archivedDays adds the days of the range that left.
func archivedDays(ctx context.Context, tx pgx.Tx, r verify.Range, o *verify.Overview) error {
	o.Archived = make(map[verify.Day]verify.ArchivedDay)
	var day int64
	var a verify.ArchivedDay
	var manifest []byte
	return stream(ctx, tx, []any{&day, &a.Rows, &manifest, &a.At}, func() error {
		one := verify.Day(day)
		if one < verify.DayOf(r.Low) || verify.DayOf(r.High) < one {
			return nil
		}
		copy(a.Manifest[:], manifest)
		o.Archived[one] = a
		o.Range = union(o.Range, one.Range())
		return nil
	}, "SELECT (day - date '1970-01-01')::bigint, rows, manifest_sha256, archived_at FROM archived_days")
}

// union is the smallest range that holds both; the zero range is none.
func union(a, b verify.Range) verify.Range {
	if a == (verify.Range{}) {
		return b
	}
	if bytes.Compare(b.Low[:], a.Low[:]) < 0 {
		a.Low = b.Low
	}
	if bytes.Compare(a.High[:], b.High[:]) < 0 {
		a.High = b.High
	}
	return a
}

// Weigh implements verify.Evidence.
func (s *Snapshot) Weigh(ctx context.Context, r verify.Range) (w verify.Weight, err error) {
	err = s.readChecks(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT
			(SELECT coalesce(sum(octet_length(entries)) / $3, 0) FROM batches WHERE first_id <= $2 AND last_id >= $1),
			EXISTS (SELECT FROM batches WHERE first_id <= $2 AND last_id >= $1 AND (first_id >= $1 OR last_id <= $2)),
			(SELECT count(*) FROM violations WHERE id BETWEEN $1 AND $2),
			EXISTS (SELECT FROM checks WHERE check_id BETWEEN $1 AND $2)`,
			[16]byte(r.Low), [16]byte(r.High), chain.EntrySize).Scan(&w.Entries, &w.Edges, &w.Violations, &w.Rows)
	})
	if err != nil {
		return w, fmt.Errorf("cannot count what is in a range: %w", err)
	}
	return w, nil
}
