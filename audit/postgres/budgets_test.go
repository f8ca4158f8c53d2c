package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// charge gives a check a budget for each agent and day.
func charge(c *spend.Check) {
	const day = 24 * 60 * 60 * 1000
	limit, _ := spend.ParseTotal("1000000000")
	start := c.ID.Time().UnixMilli() / day * day
	subject := `["` + c.Action.AgentID + `"]`
	c.Charges = []spend.Charge{{
		Counter: spend.Counter{ID: spend.CounterID(c.Action.PolicyID, "budget", 1, subject), StartMS: start},
		RuleID:  "budget", Since: 1, Subject: subject, AgentID: c.Action.AgentID, Amount: c.Action.Amount,
		Limited: true, Limit: limit, EndMS: start + day,
	}}
}

// TestCounterRestored has counters vanish, as when an older state is restored,
// whose rows a node remembers (F84).
func TestCounterRestored(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	var counter []spend.Counter
	commit := func(seq int64) {
		c := minimal(f)
		charge(c)
		counter = []spend.Counter{c.Charges[0].Counter}
		must.Do(t, s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(seq, c)))
	}
	commit(1)
	statement(t, url, "DELETE FROM budget_counters")
	for want := int64(1); want <= 2; want++ {
		commit(1 + want)
		if usages, err := s.CounterUsages(t.Context(), counter); err != nil || usages[0].Count != want {
			t.Fatalf("got %v, %v, want %d", usages, err, want)
		}
	}
}

// TestServerLacksCommits has a node's connections lead to a server that lacks what
// the node recorded (F84).
func TestServerLacksCommits(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	commit := func(seq int64) {
		t.Helper()
		c := minimal(f)
		charge(c)
		c.KeyID, c.Refused = "key_1", []spend.Charge{c.Charges[0]}
		c.Refused[0].Counter.StartMS++
		c.Pass = spend.Pass{ClaimedMS: c.ID.Time().UnixMilli(), UntilMS: c.ID.Time().UnixMilli() + time.Hour.Milliseconds()}
		must.Do(t, s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(seq, c)))
	}
	lacks := func() (lacks string) {
		t.Helper()
		must.Do(t, s.Reads.QueryRow(t.Context(), `SELECT concat_ws(',', CASE WHEN ms = 0 THEN 'horizon' END,
				CASE WHEN NOT EXISTS (SELECT FROM budget_principals) THEN 'principals' END,
				CASE WHEN NOT EXISTS (SELECT FROM budget_exhaustions) THEN 'exhaustions' END) FROM horizon`).Scan(&lacks))
		return lacks
	}
	connections := int64(cap(s.writers.idle))
	for seq := range connections {
		commit(1 + seq)
	}
	statement(t, url, `ALTER TABLE budget_exhaustions DISABLE TRIGGER USER; UPDATE horizon SET ms = 0;
		DELETE FROM budget_principals; DELETE FROM budget_exhaustions`)
	commit(1 + connections)
	if got := lacks(); got != "horizon,principals,exhaustions" {
		t.Fatalf("recorded each time: lacks %q", got)
	}
	for range connections {
		session := <-s.writers.idle
		session.drop()
		s.writers.idle <- session
	}
	commit(2 + connections)
	if got := lacks(); got != "" {
		t.Errorf("lacks %q", got)
	}
}

// TestRoomMadeMeanwhile gives back to a counter that has no room while the commit
// that it refuses waits for another one (F85).
func TestRoomMadeMeanwhile(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	commit := func(seq int64) error {
		c := minimal(f)
		c.Action.AgentID = "full"
		charge(c)
		full := c.Charges
		full[0].Counted, full[0].MaxCount = true, 1
		c.Action.AgentID = "held"
		charge(c)
		c.Charges = append(full, c.Charges...)
		return s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(seq, c))
	}
	must.Do(t, commit(1))
	tx := must.Get(connect(t, url).Begin(t.Context()))(t)
	must.Get(tx.Exec(t.Context(), "UPDATE budget_counters SET count = 0"))(t)
	must.Check(t, beside(t, s, tx, func() error { return commit(2) }))
}

// beside commits tx once f has ended or waits for it, and returns f's error.
func beside(t *testing.T, s *Store, tx pgx.Tx, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for waits := false; !waits && len(done) == 0; time.Sleep(time.Millisecond) {
		must.Do(t, s.Reads.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))",
			int(tx.Conn().PgConn().PID())).Scan(&waits))
	}
	return errors.Join(tx.Commit(t.Context()), <-done)
}

// earlier records a check of the day before: a record of one day does not show that time has passed.
func earlier(t *testing.T, s *Store) {
	t.Helper()
	c := minimal(newFence(t, s))
	c.ID = spend.NewID(time.Now().Add(-24*time.Hour - time.Minute))
	must.Do(t, s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(1, c)))
}

// TestTidyGoesByTheRecord: where all clocks say that a window ended long ago, its counter stays
// until checks of two days show it.
func TestTidyGoesByTheRecord(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	left := func(rows int) {
		t.Helper()
		if err := s.Tidy(t.Context(), time.Now()); err != nil || count(t, s, "budget_counters") != rows {
			t.Errorf("%v; %d rows are left, want %d", err, count(t, s, "budget_counters"), rows)
		}
	}
	c := minimal(newFence(t, s))
	charge(c)
	must.Do(t, s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(1, c)))
	statement(t, url, fmt.Sprint("UPDATE budget_counters SET end_ms = ", time.Now().Add(-49*time.Hour).UnixMilli()))
	left(1)
	earlier(t, s)
	left(0)
}

