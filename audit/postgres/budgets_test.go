package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/audittest"
	"spendgate/hotpath/spend"
)

// charge gives a check a budget for each agent and day.
func charge(c *spend.Check) {
	const day = 24 * 60 * 60 * 1000
	limit, _ := spend.ParseAmount("1000000000")
	start := c.ID.Time().UnixMilli() / day * day
	subject := `["` + c.Action.AgentID + `"]`
	c.Charges = []spend.Charge{{
		Counter: spend.Counter{ID: spend.CounterID(c.Action.PolicyID, "budget", 1, subject), StartMS: start},
		RuleID:  "budget", Since: 1, Subject: subject, AgentID: c.Action.AgentID, Amount: c.Action.Amount,
		Limited: true, Limit: limit, EndMS: start + day,
	}}
}

// TestCounterRestored has counters vanish, as when an older state is restored,
// whose rows a node remembers.
func TestCounterRestored(t *testing.T) {
	url := database(t)
	s := open(t, url, true)
	f := newFence(t, s)
	var counter []spend.Counter
	commit := func(seq int64) {
		c := minimal(f)
		charge(c)
		counter = []spend.Counter{c.Charges[0].Counter}
		if err := s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(seq, c)); err != nil {
			t.Fatal(err)
		}
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
// the node recorded.
func TestServerLacksCommits(t *testing.T) {
	url := database(t)
	s := open(t, url, true)
	f := newFence(t, s)
	commit := func(seq int64) {
		t.Helper()
		c := minimal(f)
		charge(c)
		c.KeyID, c.Refused = "key_1", []spend.Charge{c.Charges[0]}
		c.Refused[0].Counter.StartMS++
		c.Pass = spend.Pass{ClaimedMS: c.ID.Time().UnixMilli(), UntilMS: c.ID.Time().UnixMilli() + time.Hour.Milliseconds()}
		if err := s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(seq, c)); err != nil {
			t.Fatal(err)
		}
	}
	lacks := func() (lacks string) {
		t.Helper()
		if err := s.reads.QueryRow(t.Context(), `SELECT concat_ws(',', CASE WHEN ms = 0 THEN 'horizon' END,
				CASE WHEN NOT EXISTS (SELECT FROM budget_principals) THEN 'principals' END,
				CASE WHEN NOT EXISTS (SELECT FROM budget_exhaustions) THEN 'exhaustions' END) FROM horizon`).Scan(&lacks); err != nil {
			t.Fatal(err)
		}
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
// that it refuses waits for another one.
func TestRoomMadeMeanwhile(t *testing.T) {
	url := database(t)
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
	if err := commit(1); err != nil {
		t.Fatal(err)
	}
	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE budget_counters SET count = 0"); err != nil {
		t.Fatal(err)
	}
	if err := beside(t, s, tx, func() error { return commit(2) }); err != nil {
		t.Error(err)
	}
}

// beside commits tx once f has ended or waits for it, and returns f's error.
func beside(t *testing.T, s *Store, tx pgx.Tx, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for waits := false; !waits && len(done) == 0; time.Sleep(time.Millisecond) {
		if err := s.reads.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))",
			int(tx.Conn().PgConn().PID())).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	return errors.Join(tx.Commit(t.Context()), <-done)
}

// TestTidyKeepsCounters removes counters by a clock that is ahead, and beside a
// commit that uses one for longer.
func TestTidyKeepsCounters(t *testing.T) {
	url := database(t)
	s := open(t, url, true)
	c := minimal(newFence(t, s))
	charge(c)
	if err := s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(1, c)); err != nil {
		t.Fatal(err)
	}
	kept := func() bool {
		usages, err := s.CounterUsages(t.Context(), []spend.Counter{c.Charges[0].Counter})
		return err == nil && usages[0].Count == 1
	}
	if err := s.Tidy(t.Context(), time.Now().AddDate(0, 0, 9)); err != nil || !kept() {
		t.Errorf("by a clock that is ahead: %v, kept %t", err, kept())
	}
	statement(t, url, "UPDATE budget_counters SET end_ms = 1")
	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE budget_counters SET end_ms = $1", c.Charges[0].EndMS); err != nil {
		t.Fatal(err)
	}
	if err := beside(t, s, tx, func() error { return s.Tidy(t.Context(), time.Now()) }); err != nil || !kept() {
		t.Errorf("beside a commit: %v, kept %t", err, kept())
	}
}
