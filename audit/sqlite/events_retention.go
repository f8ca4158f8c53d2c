package sqlite

import (
	"context"
	"database/sql"
	"time"

	"spendgate/audit"
)

// lastRemoval selects from the newest removal.
const lastRemoval = " FROM changes WHERE kind = 'events.removed' ORDER BY seq DESC LIMIT 1), "

// eventsFloor is the number up to which events were removed.
const eventsFloor = "coalesce((SELECT details ->> 'up_to'" + lastRemoval + "0)"

// removedBefore is the day of the newest removal. The next removal is not before that day, even if
// events were to be kept longer since.
const removedBefore = "coalesce((SELECT details ->> 'before'" + lastRemoval + "'')"

// removedAtOnce bounds a transaction that removes events, because commits wait for it.
const removedAtOnce = 1000

// KeepEvents implements audit.Events. Events are removed in the transaction that records it.
func (s *Store) KeepEvents(ctx context.Context, keep time.Duration, now time.Time) (oldest time.Time, err error) {
	const doing = "cannot remove events"
	before := audit.KeptFrom(max(keep, audit.LeastEventsKept), now)
	for {
		floor, err := one(ctx, s.reader, doing, scalar[int64], "SELECT "+eventsFloor)
		if err != nil {
			return oldest, err
		}
		page, err := s.Events(ctx, audit.EventQuery{After: floor, Limit: removedAtOnce})
		if err != nil || len(page.Events) == 0 {
			return oldest, err
		}
		old := 0
		for old < len(page.Events) && page.Events[old].At.Before(before) {
			old++
		}
		if oldest = page.Events[0].At; keep <= 0 || old == 0 {
			return oldest, nil
		}
		removed, err := s.removeEvents(ctx, floor, page.Events[:old], before)
		if err != nil || removed == 0 {
			return oldest, err
		}
		if removed < len(page.Events) {
			return page.Events[removed].At, nil
		}
		oldest = time.Time{}
	}
}

// removeEvents removes the events that follow the floor, except those that an active webhook has
// not reached or must send again, and returns how many.
func (s *Store) removeEvents(ctx context.Context, floor int64, old []audit.Event, before time.Time) (removed int, err error) {
	err = s.write(ctx, "cannot remove events", func(tx *sql.Tx) error {
		if now, err := scalar[int64](tx.QueryRow("SELECT " + eventsFloor)); err != nil || now != floor {
			return err // another removal came first
		}
		held, err := scalar[sql.NullInt64](tx.QueryRow(`SELECT min(at) FROM (
			SELECT s.cursor AS at, s.webhook_id AS id FROM webhook_states AS s
			UNION ALL SELECT r.sequence - 1, r.webhook_id FROM webhook_retries AS r)
			WHERE id IN (SELECT id FROM webhooks WHERE active)`))
		if err != nil {
			return err
		}
		for removed < len(old) && (!held.Valid || old[removed].Sequence <= held.Int64) {
			removed++
		}
		if removed == 0 {
			return nil
		}
		upTo := old[removed-1].Sequence
		last, err := scalar[string](tx.QueryRow("SELECT " + removedBefore))
		if err != nil {
			return err
		}
		removal := audit.EventsRemoval{UpTo: upTo, Count: int64(removed), Before: max(before.Format(time.DateOnly), last)}
		if err := record(tx, audit.ChangeOfEvents(removal, time.Now())); err != nil {
			return err
		}
		for _, table := range []string{"events", "webhook_retries"} {
			if _, err := tx.Exec("DELETE FROM "+table+" WHERE sequence <= ?", upTo); err != nil {
				return err
			}
		}
		return nil
	})
	return removed, err
}