// TestTidyKeepsCounters removes counters by a clock that is ahead, and beside a
// commit that uses one for longer.
func TestTidyKeepsCounters(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	earlier(t, s)
	c := minimal(newFence(t, s))
	charge(c)
	must.Do(t, s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(1, c)))
	kept := func() bool {
		usages, err := s.CounterUsages(t.Context(), []spend.Counter{c.Charges[0].Counter})
		return err == nil && usages[0].Count == 1
	}
	if err := s.Tidy(t.Context(), time.Now().AddDate(0, 0, 9)); err != nil || !kept() {
		t.Errorf("by a clock that is ahead: %v, kept %t", err, kept())
	}
	statement(t, url, "UPDATE budget_counters SET end_ms = 1")
	tx := must.Get(connect(t, url).Begin(t.Context()))(t)
	must.Get(tx.Exec(t.Context(), "UPDATE budget_counters SET end_ms = $1", c.Charges[0].EndMS))(t)
	if err := beside(t, s, tx, func() error { return s.Tidy(t.Context(), time.Now()) }); err != nil || !kept() {
		t.Errorf("beside a commit: %v, kept %t", err, kept())
	}
}

// TestTidyBesideCommit removes a counter's last row while a commit gives it another (F86).
func TestTidyBesideCommit(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	earlier(t, s)
	c := minimal(newFence(t, s))
	charge(c)
	c.Principal = "till"
	must.Do(t, s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(1, c)))
	statement(t, url, "UPDATE budget_counters SET end_ms = 1")
	tx := must.Get(connect(t, url).Begin(t.Context()))(t)
	must.Get(tx.Exec(t.Context(), `SELECT insert_counters(array_agg(ROW(b.counter_id, b.start_ms + 1, 0, b.start_ms + 2, since, policy_id,
		rule_id, subject, agent_id, 'till')::counter_row)) FROM budget_counters AS b`))(t)
	must.Do(t, beside(t, s, tx, func() error { return s.Tidy(t.Context(), time.Now()) }))
	if rows, met := count(t, s, "budget_counters"), count(t, s, "budget_principals"); rows != 1 || met != 1 {
		t.Errorf("%d rows that met %d", rows, met)
	}
}

// TestTidyAtOnce has another node remove one of a counter's two rows.
func TestTidyAtOnce(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	earlier(t, s)
	c := minimal(newFence(t, s))
	charge(c)
	c.Principal = "till"
	c.Charges = append(c.Charges, c.Charges[0])
	c.Charges[1].Counter.StartMS++
	must.Do(t, s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(1, c)))
	statement(t, url, "UPDATE budget_counters SET end_ms = 1")
	tx := must.Get(connect(t, url).Begin(t.Context()))(t)
	must.Get(tx.Exec(t.Context(), deleteCounters, 1, time.Now().UnixMilli(), 0))(t)
	must.Do(t, beside(t, s, tx, func() error { return s.Tidy(t.Context(), time.Now()) }))
	if rows, met := count(t, s, "budget_counters"), count(t, s, "budget_principals"); rows+met != 0 {
		t.Errorf("%d rows that met %d", rows, met)
	}
}

// TestTidyReadsByIndex: removing counters reads other counters neither in their table
// nor in the table of principals.
func TestTidyReadsByIndex(t *testing.T) {
	s := open(t, migrated(t), true)
	tx := must.Get(s.Reads.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }() // nothing was meant to stay
	for _, prepare := range []string{
		`INSERT INTO budget_counters (counter_id, start_ms, bucket_ms, end_ms, since, policy_id, rule_id, subject)
			SELECT md5(i::text)::uuid, 0, 0, CASE WHEN i > 10 THEN 1e15 ELSE 1 END, 1, 'p', 'r', '[]' FROM generate_series(1, 20000) AS i`,
		"INSERT INTO budget_principals SELECT counter_id, 'till' FROM budget_counters",
		"ANALYZE budget_counters, budget_principals",
	} {
		must.Get(tx.Exec(t.Context(), prepare))(t)
	}
	const read = `SELECT sum(seq_tup_read)::bigint, sum(idx_tup_fetch)::bigint, sum(n_tup_del)::bigint FROM pg_stat_xact_user_tables
		WHERE relname IN ('budget_counters', 'budget_principals') AND schemaname = current_schema()`
	var before, after [3]int64
	must.Do(t, tx.QueryRow(t.Context(), read).Scan(&before[0], &before[1], &before[2]))
	must.Get(tx.Exec(t.Context(), deleteCounters, 5000, time.Now().UnixMilli(), 0))(t)
	must.Do(t, tx.QueryRow(t.Context(), read).Scan(&after[0], &after[1], &after[2]))
	if after[0] != before[0] || after[1]-before[1] > 100 || after[2]-before[2] != 20 {
		t.Errorf("before %d, after %d rows read one after the other, by index, and deleted", before, after)
	}
}
