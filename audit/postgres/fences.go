package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// Deployment implements audit.Fences.
func (s *Store) Deployment(ctx context.Context) (id spend.ID, err error) {
	err = s.read(ctx, "cannot read the deployment's ID", func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, "SELECT id FROM deployment").Scan(uuid(&id))
	})
	return id, err
}

// Epoch implements audit.Fences.
func (s *Store) Epoch(ctx context.Context) (epoch spend.ID, err error) {
	err = s.read(ctx, "cannot read the epoch", func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, "SELECT id FROM epoch").Scan(uuid(&epoch))
	})
	return epoch, err
}

// RotateEpoch implements audit.Fences.
func (s *Store) RotateEpoch(ctx context.Context, seen, next spend.ID) (current spend.ID, err error) {
	call := textStatement{"SELECT replace(rotate_epoch($1, $2)::text, '-', '')", [][]byte{hexText(seen[:]), hexText(next[:])}}
	row, err := s.overHolders(ctx, call, `classid = 'epoch'::regclass AND objid = 0`)
	if err != nil {
		return current, fmt.Errorf("cannot rotate the epoch: %w", err)
	}
	if current, err = spend.ParseID(string(row[0]), ""); err != nil {
		return current, fmt.Errorf("cannot rotate the epoch: %q is %w", row[0], err)
	}
	return current, nil
}

// Fence implements audit.Fences.
func (s *Store) Fence(ctx context.Context, node spend.ID) error {
	call := textStatement{"SELECT fence_node($1)", [][]byte{hexText(node[:])}}
	_, err := s.overHolders(ctx, call, `classid = 'fenced_nodes'::regclass AND objid = node_lock_key($1)::oid`, [16]byte(node))
	if err != nil {
		return fmt.Errorf("cannot fence a node: %w", err)
	}
	return nil
}

// overHolders makes a call that takes an exclusive lock. Those who hold it
// longer than lockPatience are commits of a client that is gone or stuck;
// their sessions are ended (F16), until the call succeeds or ctx ends. The
// call may be repeated, so a connection lost in it is no end.
func (s *Store) overHolders(ctx context.Context, call textStatement, lock string, args ...any) ([][]byte, error) {
	for {
		asked := time.Now()
		row, err := s.control(ctx, textStatement{sql: "SET LOCAL lock_timeout = " + lockPatience}, call)
		var answer *pgconn.PgError
		switch {
		case err == nil:
			return row, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", audit.ErrUnavailable, errors.Join(ctx.Err(), err))
		case errors.Is(err, audit.ErrUnknown):
			select {
			case <-time.After(unknownPause):
			case <-ctx.Done():
			}
			continue
		case !errors.As(err, &answer) || answer.Code != codeLockTimeout:
			return nil, err
		}
		if err := s.endHolders(ctx, asked, lock, args); err != nil {
			return nil, err
		}
	}
}

// unknownPause is for a pooler that answers at once that it has no server.
const unknownPause = 10 * time.Millisecond

// lockPatience, in milliseconds, is far more than a healthy commit takes.
const lockPatience = "300"

// endHolders ends the sessions of commits that hold a lock and began before the
// caller asked for it. Those that queued behind the caller are healthy, and got
// the lock when it gave up. One that waits for a standby is spared: ending it
// would show its rows before they are safe, and the caller's own commit could
// not end sooner anyway (F17).
func (s *Store) endHolders(ctx context.Context, asked time.Time, lock string, args []any) error {
	var ended int
	err := s.read(ctx, "cannot end the sessions that hold a fence", func(ctx context.Context, db *pgx.Conn) error {
		since := fmt.Sprintf("clock_timestamp() - %d * interval '1 microsecond'", time.Since(asked).Microseconds())
		return db.QueryRow(ctx, `SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks AS l
			JOIN pg_stat_activity AS a USING (pid)
			WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ShareLock' AND l.objsubid = 2
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND coalesce(a.xact_start, '-infinity') < `+since+`
			AND a.wait_event IS DISTINCT FROM 'SyncRep' AND `+lock, args...).Scan(&ended)
	})
	if err == nil && ended > 0 {
		s.log.Warn("ended database sessions whose commits did not end", "sessions", ended)
	}
	return err
}

// control runs a transaction of statements on a connection that no commit uses.
// It returns the columns of the last row, as text.
func (s *Store) control(ctx context.Context, statements ...textStatement) ([][]byte, error) {
	session, err := s.controls.take(ctx)
	if err != nil {
		return nil, err
	}
	defer s.controls.give(session)
	all := slices.Concat([]textStatement{{sql: begin}}, statements, []textStatement{{sql: commit}})
	if session.buf, err = appendStatements(session.buf[:0], all...); err != nil {
		return nil, &audit.RowError{Err: err}
	}
	return session.exchange(ctx, len(all)-1)
}

// hexText is an argument that a uuid takes, or the function decode.
func hexText(b []byte) []byte { return hex.AppendEncode(nil, b) }
