package audittest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// retentionTests are the tests of removing events.
func retentionTests() []test {
	return []test{
		{"EventsAreKept", eventsAreKept},
		{"EventsAreKeptLonger", eventsAreKeptLonger},
		{"EventsLeaveAmidReaders", eventsLeave},
	}
}

const day = 24 * time.Hour

// afterMidnight waits for midnight if it is near: what is removed are whole days.
func afterMidnight() {
	const near = 30 * time.Second // longer than a test takes
	if left := day - now().UTC().Sub(now().UTC().Truncate(day)); left < near {
		time.Sleep(left)
	}
}

// mustHappenAgo records violations of the given numbers of days ago, each with its event.
func mustHappenAgo(t *testing.T, s Subject, days ...int) {
	t.Helper()
	f := fence(t, s)
	for _, ago := range days {
		c := blocked(newCheck(f))
		c.ID = spend.NewID(now().Add(-time.Duration(ago) * day))
		c.Pass = spend.Pass{}
		mustCommit(t, s, c)
	}
}

// mustKeep keeps events for 30 days, and demands the age in days of the oldest remaining event.
func mustKeep(t *testing.T, s Subject, when string, ago int) {
	t.Helper()
	oldest := get(s.KeepEvents(t.Context(), audit.LeastEventsKept, now()))(t)
	if ago < 0 && !oldest.IsZero() || ago >= 0 && (now().Sub(oldest)/day != time.Duration(ago)) {
		t.Errorf("%s: the oldest event is of %v, want %d days ago", when, oldest, ago)
	}
}

// mustBeKept demands these numbers in the feed, and the number up to which events were removed.
func mustBeKept(t *testing.T, s Subject, when string, floor int64, want ...int64) {
	t.Helper()
	all, next := feed(t, s, audit.EventQuery{Limit: 2})
	var got []int64
	for i := range all {
		got = append(got, all[i].Sequence)
	}
	head, err := s.EventsHead(t.Context())
	if !slices.Equal(got, want) || err != nil || head != next || head < floor {
		t.Errorf("%s: %d up to %d, head %d, %v; want %d", when, got, next, head, err, want)
	}
	if rest, _ := feed(t, s, audit.EventQuery{After: floor}); len(rest) != len(want) {
		t.Errorf("%s: %d events from the floor on, want %d", when, len(rest), len(want))
	}
	var removed *audit.EventsRemovedError
	if floor > 1 {
		if _, err := s.Events(t.Context(), audit.EventQuery{After: floor - 1, Limit: 1}); !errors.As(err, &removed) || removed.UpTo != floor {
			t.Errorf("%s: before the floor: %v", when, err)
		}
	}
}

