package sqlite

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"spendgate/audit"
	"spendgate/audit/sqlstore"
)

// Store is an audit.Store in one file. It is safe for concurrent use.
type Store struct {
	*sqlstore.Store

	writer *sql.DB // one connection
	reader *sql.DB
	log    *slog.Logger

	insertCheck, insertChecks         *sql.Stmt // one row, rowsPerInsert rows
	insertViolation, insertViolations *sql.Stmt
	insertKey, insertBatch            *sql.Stmt
}

var _ audit.Store = (*Store)(nil)

//go:embed schema.sql
var schema string

const (
	// schemaVersion is the version of the schema in a file. A released schema never changes: another one has the next
	// version, and makeSchema upgrades a file of the version before.
	schemaVersion = 1
	// readers is enough to keep a few cores busy; each reader costs a page cache.
	readers = 4
	// busyTimeout bounds the wait for another process, such as a backup, that
	// holds the file. Below the 2 s in which a check must be answered (G7).
	busyTimeout = time.Second
)

// Open opens the store in the file path, and creates it if it does not exist. It makes the file
// unreadable for other users of the machine.
func Open(ctx context.Context, path string, logger *slog.Logger) (*Store, error) {
	return openAs(ctx, path, logger, (*Store).migrate)
}

// OpenMade is Open for programs that only read: it makes no file.
func OpenMade(ctx context.Context, path string, logger *slog.Logger) (*Store, error) {
	return openAs(ctx, path, logger, func(s *Store, ctx context.Context) error {
		version, err := one(ctx, s.reader, "cannot read which schema it has", scalar[int], "PRAGMA user_version")
		if err == nil && version != schemaVersion {
			err = otherSchema(version)
		}
		return err
	})
}

func openAs(ctx context.Context, path string, logger *slog.Logger, ready func(*Store, context.Context) error) (*Store, error) {
	if err := makePrivate(path); err != nil {
		return nil, fmt.Errorf("cannot keep the store %q to its owner: %w", path, err)
	}
	s := &Store{log: logger}
	s.Store = sqlstore.New(database{s}, eventsFloor)
	var err error
	if s.writer, err = sql.Open("sqlite", dataSource(path, "_txlock=immediate")); err != nil {
		return nil, fmt.Errorf("cannot open the store %q: %w", path, err)
	}
	s.writer.SetMaxOpenConns(1)
	if s.reader, err = sql.Open("sqlite", dataSource(path, "_pragma=query_only(1)")); err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot open the store %q: %w", path, err)
	}
	s.reader.SetMaxOpenConns(readers)
	s.reader.SetMaxIdleConns(readers)
	if err = ready(s, ctx); err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot open the store %q: %w", path, err)
	}
	return s, nil
}

// makePrivate creates the file if it does not exist. SQLite gives its auxiliary files the
// permissions of the database, but leaves those of files that a killed process left.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return err
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Chmod(path+suffix, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// dataSource names the file with the settings that each connection needs.
// fullfsync matters on macOS alone, where a plain sync does not reach the disk.
func dataSource(path, extra string) string {
	pragmas := fmt.Sprintf("_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"+
		"&_pragma=fullfsync(1)&_pragma=recursive_triggers(1)&_pragma=foreign_keys(1)&", busyTimeout.Milliseconds())
	// A path is not a URL: escape what would end it.
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + pragmas + extra
}

func (s *Store) prepare(ctx context.Context) error {
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.insertCheck, insertInto("checks", checkColumns.String(), 1)},
		{&s.insertChecks, insertInto("checks", checkColumns.String(), rowsPerInsert)},
		{&s.insertViolation, insertInto("violations", violationColumns.String(), 1)},
		{&s.insertViolations, insertInto("violations", violationColumns.String(), rowsPerInsert)},
		{&s.insertKey, insertKey},
		{&s.insertBatch, insertBatch},
	} {
		var err error
		if *p.stmt, err = s.writer.PrepareContext(ctx, p.text); err != nil { //nolint:sqlclosecheck // closed with the store
			return err
		}
	}
	return nil
}

// migrate creates the schema of a new file. The write lock makes two
// processes that start together take turns; while one of them switches a new file to WAL, SQLite
// does not make the other wait.
func (s *Store) migrate(ctx context.Context) error {
	const pause = 10 * time.Millisecond
	for end := time.Now().Add(busyTimeout); ; time.Sleep(pause) {
		if err := s.makeSchema(ctx); !errors.Is(err, audit.ErrUnavailable) || time.Now().After(end) {
			return err
		}
	}
}

func (s *Store) makeSchema(ctx context.Context) error {
	return s.write(ctx, "cannot make the schema", func(tx *sql.Tx) error {
		version, err := scalar[int](tx.QueryRow("PRAGMA user_version"))
		switch {
		case err != nil || version == schemaVersion:
			return err
		case version > 0:
			return otherSchema(version)
		}
		if _, err := tx.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
			return err
		}
		return makeImmutable(tx)
	})
}

