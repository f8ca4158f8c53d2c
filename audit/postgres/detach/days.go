package detach

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/chain"
	"spendgate/audit/pause"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// days are the days of checks in a database, with a connection of the tables' owner: no other role
// may detach a day.
type days struct {
	conn *pgx.Conn
	turn *pgx.Conn // has the lock of takeTurn; nil without it
}

// day is the state of one day in the database.
type day struct {
	date     time.Time // 00:00 UTC
	attached bool      // its partition is one of checks
	detached bool      // its table exists, but is no partition
	archived bool      // noted as archived
	manifest spend.Hash
}

func (d day) name() string { return d.date.Format(time.DateOnly) }

func (d day) part() archive.Part { return archive.ChecksOf(d.date) }

// table is the name of the day's partition, which needs no quotes.
func (d day) table() string { return "checks_" + d.date.Format("20060102") }

func openDays(ctx context.Context, url string) (*days, error) {
	conn, err := pg.ConnectOwner(ctx, url)
	if err != nil {
		return nil, err
	}
	d := &days{conn: conn}
	if err := d.owned(ctx); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *days) owned(ctx context.Context) error {
	var owner bool
	err := d.conn.QueryRow(ctx, "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass("+pg.OwnSchema+"'checks')").
		Scan(&owner)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errors.New("there is no table checks in the first schema of the search_path: is this the database of spendgate?")
	case err == nil && !owner:
		return errors.New("only the role that owns the tables may take days out: set SPENDGATE_DATABASE_URL to its URL")
	}
	return err
}

// errTurn says that another process detaches.
var errTurn = errors.New("another spendgate audit detach is at work on this database: run it again when that has ended")

// takeTurn keeps other processes from detaching until close: two at once would write the same
// archive. The lock belongs to a transaction, because a pooler keeps a transaction on one
// connection. takeTurn waits up to a second, in which the session of a killed process ends.
func (d *days) takeTurn(ctx context.Context, url string) (err error) {
	if d.turn, err = pg.ConnectOwner(ctx, url); err != nil {
		return err
	}
	_, err = d.turn.PgConn().Exec(ctx, `BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL idle_in_transaction_session_timeout = 0;
		SELECT pg_advisory_xact_lock('archived_days'::regclass::oid::integer, 0)`).ReadAll()
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == pg.CodeLockTimeout {
		return errTurn
	}
	if err != nil {
		return fmt.Errorf("cannot lock out others that detach: %w", err)
	}
	return nil
}

// close ends the sessions; what they did is committed.
func (d *days) close() {
	for _, conn := range []*pgx.Conn{d.conn, d.turn} {
		if conn != nil {
			_ = conn.Close(context.Background())
		}
	}
}

// detachableBefore returns the first day that a promise may still need.
func (d *days) detachableBefore(ctx context.Context) (limit time.Time, err error) {
	if err = d.conn.QueryRow(ctx, "SELECT detachable_before()").Scan(&limit); err != nil {
		err = fmt.Errorf("cannot tell which days are needed: %w", err)
	}
	return limit, err
}

// before lists the days before a date that the database knows in any way, oldest first.
func (d *days) before(ctx context.Context, date time.Time) ([]day, error) {
	rows, _ := d.conn.Query(ctx, `WITH tables AS (
			SELECT to_date(substr(relname, 8), 'YYYYMMDD') AS day,
				EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid AND inhparent = 'checks'::regclass) AS attached
			FROM pg_class AS c WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r' AND relname ~ '^checks_[0-9]{8}$')
		SELECT day, coalesce(attached, false), NOT coalesce(attached, true), manifest_sha256
		FROM tables FULL JOIN archived_days USING (day) WHERE day < $1 ORDER BY day`, date) // the rows return its error
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one day, err error) {
		var manifest []byte
		err = row.Scan(&one.date, &one.attached, &one.detached, &manifest)
		one.archived = manifest != nil
		copy(one.manifest[:], manifest)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the days: %w", err)
	}
	return all, nil
}

// unpartitioned reports whether the default partition has checks from before a date.
func (d *days) unpartitioned(ctx context.Context, date time.Time) (found bool, err error) {
	err = d.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM checks_default WHERE check_id < $1)", [16]byte(audit.FirstID(date.UnixMilli()))).
		Scan(&found)
	if err != nil {
		err = fmt.Errorf("cannot look at the default partition: %w", err)
	}
	return found, err
}

// schema returns the version of the database's schema.
func (d *days) schema(ctx context.Context) (version int, err error) {
	if err = d.conn.QueryRow(ctx, "SELECT max(version) FROM migrations").Scan(&version); err != nil {
		err = fmt.Errorf("cannot read the schema's version: %w", err)
	}
	return version, err
}

// seal keeps further rows out of a day.
func (d *days) seal(ctx context.Context, one day) error {
	if _, err := d.conn.Exec(ctx, "SELECT close_day($1)", one.date); err != nil {
		return fmt.Errorf("cannot close %s: %w", one.name(), err)
	}
	return nil
}

