package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit"
	"spendgate/audit/pause"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// RotateEpoch implements audit.Fences.
func (s *Store) RotateEpoch(ctx context.Context, seen, next spend.ID) (current spend.ID, err error) {
	err = s.overHolders(ctx, exclusiveCall{
		doing: "cannot rotate the epoch", call: textCall("SELECT rotate_epoch($1, $2)", seen[:], next[:]), into: []any{pg.UUID(&current)},
		lock: `classid = 'epoch'::regclass AND objid = 0`,
	})
	return current, err
}

// Fence implements audit.Fences.
func (s *Store) Fence(ctx context.Context, node spend.ID) error {
	return s.overHolders(ctx, exclusiveCall{
		doing: "cannot fence a node", call: textCall("SELECT fence_node($1)", node[:]),
		lock: `classid = 'fenced_nodes'::regclass AND objid = node_lock_key($1)::oid`, args: []any{[16]byte(node)},
	})
}

// exclusiveCall is a call of a function that takes an exclusive advisory lock.
type exclusiveCall struct {
	doing string
	call  textStatement
	into  []any  // scan targets of its row
	lock  string // the condition on pg_locks, with its arguments
	args  []any
}

// overHolders makes a call that takes an exclusive lock. Sessions that hold the lock longer than
// lockPatience commit for a client that is gone or stuck; they are ended (F16), until the call
// succeeds or ctx ends. The call may be repeated, so a lost connection is retried.
func (s *Store) overHolders(ctx context.Context, c exclusiveCall) error {
	for {
		asked := time.Now()
		err := s.control(ctx, c.doing, c.into, textCall("SET LOCAL lock_timeout = "+lockPatience), c.call)
		var answer *pgconn.PgError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", audit.ErrUnavailable, errors.Join(ctx.Err(), err))
		case errors.Is(err, audit.ErrUnknown):
			_ = pause.For(ctx, unknownPause)
			continue
		case !errors.As(err, &answer) || answer.Code != pg.CodeLockTimeout:
			return err
		}
		if err := s.endHolders(ctx, asked, c); err != nil {
			return err
		}
	}
}

// unknownPause keeps retries apart when a pooler answers at once that it has no server.
const unknownPause = 10 * time.Millisecond

// lockPatience, in milliseconds, is far more than a healthy commit takes.
const lockPatience = "300"

// endHolders ends the sessions of commits that hold a lock and began before the caller asked for
// it. Commits that queued behind the caller are healthy; they got the lock when the caller gave up.
// A commit that waits for a standby is spared: ending it would show its rows before they are safe,
// and the caller's own commit could not end sooner anyway (F17).
func (s *Store) endHolders(ctx context.Context, asked time.Time, c exclusiveCall) error {
	var ended int
	err := s.read(ctx, "cannot end the sessions that hold a fence", func(ctx context.Context, db *pgx.Conn) error {
		since := fmt.Sprintf("clock_timestamp() - %d * interval '1 microsecond'", time.Since(asked).Microseconds())
		return db.QueryRow(ctx, `SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks AS l
			JOIN pg_stat_activity AS a USING (pid)
			WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ShareLock' AND l.objsubid = 2
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND coalesce(a.xact_start, '-infinity') < `+since+`
			AND a.wait_event IS DISTINCT FROM 'SyncRep' AND `+c.lock, c.args...).Scan(&ended)
	})
	if err == nil && ended > 0 {
		s.log.Warn("ended database sessions whose commits did not end", "sessions", ended)
	}
	return err
}

// control runs a transaction of statements on a connection that no commit uses. It scans the
// columns of the last row into into, and fails with audit.ErrNotFound without a row.
func (s *Store) control(ctx context.Context, doing string, into []any, statements ...textStatement) error {
	session, err := s.controls.take(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer s.controls.give(session)
	all := slices.Concat([]textStatement{{sql: begin}}, statements, []textStatement{{sql: commit}})
	if session.buf, err = appendStatements(session.buf[:0], all...); err != nil {
		return fmt.Errorf("%s: %w", doing, &audit.RowError{Err: err})
	}
	row, err := session.exchange(ctx, len(all)-1)
	if err == nil && into != nil {
		err = row.scan(into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
