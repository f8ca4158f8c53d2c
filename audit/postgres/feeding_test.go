package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/bench/must"
)

// feeding is a schema with sessions that are stopped in the middle of their work, and a reader that
// continues from its cursor.
type feeding struct {
	*counting
	cursor int64
	read   []audit.Event
}

// patient is longer than any wait is meant to be.
const patient = 4 * time.Second

// next reads the new events, in small pages.
func (f *feeding) next(t *testing.T) (events []audit.Event) {
	t.Helper()
	for {
		page := must.Get(f.Events(t.Context(), audit.EventQuery{After: f.cursor, Limit: 7}))(t)
		for _, e := range page.Events {
			if e.Sequence <= f.cursor {
				t.Fatalf("sequence %d after %d", e.Sequence, f.cursor)
			}
			f.cursor = e.Sequence
		}
		events, f.cursor = append(events, page.Events...), page.Next
		if !page.More {
			f.read = append(f.read, events...)
			return events
		}
	}
}

// news demands that so many are new.
func (f *feeding) news(t *testing.T, when string, want int) (events []audit.Event) {
	t.Helper()
	if events = f.next(t); len(events) != want {
		t.Fatalf("%s: %d new events, want %d", when, len(events), want)
	}
	return events
}

// whole demands that the reader has read all there is, once each and in the order
// of causes.
func (f *feeding) whole(t *testing.T) {
	t.Helper()
	f.next(t)
	audittest.MustBeCausal(t, f.read)
	if want := count(t, f.Store, "violations") + count(t, f.Store, "changes") + count(t, f.Store, "approvals") + count(t, f.Store,
		"approval_uses") +
		count(t, f.Store, "changes WHERE kind IN ('approval.approved', 'approval.denied')"); len(f.read) != want {
		t.Errorf("%d events were read, want %d", len(f.read), want)
	}
	if n := count(t, f.Store, "events"); n != len(f.read) {
		t.Errorf("%d events were read, there are %d", len(f.read), n)
	}
}

// number takes a step in a session.
func number(t *testing.T, tx pgx.Tx, most int) (complete bool) {
	t.Helper()
	must.Do(t, tx.QueryRow(context.Background(), "SELECT sequence_events($1)", most).Scan(&complete))
	return complete
}

// begun begins a transaction that has its number.
func (f *feeding) begun(t *testing.T) pgx.Tx {
	t.Helper()
	tx := f.session(t, pgx.ReadCommitted)
	must.Get(tx.Exec(t.Context(), "SELECT pg_current_xact_id()"))(t)
	return tx
}

func createPolicy(t *testing.T, db querier, id string) {
	t.Helper()
	rows := must.Get(db.Query(context.Background(),
		"SELECT create_policy($1, '', '', '[]', '', NULL, NULL, 1, 1000000, NULL, NULL, '', NULL, "+
			"ROW('system', NULL, NULL, NULL, NULL, NULL)::actor)",
		id))(t)
	if rows.Close(); rows.Err() != nil {
		t.Fatal(rows.Err())
	}
}
