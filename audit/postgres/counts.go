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
	// countedAtOnce bounds a step of CountViolations to some 5 ms of processor time, for which
	// commits of checks may have to wait.
	countedAtOnce = 1000
	countTimeout  = time.Minute
)

// CountViolations implements audit.Store. Each step is a transaction of its own, so a node that
// dies in one leaves nothing behind.
func (s *Store) CountViolations(ctx context.Context) error {
	begun, err := s.countAll(ctx, "cannot count violations", "SELECT count_violations($1)")
	if !begun.IsZero() {
		s.countedAt.Store(begun.Unix())
	}
	return err
}

// countAll takes steps until all is counted, or until another session is counting. It returns when
// the step began that found all counted; zero if none did.
func (s *Store) countAll(ctx context.Context, doing, query string) (time.Time, error) {
	for {
		begun := time.Now()
		var done, complete bool
		err := s.list(ctx, doing, func(ctx context.Context, db *pgx.Conn) (err error) {
			done, complete, err = countSome(ctx, db, query)
			return err
		})
		switch {
		case err != nil:
			return time.Time{}, err
		case complete:
			return begun, nil
		case !done: // another session is counting
			return time.Time{}, nil
		}
		if err := rest(ctx, begun); err != nil {
			return time.Time{}, fmt.Errorf("%s: %w: %w", doing, audit.ErrUnavailable, err)
		}
	}
}

// countSome takes a step, unless another session is at it.
func countSome(ctx context.Context, conn *pgx.Conn, query string) (done, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	var all *bool
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, query, countedAtOnce).Scan(&all)
	})
	if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == codeSerialization {
		return false, false, nil // another was first
	}
	return all != nil, all != nil && *all, err
}
