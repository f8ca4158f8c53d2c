package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// read runs a query that changes nothing or may be repeated. A pooled connection that was lost
// while idle says nothing about the database, so the query gets a second try on a new connection.
func (s *Store) read(ctx context.Context, doing string, query func(context.Context, *pgx.Conn) error) error {
	return s.readFrom(ctx, s.Reads, &s.readsReset, doing, query)
}

// readFrom is read on a given pool.
func (s *Store) readFrom(
	ctx context.Context, pool *pgxpool.Pool, last *reset, doing string, query func(context.Context, *pgx.Conn) error,
) error {
	err := s.readOnce(ctx, pool, last, query)
	if ctx.Err() == nil && lostConnection(err) {
		err = s.readOnce(ctx, pool, last, query)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return fmt.Errorf("%s: %w: %w", doing, audit.ErrUnavailable, err)
}

// reset is when a pool was last reset, as a number of losses.
type reset struct {
	mu     sync.Mutex
	losses int64
}

// after resets the pool unless that was done after so many losses. When it returns, the pool has no
// idle connection from before them.
func (r *reset) after(losses int64, pool *pgxpool.Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.losses < losses {
		pool.Reset()
		r.losses = losses
	}
}

// list is read for queries that may take long, such as those of tasks that nobody waits for. It leaves
// half of the connections to Ping and to the look-ups that checks wait for.
func (s *Store) list(ctx context.Context, doing string, query func(context.Context, *pgx.Conn) error) error {
	select {
	case s.lists <- struct{}{}:
		defer func() { <-s.lists }()
		return s.read(ctx, doing, query)
	case <-ctx.Done():
		return fmt.Errorf("%s: too many lists are being read: %w: %w", doing, audit.ErrUnavailable, ctx.Err())
	}
}

// readOnce runs a query on a connection of the pool. It closes a connection that gave no answer by
// itself: pgx would take up to 15 s for a farewell, and keep the connection's place meanwhile.
//
// A query whose time is over is cancelled. If the server confirms that, or nothing had been sent to
// it yet, the connection is not noted as lost.
func (s *Store) readOnce(
	ctx context.Context, pool *pgxpool.Pool, last *reset, query func(context.Context, *pgx.Conn) error,
) error {
	last.after(s.losses.count.Load(), pool)
	began := time.Now()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		s.losses.waitedInVain(began, err)
		return err
	}
	began = time.Now()
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := heardOf(conn.Conn())
	heard.query.Store(&cancel)
	err = query(asking, conn.Conn())
	heard.query.Store(nil)
	over := asking.Err()
	answered := over != nil && (errors.As(err, new(*pgconn.PgError)) || pgconn.SafeToRetry(err))
	if err == nil {
		err = over // a cancelled wait for a standby ends without an error
	}
	switch {
	case over != nil && answered:
		giveUp(conn.Hijack())
	case conn.Conn().IsClosed():
		conn.Hijack()
		lost := err
		if over != nil {
			lost = context.DeadlineExceeded // also where the caller ended the query: the server did not confirm it
			if lately := time.Now().Add(-lossWithin); began.Before(lately) {
				began = lately // it is unknown since when it gives no answer
			}
		}
		s.losses.add(began, lost)
	case over != nil:
		giveUp(conn.Hijack())
	default:
		conn.Release()
	}
	if over != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// errSilent means that a query was given up, before its time was over, because its connection had
// not answered since a question that was lost.
var errSilent = errors.New("the server was silent")

// lossWithin is how long before the end of a query's time a silent server is assumed to have been
// gone.
const lossWithin = time.Second

// giveUp closes a connection to which a cancel is on its way.
func giveUp(conn *pgx.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // without a farewell
	_ = conn.Close(ctx)
}

// asking is the type of read and list of a Store.
type asking func(ctx context.Context, doing string, query func(context.Context, *pgx.Conn) error) error

// collect returns all rows of a query.
func collect[T any](ctx context.Context, s *Store, doing string, scan pgx.RowToFunc[T], query string, args ...any) (all []T, err error) {
	return collectBy(ctx, s.read, doing, scan, query, args...)
}

// collectBy is collect with a choice between read and list.
func collectBy[T any](
	ctx context.Context, ask asking, doing string, scan pgx.RowToFunc[T], query string, args ...any,
) (all []T, err error) {
	err = ask(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		rows, _ := db.Query(ctx, query, args...) // the rows return its error
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

// inSnapshot reads all in one snapshot.
func inSnapshot[T any](ctx context.Context, ask asking, doing string, read func(context.Context, pgx.Tx) (T, error)) (found T, err error) {
	err = ask(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, db, pg.ReadOnly(), func(tx pgx.Tx) (err error) {
			found, err = read(ctx, tx)
			return err
		})
	})
	return found, err
}

// one reads the only row of a query. It fails with audit.ErrNotFound if there is none.
func one[T any](ctx context.Context, s *Store, doing string, scan pgx.RowToFunc[T], query string, args ...any) (found T, err error) {
	err = s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		rows, _ := db.Query(ctx, query, args...) // as above
		found, err = pgx.CollectOneRow(rows, scan)
		return err
	})
	return found, err
}

// orNil returns nil with an error, and otherwise a pointer to what was read.
func orNil[T any](found T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &found, nil
}

func scanID(row pgx.CollectableRow) (id spend.ID, err error) {
	err = row.Scan(pg.UUID(&id))
	return id, err
}
