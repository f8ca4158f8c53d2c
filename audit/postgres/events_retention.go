package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
)

// removedAtOnce bounds a transaction that records a removal, because other changes wait for it.
const removedAtOnce = 250_000

// KeepEvents implements audit.Events. Events recorded as removed but still present, because the
// recording node was killed, are deleted whatever keep says.
func (s *Store) KeepEvents(ctx context.Context, keep time.Duration, now time.Time) (oldest time.Time, err error) {
	const doing = "cannot remove events"
	for more := keep > 0; more; {
		err = s.control(ctx, doing, []any{&more}, byActor("SELECT remove_events($1, $2, $3, ", audit.Keeper(),
			keep.Milliseconds(), now.UnixMilli(), removedAtOnce))
		if err != nil {
			return oldest, err
		}
	}
	err = s.list(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		if err := deleteEvents(ctx, db); err != nil {
			return err
		}
		err := db.QueryRow(ctx, `SELECT event_at(source, type) FROM events
			WHERE sequence = (SELECT min(sequence) FROM events WHERE sequence > events_floor())`).Scan(pg.UTC(&oldest))
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("cannot read the oldest event: %w", err)
		}
		return nil
	})
	return oldest, err
}

// deleteEvents deletes the events recorded as removed, and the attempts to deliver them that a
// disabled webhook has left.
func deleteEvents(ctx context.Context, conn *pgx.Conn) error {
	const atOnce = 5000
	for deleted := atOnce; deleted == atOnce; {
		if err := conn.QueryRow(ctx, "SELECT delete_events($1)", atOnce).Scan(&deleted); err != nil {
			return fmt.Errorf("cannot delete events: %w", err)
		}
	}
	return remove(ctx, conn, "what is to be delivered of removed events",
		"DELETE FROM webhook_retries WHERE (webhook_id, sequence) IN (SELECT webhook_id, sequence FROM webhook_retries "+
			"WHERE sequence <= events_floor() LIMIT $1)")
}