func otherSchema(version int) error {
	return fmt.Errorf("it was made by another build, whose schema is %d; this one has schema %d: move the file away, or run that build",
		version, schemaVersion)
}

// deleteOfEvents refuses deletions of events whose removal is not recorded.
const deleteOfEvents = "CREATE TRIGGER events_delete BEFORE DELETE ON events WHEN OLD.sequence > " + eventsFloor +
	" BEGIN SELECT RAISE(ABORT, 'events are immutable'); END;"

// makeImmutable makes the database itself refuse changes (G8). INSERT OR REPLACE deletes without
// firing a delete trigger, so an insert over an existing row is refused, too.
func makeImmutable(tx *sql.Tx) error {
	for table, same := range map[string]string{
		"approvals":     "id = NEW.id OR rowid = NEW.rowid",
		"approval_uses": "approval_id = NEW.approval_id OR rowid = NEW.rowid",
		"batches":       "chain_id = NEW.chain_id AND seq = NEW.seq",
		"budget_exhaustions": "counter_id = NEW.counter_id AND start_ms = NEW.start_ms AND percent = NEW.percent AND nth = NEW.nth " +
			"OR id = NEW.id OR rowid = NEW.rowid",
		"changes":    "seq = NEW.seq",
		"checks":     "check_id = NEW.check_id OR rowid = NEW.rowid",
		"drafts":     "policy_id = NEW.policy_id AND generation = NEW.generation OR rowid = NEW.rowid",
		"events":     "sequence = NEW.sequence OR source = NEW.source AND type = NEW.type",
		"outcomes":   "check_id = NEW.check_id AND step = NEW.step OR outcome_id = NEW.outcome_id OR rowid = NEW.rowid",
		"policies":   "policy_id = NEW.policy_id AND version = NEW.version OR rowid = NEW.rowid",
		"violations": "id = NEW.id OR rowid = NEW.rowid",
	} {
		refuse := " ON " + table + " BEGIN SELECT RAISE(ABORT, '" + table + " are immutable'); END;"
		refuseDelete := "CREATE TRIGGER " + table + "_delete BEFORE DELETE" + refuse
		if table == "events" {
			refuseDelete = deleteOfEvents
		}
		_, err := tx.Exec("CREATE TRIGGER " + table + "_update BEFORE UPDATE" + refuse + refuseDelete +
			"CREATE TRIGGER " + table + "_replace BEFORE INSERT" + strings.Replace(refuse, " BEGIN", " WHEN EXISTS (SELECT 1 FROM "+table+" WHERE "+
			same+") BEGIN", 1))
		if err != nil {
			return err
		}
	}
	return nil
}

// Close closes the files; no method may be in use.
func (s *Store) Close() {
	if s.reader != nil {
		if err := s.reader.Close(); err != nil {
			s.log.Error("cannot close connections of the store", "error", err)
		}
	}
	if err := s.writer.Close(); err != nil {
		s.log.Error("cannot close the store", "error", err)
	}
}

// Ping implements audit.Store.
func (s *Store) Ping(ctx context.Context) error {
	version, err := one(ctx, s.reader, "cannot reach the store", scalar[int], "PRAGMA user_version")
	if err == nil && version != schemaVersion {
		return fmt.Errorf("the store's schema is %d, this build needs %d: %w", version, schemaVersion, audit.ErrUnavailable)
	}
	return err
}

// Status implements audit.Store.
func (s *Store) Status(ctx context.Context) (audit.Status, error) {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return audit.Status{}, unavailable("cannot read the store's settings", err)
	}
	defer func() { _ = conn.Close() }() // returns it to the pool
	var journal string
	var synchronous int
	err = errors.Join(
		conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal),
		conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous))
	if err != nil {
		return audit.Status{}, unavailable("cannot read the store's settings", err)
	}
	levels := []string{"off", "normal", "full", "extra"}
	return audit.Status{
		Clock:      time.Now(),
		Durability: "embedded store, journal " + journal + ", synchronous " + levels[synchronous&3] + ", no replica",
		Safe:       synchronous >= 2,
	}, nil
}

const (
	endedBacktest = " status NOT IN ('queued', 'running') "
	// ofNoDraft selects backtests that no draft keeps.
	ofNoDraft = " AND draft NOT IN (SELECT max(generation) FROM drafts GROUP BY policy_id)"
)