// eventsAreKept: whole days are removed, with a record, once they are old enough; events that a
// webhook still needs are kept.
func eventsAreKept(t *testing.T, s Subject) {
	afterMidnight()
	ctx := t.Context()
	if oldest, err := s.KeepEvents(ctx, audit.LeastEventsKept, now()); err != nil || !oldest.IsZero() {
		t.Errorf("without events: %v, %v", oldest, err)
	}
	mustHappenAgo(t, s, 50, 50)
	mustBeKept(t, s, "at first", 0, 1, 2)
	if oldest, err := s.KeepEvents(ctx, 0, now()); err != nil || now().Sub(oldest)/day != 50 {
		t.Errorf("for ever: %v, %v", oldest, err)
	}
	mustBeKept(t, s, "for ever", 0, 1, 2)
	mustKeep(t, s, "all of it", -1)
	mustBeKept(t, s, "all of it", 2)

	mustHappenAgo(t, s, 45, 40, 40, 35, 29, 35, 0)
	node := spend.NewID(now())
	w, _ := mustCreateWebhook(t, s, 3)
	mustBeKept(t, s, "more", 2, 3, 4, 5, 6, 7, 8, 9)
	mustKeep(t, s, "behind a cursor", 40)
	mustBeKept(t, s, "behind a cursor", 3, 4, 5, 6, 7, 8, 9)
	mustLease(t, s, node)
	must(t, s.RecordDelivery(ctx, node, failed(w.ID, 5, nil)))
	retry := mustHold(t, s, node, w.ID).FirstRetry()
	mustKeep(t, s, "behind one that is to be tried again", 40)
	mustBeKept(t, s, "behind one that is to be tried again", 4, 5, 6, 7, 8, 9)
	last := delivered(w.ID, 5)
	last.Retry, last.Seen = retry, audit.WebhookSeen{Cursor: 5, EventTypes: newWebhook().EventTypes}
	must(t, s.RecordDelivery(ctx, node, last))
	must(t, s.RecordDelivery(ctx, node, failed(w.ID, 6, nil)))
	inactive := false
	get(s.UpdateWebhook(ctx, actor(), w.ID, audit.WebhookChange{Active: &inactive}))(t)

	// Events younger than the first kept one are kept, too; a disabled webhook needs none.
	mustKeep(t, s, "up to what is young", 29)
	mustKeep(t, s, "again", 29)
	mustBeKept(t, s, "up to what is young", 6, 7, 8, 9)
	mustHappenAgo(t, s, 45)
	mustBeKept(t, s, "a new one", 6, 7, 8, 9, 10)
	active := true
	get(s.UpdateWebhook(ctx, actor(), w.ID, audit.WebhookChange{Active: &active}))(t)
	mustLease(t, s, node)
	if task := mustHold(t, s, node, w.ID); len(task.Retries) != 0 || !task.OldestAt.IsZero() || task.Cursor != 6 {
		t.Errorf("active again: %+v", task)
	}
	var removed *audit.EventsRemovedError
	if _, err := s.ReplayDelivery(ctx, w.ID, last.ID); !errors.As(err, &removed) || removed.UpTo != 6 {
		t.Errorf("a replay of what was removed: %v", err)
	}
	if n := s.Count(t, "SELECT count(*) FROM webhook_retries"); n != 0 {
		t.Errorf("a replay of what was removed leaves %d to be sent", n)
	}
	noneWaits(t, s, w.ID)
	removals(t, s, audit.EventsRemoval{UpTo: 2, Count: 2}, audit.EventsRemoval{UpTo: 3, Count: 1}, audit.EventsRemoval{UpTo: 4, Count: 1},
		audit.EventsRemoval{UpTo: 6, Count: 2})

	for _, sql := range []string{"DELETE FROM events WHERE sequence = 7", "UPDATE events SET sequence = 3 WHERE sequence = 7"} {
		if err := s.Exec(t, sql); err == nil {
			t.Errorf("%s: not refused", sql)
		}
	}
	if n := s.Count(t, "SELECT count(*) FROM events"); n != 4 {
		t.Errorf("%d rows are left", n)
	}
}

// noneWaits demands that an event removed while a webhook was to be sent it again does not count as
// waiting.
func noneWaits(t *testing.T, s Subject, id spend.ID) {
	t.Helper()
	must(t, s.Exec(t, "INSERT INTO webhook_retries (webhook_id, sequence, attempts, since, due_at) "+
		"SELECT webhook_id, 2, 1, resume_at, resume_at FROM webhook_states"))
	leases, err := s.LeaseWebhooks(t.Context(), spend.NewID(now()), nil, longLease)
	if err != nil || len(leases.Due) != 0 || leases.Waiting != 0 {
		t.Errorf("leases: %+v, %v", leases, err)
	}
	if waiting, err := s.RetryWebhook(t.Context(), id); err != nil || waiting != 0 {
		t.Errorf("a retry of all: %d, %v", waiting, err)
	}
}

