package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
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
			done, complete, err = pg.CountSome(ctx, db, query)
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
		if err := pg.Rest(ctx, begun); err != nil {
			return time.Time{}, fmt.Errorf("%s: %w: %w", doing, audit.ErrUnavailable, err)
		}
	}
}
