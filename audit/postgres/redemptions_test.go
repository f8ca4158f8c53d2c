package postgres

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// redemption is the first step of a check, which may be redeemed for a minute.
func redemption(of *spend.Check) *spend.Outcome {
	return &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now()), CheckID: of.ID, Step: 1, Status: spend.Redeemed, Release: spend.ReleaseNone, KeyID: "key_1",
		RequestID: "req_1", Fence: of.Fence, Check: of, RedeemBy: time.Now().Add(time.Minute),
	}
}

// TestDoubtsAreDue: checks redeemed 15 minutes ago or earlier are due, the oldest first, unless
// they are in doubt already.
func TestDoubtsAreDue(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	var all []spend.ID
	for i := range 4 {
		c := minimal(f)
		must.Do(t, audittest.RecordAll(t.Context(), s, []*spend.Check{c}, redemption(c)))
		statement(t, url, fmt.Sprintf("UPDATE redemptions_open SET redeemed_at = redeemed_at - interval '%d seconds' WHERE check_id = '%s'",
			870+20*i, c.ID.Text("")))
		all = append(all, c.ID)
	}
	statement(t, url, fmt.Sprintf("UPDATE redemptions_open SET doubted_at = now() WHERE check_id = '%s'", all[2].Text("")))
	for limit, want := range map[int][]spend.ID{0: {}, 9: {all[3]}} {
		if d, err := s.Doubts(t.Context(), limit); err != nil || d.InDoubt != 1 || !slices.Equal(d.Due, want) {
			t.Errorf("up to %d: %+v, %v, want %v", limit, d, err, want)
		}
	}
	statement(t, url, fmt.Sprintf(
		"UPDATE redemptions_open SET redeemed_at = redeemed_at - interval '1 hour', doubted_at = NULL WHERE check_id = '%s'", all[2].Text("")))
	for limit, want := range [][]spend.ID{{}, {all[2]}, {all[2], all[3]}, {all[2], all[3]}} {
		if d, err := s.Doubts(t.Context(), limit); err != nil || d.InDoubt != 0 || !slices.Equal(d.Due, want) {
			t.Errorf("up to %d: %+v, %v, want %v", limit, d, err, want)
		}
	}
}

// TestRemembered: who redeems at the node that answered has nothing read, once, and not of
// what this node recorded since (F129).
func TestRemembered(t *testing.T) {
	s := open(t, migrated(t), true)
	f := newFence(t, s)
	record := func(checks ...*spend.Check) {
		t.Helper()
		must.Do(t, audittest.Record(t.Context(), s, checks...))
	}
	untouched := func(c *spend.Check) (found, same bool) {
		t.Helper()
		all, err := s.Untouched(t.Context(), []spend.ID{c.ID})
		if err != nil || len(all) > 1 || len(all) == 1 && !reflect.DeepEqual(all[0], c) {
			t.Fatalf("%+v, %v", all, err)
		}
		return len(all) == 1, len(all) == 1 && all[0] == c
	}
	first, again, reported, blocked := minimal(f), minimal(f), minimal(f), minimal(f)
	long := minimal(f)
	long.Action.ReasonText = strings.Repeat("x", rememberedBytes+1)
	blocked.Decision.Effect, blocked.Decision.Reason = spend.Block, "cap"
	record(first)
	if found, same := untouched(first); !found || same {
		t.Error("something is kept before anybody redeems")
	}
	record(again, reported, blocked, long)
	for n, want := range []bool{true, false} {
		if found, same := untouched(again); !found || same != want {
			t.Errorf("look-up %d: found %t, remembered %t", n, found, same)
		}
	}
	must.Do(t, audittest.RecordAll(t.Context(), s, nil, redemption(reported)))
	if found, _ := untouched(reported); found {
		t.Error("a redeemed check is remembered as untouched")
	}
	for _, c := range []*spend.Check{blocked, long} {
		if found, same := untouched(c); !found || same {
			t.Error("what is not allowed, or long, is remembered")
		}
	}
}

