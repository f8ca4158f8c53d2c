package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// approval makes an approval that waits for one person.
func (f *feeding) approval(t *testing.T) spend.ID {
	t.Helper()
	id := spend.NewID(time.Now())
	f.exec(t, `INSERT INTO approvals (id, created_at, expires_at, use_within_ms, required, action_hash, policy_id, agent_id,
		principal)
		VALUES ($1, now(), now() + interval '1 hour', 60000, 1, '\x00', 'p', 'a', 'asker')`, [16]byte(id))
	return id
}

const approve = `SELECT decide_approval($1, '\x00', true, NULL, NULL, true, NULL, NULL, NULL, 0, '{}',
	ROW('key', 'k', 'bob', NULL, NULL, NULL)::actor)`

// waiting reports whether a session waits for a lock.
func (f *feeding) waiting(t *testing.T) bool {
	t.Helper()
	return count(t, f.Store, fleet.TestLocks+" WHERE locktype = 'advisory' AND NOT granted") > 0
}

// meanwhile reads in the background until something releases it.
func (f *feeding) meanwhile(t *testing.T, release func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := f.Events(t.Context(), audit.EventQuery{After: f.cursor, Limit: 7})
		done <- err
	}()
	for !f.waiting(t) {
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	release()
	must.Do(t, <-done)
}