// rows reads a sealed day, as read does.
func (d *days) rows(ctx context.Context, one day) iter.Seq2[[]byte, error] {
	return d.read(ctx, period{one.table(), chain.Checks(), one.date, one.date.AddDate(0, 0, 1), time.Hour})
}

// period is the rows of some time in a table that no longer changes.
type period struct {
	table      string
	of         chain.Table // the first column is the identifier
	begin, end time.Time
	piece      time.Duration // the span of one query
}

// read yields the rows in the order of identifiers, in the form of chain.HashRow; each row is valid
// until the next. It queries one piece at a time, so that no long query keeps the database from
// vacuuming.
func (d *days) read(ctx context.Context, of period) iter.Seq2[[]byte, error] {
	columns, id := pg.ColumnList(of.of), of.of.Fields[0].Name
	return func(yield func([]byte, error) bool) {
		for at := of.begin; at.Before(of.end); at = at.Add(of.piece) {
			low, high := audit.FirstID(at.UnixMilli()), audit.FirstID(at.Add(of.piece).UnixMilli())
			query := "SELECT " + columns + " FROM " + of.table + " WHERE " + id + " >= '" + hex.EncodeToString(low[:]) + "' AND " +
				id + " < '" + hex.EncodeToString(high[:]) + "' ORDER BY " + id
			if !d.copyRows(ctx, of.table, query, yield) {
				return
			}
		}
	}
}

// copyRows yields the rows of a query, each valid until the next, and reports whether to go on.
func (d *days) copyRows(ctx context.Context, table, query string, yield func([]byte, error) bool) bool {
	stopped := false
	rows := pg.Copied{Each: func(row []byte) error {
		if stopped = !yield(row, nil); stopped {
			return errStopped
		}
		return nil
	}}
	_, err := d.conn.PgConn().CopyTo(ctx, &rows, "COPY ("+query+") TO STDOUT (FORMAT binary)")
	if err == nil {
		err = rows.End()
	}
	if err != nil && !stopped {
		return yield(nil, fmt.Errorf("cannot read %s: %w", table, err)) && false
	}
	return !stopped
}

var errStopped = errors.New("stopped")

const (
	// detachPatience is how long commits wait, at most, behind a detach that waits for a lock
	// itself; detachPause is how long they are then left alone.
	detachPatience = "200ms"
	detachPause    = 2 * time.Second
	detachAttempts = 30
)

// detach takes an archived day out of checks. While it waits for its lock it holds up everything,
// so it waits for short times only.
func (d *days) detach(ctx context.Context, one day, rows int64, manifest spend.Hash) error {
	return d.patiently(ctx, one.table(), one.table()+", "+defaultPartition, "SELECT detach_day($1, $2, $3)", one.date, rows, manifest[:])
}

// defaultPartition is locked by whatever detaches something.
const defaultPartition = "checks_default"

// patiently runs a statement that detaches something, behind whose locks commits wait. The tables
// are first locked in the mode of a vacuum, behind which no commit waits: autovacuum outlasts
// detachPatience, and gives a table up to whoever has waited for it for deadlock_timeout.
func (d *days) patiently(ctx context.Context, name, tables, statement string, args ...any) error {
	for attempt := 1; ; attempt++ {
		err := pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
			_, err := tx.Conn().PgConn().Exec(ctx, "SET LOCAL lock_timeout = '"+pg.VacuumWithin+"'; "+
				"LOCK TABLE "+tables+" IN SHARE UPDATE EXCLUSIVE MODE; SET LOCAL lock_timeout = '"+detachPatience+"'").ReadAll()
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, statement, args...)
			return err
		})
		var refused *pgconn.PgError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &refused) || refused.Code != pg.CodeLockTimeout:
			return fmt.Errorf("cannot detach %s: %w", name, err)
		case attempt == detachAttempts:
			return fmt.Errorf("cannot detach %s: others hold checks for long, such as a dump, a report or a vacuum that prevents wraparound; "+
				"run it again later (%s)", name, d.holders(ctx, tables))
		}
		if err := pause.For(ctx, detachPause); err != nil {
			return err
		}
	}
}

// holders names the sessions that have a lock on checks or one of these tables.
func (d *days) holders(ctx context.Context, tables string) string {
	rows, _ := d.conn.Query(ctx, `SELECT DISTINCT format('session %s of %s', l.pid, coalesce(usename, backend_type, '?'))
		FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
		WHERE l.relation = ANY (string_to_array('checks, ' || $1, ', ')::regclass[])
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND l.granted AND l.pid <> pg_backend_pid() LIMIT 5`, tables)
	// the rows return the error of Query
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		return "they cannot be named"
	}
	return strings.Join(names, ", ")
}

// drop removes the table of a day that was detached.
func (d *days) drop(ctx context.Context, one day) error {
	if _, err := d.conn.Exec(ctx, "DROP TABLE "+one.table()); err != nil {
		return fmt.Errorf("cannot drop %s: %w", one.table(), err)
	}
	return nil
}