// TestRememberedOverReconnect: a check that was handed out from memory is redeemed by no
// server but the one that has it, for a failover may have lost it (F129, G14).
func TestRememberedOverReconnect(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	must.Get(s.Untouched(t.Context(), []spend.ID{f.Node}))(t)
	given, kept := minimal(f), minimal(f)
	must.Do(t, audittest.Record(t.Context(), s, given, kept))
	if found, err := s.Untouched(t.Context(), []spend.ID{given.ID}); err != nil || len(found) != 1 || found[0] != given {
		t.Fatalf("%+v, %v", found, err)
	}
	s.writers.close() // the connections are gone
	s.writers = newSessions(s.writers.config, s.writers.hosts, 2, &s.losses)
	for range 2 { // others' commits may come first, over each connection
		must.Do(t, audittest.Record(t.Context(), s, minimal(f)))
	}
	for n, refused := range []bool{true, false} {
		err := audittest.RecordAll(t.Context(), s, nil, redemption(given))
		if _, is := errors.AsType[*audit.ReportedError](err); is != refused || !is && err != nil {
			t.Errorf("try %d over another connection: %v", n, err)
		}
	}
	if found, err := s.Untouched(t.Context(), []spend.ID{kept.ID}); err != nil || len(found) != 1 || found[0] == kept {
		t.Errorf("remembered of another server: %+v, %v", found, err)
	}
}

// unread is the redemption of a check of which the request says what the check has.
func unread(of *spend.Check) *spend.Outcome {
	o := redemption(of)
	o.Unread, o.Check = true, &spend.Check{ID: of.ID, Action: of.Action, ActionType: of.ActionType, Decision: of.Decision}
	return o
}

// TestUnreadReadsTwoDays: the statement that compares checks has its plan kept over commits and
// refusals, locks no other days than the current one and the one before, and is prepared anew when
// the day ends (F136).
func TestUnreadReadsTwoDays(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	statement(t, url, "SELECT make_partition((now() - d * interval '1 day')::date) FROM generate_series(1, 30) AS d")
	f := newFence(t, s)
	aged := func(ago time.Duration) *spend.Check {
		c := minimal(f)
		c.ID = spend.NewID(time.Now().Add(-ago))
		return c
	}
	now, before, long := aged(0), aged(24*time.Hour-time.Minute), aged(60*time.Hour)
	must.Do(t, audittest.Record(t.Context(), s, now, before, long))
	if err := audittest.RecordAll(t.Context(), s, nil, unread(long)); !errors.As(err, new(*audit.ReportedError)) {
		t.Errorf("of an earlier day: %v", err)
	}
	if err := audittest.RecordAll(t.Context(), s, nil, unread(now), unread(before)); err != nil {
		t.Errorf("of these days: %v", err)
	}
	for range cap(s.writers.idle) { // as of yesterday
		session, err := s.writers.take(t.Context())
		must.Do(t, err)
		session.unreadPrepared, session.unreadFrom = true, unreadFrom(time.Now()).AddDate(0, 0, -1)
		session.parsing, session.buf = nil, nil
		for _, message := range []pgproto3.FrontendMessage{
			&pgproto3.Close{ObjectType: 'S', Name: s.statement + "_unread"},
			&pgproto3.Parse{Name: s.statement + "_unread", Query: unreadQuery(session.unreadFrom)}, &pgproto3.Sync{},
		} {
			if session.buf, err = message.Encode(session.buf); err != nil {
				t.Fatal(err)
			}
		}
		must.Get(session.exchange(t.Context(), 0))(t)
		s.writers.give(session)
	}
	for range 2 * cap(s.writers.idle) {
		next := aged(0)
		must.Do(t, audittest.Record(t.Context(), s, next))
		if err := audittest.RecordAll(t.Context(), s, nil, unread(next)); err != nil {
			t.Errorf("behind midnight: %v", err)
		}
	}
	var days int
	tx := must.Get(s.Reads.Begin(t.Context()))(t)
	defer tx.Rollback(t.Context()) //nolint:errcheck // it only read
	none := strings.ReplaceAll(unreadQuery(unreadFrom(time.Now())), "$1::unread_row[]", "'{}'::unread_row[]")
	must.Get(tx.Exec(t.Context(), none))(t)
	if err := tx.QueryRow(t.Context(), `SELECT count(DISTINCT c.relname) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
		WHERE l.pid = pg_backend_pid() AND c.relname ~ '^checks_[0-9]{8}$'`).Scan(&days); err != nil || days != unreadDays {
		t.Errorf("%d days are locked, %v", days, err)
	}
}