// eventInterleavings has one case for each row of the table in docs/internals/events.md.
var eventInterleavings = map[string]func(t *testing.T, f *feeding){
	"commit is late": func(t *testing.T, f *feeding) {
		late := f.session(t, pgx.ReadCommitted)
		insert(t, late, "late", 3, time.Hour) // with identifiers below those that are numbered
		insert(t, f.Reads, "busy", 10, time.Minute)
		f.news(t, "before it is over", 10)
		insert(t, f.Reads, "busy", 10, time.Minute)
		f.news(t, "later", 10)
		end(t, late.Commit)
		f.news(t, "once it is over", 3)
		insert(t, f.Reads, "busy", 1, time.Minute)
		f.news(t, "after it", 1)
	},
	"session sleeps before it inserts": func(t *testing.T, f *feeding) {
		asleep, others := f.begun(t), f.begun(t)
		for range 3 {
			insert(t, f.Reads, "busy", 5, time.Minute)
			f.news(t, "meanwhile", 5)
		}
		insert(t, asleep, "late", 2, time.Minute)
		end(t, asleep.Commit)
		f.news(t, "once it is over", 2)
		insert(t, others, "late", 2, time.Minute)
		f.news(t, "of one that is not", 0)
		end(t, others.Commit)
		f.news(t, "of the other", 2)
	},
	"session sleeps before its first statement": func(t *testing.T, f *feeding) {
		asleep := f.session(t, pgx.ReadCommitted)
		insert(t, f.Reads, "busy", 5, time.Minute)
		f.news(t, "meanwhile", 5)
		insert(t, asleep, "late", 2, time.Hour)
		f.news(t, "before it is over", 0)
		end(t, asleep.Commit)
		f.news(t, "once it is over", 2)
	},
	"commit is undone": func(t *testing.T, f *feeding) {
		undone := f.session(t, pgx.ReadCommitted)
		insert(t, undone, "late", 5, time.Minute)
		part := must.Get(undone.Begin(t.Context()))(t)
		insert(t, part, "late", 5, time.Minute)
		insert(t, f.Reads, "busy", 5, time.Minute)
		f.news(t, "meanwhile", 5)
		end(t, part.Rollback)
		end(t, undone.Rollback)
		f.news(t, "once it is over", 0)
	},
	"two number at once": func(t *testing.T, f *feeding) {
		insert(t, f.Reads, "busy", 5, time.Minute)
		one := f.session(t, pgx.ReadCommitted)
		number(t, one, 100)
		insert(t, f.Reads, "busy", 5, time.Minute) // the first does not see them
		f.meanwhile(t, func() { end(t, one.Commit) })
		f.news(t, "of both", 10)
	},
	"a page is full of what has numbers": func(t *testing.T, f *feeding) {
		insert(t, f.Reads, "busy", 20, time.Minute)
		f.steps(t, 100)
		insert(t, f.Reads, "busy", 5, time.Minute)
		one := f.session(t, pgx.ReadCommitted)
		number(t, one, 100)
		if page, err := f.Events(t.Context(), audit.EventQuery{Limit: 19}); err != nil || len(page.Events) != 19 || !page.More {
			t.Errorf("it waited for other numbers: %d events, %v", len(page.Events), err)
		}
		end(t, one.Commit)
		f.news(t, "all", 25)
	},
	"numbering is killed": func(t *testing.T, f *feeding) {
		insert(t, f.Reads, "busy", 5, time.Minute)
		killed := f.session(t, pgx.ReadCommitted)
		number(t, killed, 100)
		f.meanwhile(t, func() {
			f.exec(t, "SELECT pg_terminate_backend($1)", int32(killed.Conn().PgConn().PID())) //nolint:gosec // a process's number
		})
		f.news(t, "once it is dead", 5)
	},
	"many were never numbered": func(t *testing.T, f *feeding) {
		late := f.begun(t)
		for range 10 {
			insert(t, f.Reads, "busy", 6, time.Minute)
			createPolicy(t, f.Reads, "p")
		}
		insert(t, late, "late", 3, time.Minute)
		end(t, late.Commit)
		f.steps(t, 4)
		f.news(t, "in steps that are smaller than transactions", 73)
	},
	"a change overtakes another": func(t *testing.T, f *feeding) {
		for range 2 {
			overtaken := f.begun(t)
			createPolicy(t, f.Reads, "shared")
			createPolicy(t, overtaken, "shared")
			end(t, overtaken.Commit)
		}
		f.steps(t, 1)
		events := f.news(t, "all", 4)
		for i := range events {
			if v := events[i].Change.Version; v != i+1 {
				t.Errorf("version %d comes at %d", v, i)
			}
		}
	},
	"a use waits for the decision": func(t *testing.T, f *feeding) {
		for i := range 4 {
			id, use := f.approval(t), f.begun(t)
			pending := f.begun(t)
			f.exec(t, approve, [16]byte(id))
			must.Get(use.Exec(t.Context(), `SELECT use_approvals(ARRAY[gen_random_uuid()], ARRAY[$1::uuid], ARRAY['\x00'::bytea], NULL)`,
				[16]byte(id)))(t)
			if i%2 == 0 { // it is pending when the decision gets its number
				f.next(t)
			}
			end(t, use.Commit)
			end(t, pending.Commit)
			if i == 3 {
				f.steps(t, 1)
			}
		}
		f.next(t)
	},
	"the lock is held for long": func(t *testing.T, f *feeding) {
		insert(t, f.Reads, "busy", 5, time.Minute)
		held := f.session(t, pgx.ReadCommitted)
		number(t, held, 100)
		ctx, cancel := context.WithTimeout(t.Context(), patient)
		defer cancel()
		if _, err := f.Events(ctx, audit.EventQuery{Limit: 7}); !errors.Is(err, audit.ErrUnavailable) ||
			!strings.Contains(err.Error(), pg.CodeLockTimeout) {
			t.Errorf("got %v", err)
		}
		if f.waiting(t) {
			t.Error("a session waits for nobody")
		}
		end(t, held.Rollback)
		f.news(t, "once it is free", 5)
	},
	"a decision has its number before the request": func(t *testing.T, f *feeding) {
		decision := f.begun(t)
		id := f.approval(t)
		must.Get(decision.Exec(t.Context(), approve, [16]byte(id)))(t)
		end(t, decision.Commit)
		f.news(t, "both", 3)
	},
	"commits come between snapshot and step": func(t *testing.T, f *feeding) {
		f.exec(t, `ALTER FUNCTION event_positions(xid8, integer) RENAME TO positions;
			CREATE FUNCTION event_positions(low xid8, most integer) RETURNS SETOF xid8 LANGUAGE plpgsql AS $$ BEGIN
				IF most > 1 THEN PERFORM pg_advisory_xact_lock(42); END IF; -- behind the snapshot
				RETURN QUERY SELECT * FROM positions(low, most);
			END $$`)
		insert(t, f.Reads, "busy", 1, time.Minute)
		held, step := f.session(t, pgx.ReadCommitted), f.session(t, pgx.ReadCommitted)
		must.Get(held.Exec(t.Context(), "SELECT pg_advisory_xact_lock(42)"))(t)
		done := make(chan error, 1)
		go func() {
			_, err := step.Exec(t.Context(), "SELECT sequence_events(2)")
			done <- err
		}()
		for !f.waiting(t) {
			time.Sleep(time.Millisecond)
		}
		for range 4 {
			insert(t, f.Reads, "busy", 1, time.Minute)
		}
		end(t, held.Commit)
		must.Do(t, <-done)
		end(t, step.Commit)
		f.news(t, "all", 5)
	},
	"nothing happens": func(t *testing.T, f *feeding) {
		insert(t, f.Reads, "busy", 5, time.Minute)
		f.news(t, "at first", 5)
		held := f.session(t, pgx.ReadCommitted)
		must.Get(held.Exec(t.Context(), "SELECT pg_advisory_xact_lock('event_state'::regclass::oid::integer, 0)"))(t)
		f.news(t, "without the lock", 0)
		end(t, held.Rollback)
	},
	"a standby that was behind is promoted": func(t *testing.T, f *feeding) {
		insert(t, f.Reads, "busy", 5, time.Minute)
		lost := f.news(t, "before", 5)[4]
		// The standby has neither the number of the last event nor those after it.
		f.exec(t, "ALTER TABLE events DISABLE TRIGGER immutable")
		f.exec(t, "DELETE FROM events WHERE sequence = $1", lost.Sequence)
		f.exec(t, "UPDATE event_state SET last = last - 1, timeline = '0000000A', below = (SELECT max(xid) FROM violations)")
		f.exec(t, "ALTER TABLE events ENABLE TRIGGER immutable")
		f.exec(t, "ALTER TABLE violations DISABLE TRIGGER immutable")
		f.exec(t, "DELETE FROM violations")
		f.read, f.cursor = nil, f.cursor+99 // read of the old primary
		insert(t, f.Reads, "busy", 3, time.Minute)
		f.exec(t, "ALTER TABLE events DISABLE TRIGGER immutable")
		f.exec(t, "DELETE FROM events")
		f.news(t, "after", 3)
		insert(t, f.Reads, "busy", 3, time.Minute)
		if events := f.news(t, "later", 3); events[0].Sequence > 2*1000000 {
			t.Errorf("sequence %d: it was promoted once", events[0].Sequence)
		}
	},
}