// Tidy implements audit.Store.
func (s *Store) Tidy(ctx context.Context, now time.Time) error {
	const batch = 5000 // bounds how long commits wait behind one
	kept, backtests := audit.FirstID(now.Add(-audit.KeepDeliveries).UnixMilli()), audit.FirstID(now.Add(-audit.KeepBacktests).UnixMilli())
	sessions := audit.FirstID(now.Add(-audit.KeepSessions).UnixMilli())
	shown, err := s.shown(ctx, now)
	if err != nil {
		return err
	}
	for more := true; more; {
		more = false
		err := s.write(ctx, "cannot remove what expired", func(tx *sql.Tx) error {
			for _, expired := range []struct {
				table, key, condition string
				before                any
			}{
				{"idempotency_keys", "key_hash", "expires_at < ?", shown},
				{"budget_counters", "counter_id, start_ms", "end_ms <= ?", shown - audit.KeepCounters.Milliseconds()},
				{"webhook_deliveries", "id", "id < ?", kept[:]},
				{"backtests", "id", "id < ?" + ofNoDraft, backtests[:]},
				{"backtests", "id", endedBacktest + "AND id <= (SELECT id FROM backtests WHERE draft = 0 AND" + endedBacktest +
					"ORDER BY id DESC LIMIT 1 OFFSET ?)" + ofNoDraft, audit.MaxEndedBacktests},
				{"sessions", "id", "id < ?", sessions[:]},
				{"session_logouts", "token", "request < ?", sessions[:]},
			} {
				deleted, err := affected(tx.Exec("DELETE FROM "+expired.table+" WHERE ("+expired.key+") IN (SELECT "+expired.key+" FROM "+expired.table+
					" WHERE "+expired.condition+" LIMIT ?)", expired.before, batch))
				if err != nil {
					return err
				}
				more = more || deleted == batch
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shown returns now in Unix milliseconds, limited to one day after the newest check that is at
// least a day older than the newest of all; 0 if there is no such check. So a clock that is far
// ahead for less than a day removes nothing that still counts, whatever it records meanwhile.
func (s *Store) shown(ctx context.Context, now time.Time) (int64, error) {
	const day = 24 * time.Hour
	at := func(what, condition string, args ...any) (time.Time, error) {
		const newest = " ORDER BY check_id DESC LIMIT 1"
		id, err := one(ctx, s.reader, "cannot look for "+what, scanID, "SELECT check_id FROM checks "+condition+newest, args...)
		return id.Time(), err
	}
	newest, err := at("the newest check", "")
	if err == nil {
		before := audit.FirstID(newest.Add(-day).UnixMilli())
		newest, err = at("an earlier check", "WHERE check_id < ?", before[:])
	}
	if errors.Is(err, audit.ErrNotFound) {
		return 0, nil
	}
	return min(now.UnixMilli(), newest.Add(day).UnixMilli()), err
}

// CountViolations implements audit.Store. It does nothing: a single node has so few violations that
// Violations counts them when asked.
func (s *Store) CountViolations(context.Context) error { return nil }

// write runs fn in a write transaction and makes it durable. The context bounds the wait for its
// turn; a transaction that has begun runs to its end, so that its outcome is known.
func (s *Store) write(ctx context.Context, doing string, fn func(*sql.Tx) error) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return unavailable(doing, err)
	}
	defer func() { _ = conn.Close() }() // returns it to the pool
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return unavailable(doing, err)
	}
	if err = fn(tx); err == nil {
		err = ctx.Err() // the last moment at which giving up is certain
	}
	if err != nil {
		_ = tx.Rollback() // an open transaction ends with its connection at the latest
		return fmt.Errorf("%s: %w", doing, classify(err))
	}
	if err = tx.Commit(); err != nil {
		// The log may hold the commit although it was not synced; the next write, such as a
		// fence's, overwrites it.
		return fmt.Errorf("%s: %w: %w", doing, audit.ErrUnknown, err)
	}
	return nil
}

// classify translates an error in a rolled-back transaction into an error of the contract: a
// missing row is not found, and the errors of package audit are returned unchanged.
func classify(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return audit.ErrNotFound
	}
	for _, own := range []error{
		audit.ErrNotFound, audit.ErrWebhooksFull, audit.ErrStaleEpoch, audit.ErrStaleStops, audit.ErrFencedNode, audit.ErrForked,
	} {
		if errors.Is(err, own) {
			return err
		}
	}
	for _, own := range []any{
		new(*audit.KeysTakenError), new(*audit.PaymentsMovedError), new(*audit.ReportedError), new(*audit.ExceededError),
		new(*audit.ApprovalsError), new(*audit.RowError), new(*audit.BudgetsInUseError), new(*audit.NotEndedError),
		new(*audit.EventsRemovedError),
	} {
		if errors.As(err, own) {
			return err
		}
	}
	if engine, ok := errors.AsType[*sqlite.Error](err); ok {
		switch engine.Code() & 0xff { // without the extended part
		case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
			return &audit.RowError{Err: err}
		}
	}
	return fmt.Errorf("%w: %w", audit.ErrUnavailable, err)
}

// unavailable says what was being attempted when an attempt had no effect.
func unavailable(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, audit.ErrUnavailable, err)
}