// TestUnreadMeansRemembered: what the node remembers is not compared in the commit, and behind a
// pooler nothing is.
func TestUnreadMeansRemembered(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	own := minimal(f)
	if !s.Unread(own.ID) {
		t.Error("it is to be read")
	}
	must.Do(t, audittest.Record(t.Context(), s, own))
	if s.Unread(own.ID) {
		t.Error("what is remembered is not to be read")
	}
	s.statement = ""
	if s.Unread(spend.NewID(time.Now())) {
		t.Error("behind a pooler it is planned each time")
	}
}

// TestUntouchedReadsOneDay: whatever days there are, a look-up plans, locks and reads the day of
// its checks, also by the plan that is kept. One for all values locks every day.
func TestUntouchedReadsOneDay(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	statement(t, url, "SELECT make_partition((now() - d * interval '1 day')::date) FROM generate_series(1, 30) AS d")
	locked := func(pool *pgxpool.Pool, query string) (days int) {
		tx := must.Get(pool.Begin(t.Context()))(t)
		defer tx.Rollback(t.Context()) //nolint:errcheck // it only read
		must.Get(tx.Exec(t.Context(), query, pg.UUIDs([]spend.ID{spend.NewID(time.Now())})))(t)
		must.Do(t, tx.QueryRow(t.Context(), `SELECT count(DISTINCT c.relname) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
			WHERE l.pid = pg_backend_pid() AND c.relname ~ '^checks_[0-9]{8}$'`).Scan(&days))
		return days
	}
	today := untouchedOn(time.Now().UTC().Truncate(24 * time.Hour))
	for range 8 { // as often as a connection might take to prefer a plan for all
		if days := locked(s.Reads, untouchedQuery()); days != 1 {
			t.Fatalf("%d days are locked", days)
		}
		if days := locked(s.lookups, today); days != 1 {
			t.Fatalf("%d days are locked by the plan that is kept", days)
		}
	}
	var kept int
	err := s.lookups.QueryRow(t.Context(), "SELECT generic_plans FROM pg_prepared_statements WHERE statement = $1", today).Scan(&kept)
	if err != nil || kept != 8 {
		t.Errorf("%d plans were kept, %v", kept, err)
	}
}

// TestUntouchedOfDays: checks of earlier days are found together with those of the current day,
// even if their day has no partition of its own or the node gets no connection for look-ups.
func TestUntouchedOfDays(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	at := func(ago time.Duration) *spend.Check {
		c := minimal(f)
		c.ID = spend.NewID(time.Now().Add(-ago))
		return c
	}
	all := []*spend.Check{at(0), at(20 * time.Hour), at(24 * time.Hour), at(48 * time.Hour), at(40 * 24 * time.Hour), at(-2 * time.Hour)}
	must.Do(t, audittest.Record(t.Context(), s, all...))
	found := func(checks ...*spend.Check) {
		t.Helper()
		var ids []spend.ID
		for _, c := range checks {
			ids = append(ids, c.ID)
		}
		got, err := s.Untouched(t.Context(), append(ids, spend.NewID(time.Now())))
		if err != nil || len(got) != len(checks) {
			t.Errorf("%d of %d, %v", len(got), len(checks), err)
		}
	}
	for _, c := range all {
		found(c)
		if got, err := s.Untouched(t.Context(), []spend.ID{c.ID}); err != nil || len(got) != 1 || got[0].ID != c.ID {
			t.Errorf("alone: %v, %v", got, err)
		}
	}
	found(all...)
	s.lookups.Close()
	found(all[0])
	found(all...)
}

// TestUntouchedPreparedAnew: statements that somebody removed from the connection for look-ups,
// whose plans are kept, are prepared again, and look-ups meanwhile are answered.
func TestUntouchedPreparedAnew(t *testing.T) {
	s := open(t, migrated(t), true)
	c := minimal(newFence(t, s))
	must.Do(t, audittest.Record(t.Context(), s, c))
	find := func() {
		t.Helper()
		if found, err := s.Untouched(t.Context(), []spend.ID{c.ID}); err != nil || len(found) != 1 || !reflect.DeepEqual(found[0], c) {
			t.Errorf("%+v, %v", found, err)
		}
	}
	find()
	must.Get(s.lookups.Exec(t.Context(), "DEALLOCATE ALL"))(t)
	find()
	s.lookupsFrom.Store(0) // the pause is over
	find()
	if s.lookupsFrom.Load() != 0 {
		t.Error("it is not prepared again")
	}
}