func TestEventsInterleaved(t *testing.T) {
	for name, test := range eventInterleavings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &feeding{counting: newCounting(t)}
			test(t, f)
			f.whole(t)
		})
	}
}

// steps numbers all there is, a few at a time.
func (f *feeding) steps(t *testing.T, most int) {
	t.Helper()
	for range 1000 {
		tx := f.session(t, pgx.ReadCommitted)
		complete := number(t, tx, most)
		end(t, tx.Commit)
		must.Do(t, tx.Conn().Close(t.Context()))
		if complete {
			return
		}
	}
	t.Fatal("it does not end")
}

// TestEventsOfAnotherCluster: a dump that is restored goes on where it was, whatever
// the numbers of transactions are there.
func TestEventsOfAnotherCluster(t *testing.T) {
	f := &feeding{counting: newCounting(t)}
	insert(t, f.Reads, "busy", 5, time.Minute)
	createPolicy(t, f.Reads, "p")
	f.news(t, "before the dump", 6)
	late := f.begun(t)
	overtaken := f.begun(t)
	createPolicy(t, f.Reads, "p")
	insert(t, f.Reads, "busy", 5, time.Minute)
	f.steps(t, 100)
	createPolicy(t, overtaken, "p")
	end(t, overtaken.Commit)
	insert(t, late, "busy", 2, time.Minute)
	end(t, late.Commit)
	insert(t, f.Reads, "busy", 3, time.Minute)
	// Its transactions had greater numbers, which this cluster reaches soon.
	for _, table := range []string{"violations", "changes"} {
		f.exec(t, fmt.Sprintf("ALTER TABLE %[1]s DISABLE TRIGGER immutable; UPDATE %[1]s SET xid = (xid::text::bigint + 100)::text::xid8", table))
		f.exec(t, fmt.Sprintf("ALTER TABLE %s ENABLE TRIGGER immutable", table))
	}
	f.exec(t, `ALTER TABLE changes DISABLE TRIGGER immutable; UPDATE changes SET position = (position::text::bigint + 100)::text::xid8;
		ALTER TABLE changes ENABLE TRIGGER immutable;
		UPDATE event_state SET cluster = 1, below = (below::text::bigint + 100)::text::xid8,
			pending = ARRAY(SELECT (x::text::bigint + 100)::text::xid8 FROM unnest(pending) AS x);
		UPDATE violation_count_state SET cluster = 1`)
	if _, err := f.Events(t.Context(), audit.EventQuery{After: f.cursor, Limit: 7}); err == nil ||
		!strings.Contains(err.Error(), "recount_violations") {
		t.Errorf("got %v", err)
	}
	f.exec(t, "SELECT recount_violations()")
	f.news(t, "of the dump", 5+1+1+2+3)
	for range 200 {
		f.exec(t, "SELECT pg_current_xact_id()")
	}
	insert(t, f.Reads, "busy", 5, time.Minute)
	createPolicy(t, f.Reads, "p")
	if events := f.news(t, "after it", 6); events[0].Sequence < 1000000 {
		t.Errorf("sequence %d may have been read of what the dump lacks", events[0].Sequence)
	}
	f.exec(t, "SELECT recount_violations()") // of the same cluster
	f.whole(t)
}

// TestEventsOfChangesHaveTheirTime: events of changes are as old as their change, whatever their type, so that none leaves too early.
func TestEventsOfChangesHaveTheirTime(t *testing.T) {
	s := newCounting(t)
	createPolicy(t, s.Reads, "p")
	var others []string
	must.Do(t, s.Reads.QueryRow(t.Context(), `SELECT coalesce(array_agg(type), '{}') FROM changes AS c, unnest($1::text[]) AS type
		WHERE event_at(lpad(to_hex(c.seq), 32, '0')::uuid, type) IS DISTINCT FROM c.at`, audit.EventTypes()).Scan(&others))
	if len(others) > 0 {
		t.Errorf("%v have another", others)
	}
}
