package verify_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// newAgedTrail is a trail that begins 40 days ago, with numbers for all events. It returns how many
// events, and which violations, are that old.
func newAgedTrail(t *testing.T) (tr *trail, old int, violations []spend.ID) {
	t.Helper()
	url := fleet.TestMigrated(t, postgres.Migrate)
	store := must.Get(postgres.Open(t.Context(), postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: true}))(t)
	t.Cleanup(store.Close)
	epoch := must.Get(store.Epoch(t.Context()))(t)
	then := time.Now().Add(-40 * 24 * time.Hour)
	w := audittest.NewWriter(t, store)
	batch := checksOfAllSorts(spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch})
	for _, c := range batch {
		c.ID, c.Action.IdempotencyKey, c.Pass = spend.NewID(then), "", spend.Pass{}
		must.Do(t, w.Append(c).Final())
	}
	allowed := batch[2]
	must.Do(t, w.AppendOutcome(&spend.Outcome{
		ID: spend.NewOutcomeID(then), CheckID: allowed.ID, Step: 1, Number: 1, Status: spend.Failed, Release: spend.ReleaseDone,
		KeyID: "key_1", RequestID: "req_1", Fence: allowed.Fence, Check: allowed,
	}).Final())
	head, err := store.EventsHead(t.Context())
	if err != nil || head != 4 { // three violations and a report
		t.Fatalf("%d events, %v", head, err)
	}
	tr = newTrailIn(t, url)
	must.Get(tr.store.EventsHead(t.Context()))(t)
	return tr, int(head), []spend.ID{batch[0].ID, batch[3].ID, batch[4].ID}
}

// TestEventsKeptLonger has more kept after a removal that left some.
func TestEventsKeptLonger(t *testing.T) {
	t.Parallel()
	tr, old, _ := newAgedTrail(t)
	w := &audit.Webhook{
		ID: spend.NewID(time.Now()), URL: "https://hooks.example", EventTypes: audit.EventTypes(), Active: true, CreatedAt: time.Now(),
	}
	must.Do(t, tr.store.CreateWebhook(t.Context(), audit.Actor{KeyID: "key_1"}, w, "whsec_c2VjcmV0", 2))
	keep := func(d time.Duration, left int) {
		must.Get(tr.store.KeepEvents(t.Context(), d, time.Now()))(t)
		if n := tr.count("events WHERE sequence <= " + fmt.Sprint(old)); n != left {
			t.Fatalf("%d old events are left, want %d", n, left)
		}
	}
	keep(audit.LeastEventsKept, old-2)
	must.Do(t, tr.store.DeleteWebhook(t.Context(), audit.Actor{KeyID: "key_1"}, w.ID))
	keep(audit.LeastEventsKept+5*24*time.Hour, 0)
	tr.bothFind("", "SELECT")
}

// TestRemovedEvents tells events that left by their retention from events that somebody
// took away.
func TestRemovedEvents(t *testing.T) {
	t.Parallel()
	tr, old, violations := newAgedTrail(t)
	tr.bothFind("", "SELECT")
	must.Get(tr.store.KeepEvents(t.Context(), audit.LeastEventsKept, time.Now()))(t)
	if n := tr.count("events WHERE sequence <= " + fmt.Sprint(old)); n != 0 {
		t.Fatalf("%d old events are left", n)
	}
	tr.bothFind("", "SELECT")
	tr.sign()
	tr.finds(tr.held)

	tables := "events changes config violations"
	first := "removed event of change 1 of the configuration"
	gap := fmt.Sprintf("removed event %d", old+1)
	count := func(upTo int) string { return fmt.Sprintf("altered events up to number %d", upTo) }
	remove := func(before time.Time) string {
		return fmt.Sprintf(`SELECT record_change(raise_generation(), 'events.removed', '/v1/events', NULL,
			ROW('system', NULL, 'spendgate', NULL, NULL, NULL)::actor, '{"up_to": %[1]d, "removed": 1, "before": "%[2]s"}',
			decode(repeat('00', 32), 'hex')); DELETE FROM events WHERE sequence = %[1]d`, old+1, before.UTC().Format(time.DateOnly))
	}
	tr.bothFind(tables, fmt.Sprintf("DELETE FROM events WHERE sequence = %d", old+1), gap, first)
	tr.bothFind(tables, "INSERT INTO events VALUES (1, gen_random_uuid(), 'violation.recorded')") // is about to be deleted
	tr.bothFind(tables, "DELETE FROM violations WHERE id = '"+violations[1].Text("")+"'",
		"removed violation "+violations[1].Text(spend.PrefixViolation), count(old))
	// A recent event cannot be claimed to have been removed as old.
	tr.bothFind(tables, remove(time.Now()), "inserted change 5 of the configuration", gap, first)
	// An invalid removal counts for nothing: all missing events are reported.
	var reported string
	must.Do(t, tr.conn.QueryRow(t.Context(), "SELECT replace(outcome_id::text, '-', '') FROM outcomes").Scan(&reported))
	for _, text := range []string{
		"", "5", "{}", `{"up_to": "9", "removed": 1, "before": "2026-01-01"}`, `{"up_to": 9, "removed": 1, "before": 7}`,
		`{"up_to": 4.0, "removed": 4, "before": "2026-01-01"}`, `{"up_to": 4, "removed": -4, "before": "2026-01-01"}`,
		`{"up_to": 4, "removed": 0, "before": "2026-01-01"}`, `{"up_to": 9223372036854775808, "removed": 4, "before": "2026-01-01"}`,
		`{"up_to": 4, "removed": 4, "before": "20260101"}`, `{"UP_TO": 4, "removed": 4, "before": "2026-01-01"}`,
	} {
		want := []string{
			"altered change 4 of the configuration", "inserted change 4 of the configuration", "removed event 1",
			"removed event of outcome " + reported,
		}
		for _, id := range violations {
			want = append(want, "removed event of violation "+id.Text(spend.PrefixViolation))
		}
		tr.bothFind(tables, "UPDATE changes SET details = '"+text+"' WHERE kind = 'events.removed'", want...)
	}
	tr.bothFind(tables, remove(audit.KeptFrom(audit.LeastEventsKept, time.Now())), count(old+1), first)
}
