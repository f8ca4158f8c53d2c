package postgres

import (
	"errors"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestYoungEventStays numbers an event while a removal, which found nothing but old ones, waits
// for its turn.
func TestYoungEventStays(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	happen := func(at time.Time) error {
		c := minimal(newFence(t, s))
		c.ID, c.Pass, c.Decision.Effect, c.Decision.Reason = spend.NewID(at), spend.Pass{}, spend.Block, "cap"
		err := audittest.Record(t.Context(), s, c)
		_, headErr := s.EventsHead(t.Context())
		return errors.Join(err, headErr)
	}
	must.Do(t, happen(time.Now().Add(-50*24*time.Hour)))
	tx, err := connect(t, url).Begin(t.Context())
	must.Do(t, err)
	must.Get(tx.Exec(t.Context(), "LOCK TABLE webhooks IN EXCLUSIVE MODE"))(t)
	removed := make(chan error, 1)
	go func() {
		_, err := s.KeepEvents(t.Context(), audit.LeastEventsKept, time.Now())
		removed <- err
	}()
	waitFor(t, url, "the removal", "SELECT EXISTS (SELECT FROM "+fleet.TestLocks+" WHERE NOT granted AND relation = 'webhooks'::regclass)")
	err = happen(time.Now())
	must.Do(t, errors.Join(err, tx.Rollback(t.Context()), <-removed))
	page, err := s.Events(t.Context(), audit.EventQuery{Limit: 10})
	if err != nil || len(page.Events) != 1 || page.Events[0].Sequence != 2 {
		t.Errorf("left are %+v, %v", page.Events, err)
	}
}
