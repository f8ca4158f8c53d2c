package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit"
)

const (
	// countedAtOnce bounds a step of CountViolations to some 5 ms of a processor
	// that the commits of checks may have to wait for.
	countedAtOnce = 1000
	countTimeout  = time.Minute
)

// CountViolations implements audit.Store. Each step is a transaction of its
// own; a node that dies in one leaves nothing behind.
func (s *Store) CountViolations(ctx context.Context) error {
	conn, err := s.reads.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("cannot count violations: %w: %w", audit.ErrUnavailable, err)
	}
	defer conn.Release()
	for {
		begun := time.Now()
		done, complete, err := countSome(ctx, conn.Conn())
		switch {
		case err != nil:
			return fmt.Errorf("cannot count violations: %w: %w", audit.ErrUnavailable, err)
		case complete:
			s.countedAt.Store(begun.Unix())
			return nil
		case !done: // somebody else is
			return nil
		}
		if err := rest(ctx, begun); err != nil {
			return fmt.Errorf("cannot count violations: %w: %w", audit.ErrUnavailable, err)
		}
	}
}

// countSome takes a step, unless another session is at it.
func countSome(ctx context.Context, conn *pgx.Conn) (done, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	var all *bool
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT count_violations($1)", countedAtOnce).Scan(&all)
	})
	if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == codeSerialization {
		return false, false, nil // another was first
	}
	return all != nil, all != nil && *all, err
}