// eventsAreKeptLonger: a removal never goes back before the day of the previous one, even if events
// were to be kept longer since.
func eventsAreKeptLonger(t *testing.T, s Subject) {
	afterMidnight()
	mustHappenAgo(t, s, 100, 95, 40)
	mustBeKept(t, s, "at first", 0, 1, 2, 3)
	w, _ := mustCreateWebhook(t, s, 1)
	mustKeep(t, s, "behind a cursor", 95)
	must(t, s.DeleteWebhook(t.Context(), actor(), w.ID))
	oldest, err := s.KeepEvents(t.Context(), 90*day, now())
	if err != nil || now().Sub(oldest)/day != 40 {
		t.Errorf("kept for 90 days: %v, %v", oldest, err)
	}
	removals(t, s, audit.EventsRemoval{UpTo: 1, Count: 1}, audit.EventsRemoval{UpTo: 2, Count: 1})
}

// removals demands this record of removals, all made when events were kept for 30 days.
func removals(t *testing.T, s Subject, want ...audit.EventsRemoval) {
	t.Helper()
	changes := get(s.Changes(t.Context(), audit.ChangeQuery{Limit: 100}))(t)
	before := audit.KeptFrom(audit.LeastEventsKept, now()).Format(time.DateOnly)
	for i := range changes {
		c := &changes[i]
		if c.Kind != audit.EventsRemoved {
			continue
		}
		got, err := audit.ParseEventsRemoval(c.Details)
		if len(want) == 0 {
			t.Fatalf("one more: %+v", c)
		}
		want[0].Before = before
		if err != nil || got != want[0] || c.Subject != audit.EventsSubject || c.By != audit.Keeper() || c.Hash != (spend.Hash{}) {
			t.Errorf("recorded: %+v, want %+v", c, want[0])
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("not recorded: %+v", want)
	}
}

// eventsLeave removes events on many nodes while others read: a reader misses nothing, or is told.
func eventsLeave(t *testing.T, s Subject) {
	const old, young = 2400, 3
	f := fence(t, s)
	checks := make([]*spend.Check, old+young)
	for i := range checks {
		ago := 40 * day
		if i >= old {
			ago = 3 * day / 2
		}
		checks[i] = blocked(newCheck(f))
		checks[i].ID, checks[i].Pass = spend.NewID(now().Add(-ago).Add(time.Duration(i)*time.Millisecond)), spend.Pass{}
	}
	for batch := range slices.Chunk(checks, 200) {
		mustCommit(t, s, batch...)
	}
	if head, err := s.EventsHead(t.Context()); err != nil || head != old+young {
		t.Fatalf("%d, %v", head, err)
	}
	var all sync.WaitGroup
	reading := make(chan struct{}, 3)
	for limit := range 3 {
		all.Go(func() {
			if err := readOn(t, s, 10*limit+5, reading, old+young); err != nil {
				t.Error(err)
			}
		})
		<-reading // the reader is in the middle of the feed
	}
	for range 3 {
		all.Go(func() {
			if _, err := s.KeepEvents(t.Context(), audit.LeastEventsKept, now()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	mustKeep(t, s, "at last", 1)
	mustBeKept(t, s, "at last", old, old+1, old+2, old+3)
	changes := get(s.Changes(t.Context(), audit.ChangeQuery{Limit: 100}))(t)
	var removed int64
	for i := range changes {
		r, err := audit.ParseEventsRemoval(changes[i].Details)
		if removed += r.Count; err != nil {
			t.Error(err)
		}
	}
	if removed != old {
		t.Errorf("%d events were removed by the record, want %d", removed, old)
	}
}

// readOn reads from the oldest event to the end, and continues where it is told to.
func readOn(t *testing.T, s Subject, limit int, reading chan<- struct{}, head int64) error {
	var after int64
	for read := 0; after < head; read++ {
		page, err := s.Events(t.Context(), audit.EventQuery{After: after, Limit: limit})
		if removed, ok := errors.AsType[*audit.EventsRemovedError](err); ok && removed.UpTo > after {
			after = removed.UpTo
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Events {
			if e := &page.Events[i]; after > 0 && e.Sequence != after+1 {
				return fmt.Errorf("%d comes after %d", e.Sequence, after)
			}
			after = page.Events[i].Sequence
		}
		if read == 0 {
			reading <- struct{}{}
		}
	}
	return nil
}
