package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestSlowLists: lists and tasks that do not end in time take no connection from commits, do not keep
// look-ups and Ping waiting, and leave nothing running in the server (G9).
func TestSlowLists(t *testing.T) {
	url := fleet.TestSchema(t)
	s := open(t, with(t, url, "pool_max_conns", "2"), true)
	f := newFence(t, s)
	conn := must.Get(pgx.Connect(t.Context(), url))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	commits := func() (ports []string) {
		t.Helper()
		for range writers { // each session in turn
			must.Do(t, audittest.Record(t.Context(), s, minimal(spend.Fence{Node: spend.NewID(time.Now()), Epoch: f.Epoch})))
		}
		for range writers {
			session := <-s.writers.idle
			if session.conn != nil { // one that is connected serves in the place of one that is not
				ports = append(ports, session.conn.LocalAddr().String())
			}
			s.writers.idle <- session
		}
		slices.Sort(ports)
		return ports
	}
	for attempt := 1; ; attempt++ {
		before := commits()
		hangingLists(t, s, f, conn)
		after := commits()
		if slices.Equal(after, before) {
			return
		}
		// A server that is too busy to confirm in cancelPatience that it cancelled a list counts as lost.
		if lost := s.losses.count.Load(); lost == 0 || attempt == 3 {
			t.Fatalf("commits have the connections %v, had %v; %d connections were lost", after, before, lost)
		}
	}
}

// hangingLists lets lists wait for locked tables until their time is over.
func hangingLists(t *testing.T, s *Store, f spend.Fence, conn *pgx.Conn) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	must.Do(t, err)
	must.Get(tx.Exec(t.Context(), "LOCK TABLE violations, outcomes, budget_counters, approvals"))(t)
	var lists sync.WaitGroup
	for name, list := range map[string]func(context.Context) error{
		"violations": func(ctx context.Context) error {
			_, err := s.Violations(ctx, audit.ViolationQuery{Limit: 20})
			return err
		},
		"checks": func(ctx context.Context) error { // a short page says nothing about how much is read
			_, err := s.ListChecks(ctx, audit.CheckQuery{Outcome: audit.NoOutcome, Limit: 1, Examine: 1000})
			return err
		},
		"budgets": func(ctx context.Context) error {
			_, _, err := s.ListCounters(ctx, audit.CounterQuery{Limit: 20})
			return err
		},
		"approvals": func(ctx context.Context) error {
			_, _, err := s.ListApprovals(ctx, audit.ApprovalQuery{Limit: 20})
			return err
		},
		"counting": s.CountViolations,
		"tidying":  func(ctx context.Context) error { return s.Tidy(ctx, time.Now()) },
	} {
		lists.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if err := list(ctx); !errors.Is(err, audit.ErrUnavailable) {
				t.Errorf("%s, which are locked: %v", name, err)
			}
		})
	}
	time.Sleep(200 * time.Millisecond)                                        // they hang
	within, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // less than a lock is waited for
	defer cancel()
	if err := errors.Join(s.Ping(within), func() error { _, err := s.Checks(within, []spend.ID{f.Node}); return err }()); err != nil {
		t.Errorf("while lists hang: %v", err)
	}
	lists.Wait()
	for active, until := 1, time.Now().Add(10*time.Second); active > 0; {
		err = tx.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE relation IN ('violations'::regclass, 'outcomes'::regclass, "+
			"'budget_counters'::regclass, 'approvals'::regclass) AND NOT granted").Scan(&active)
		if err != nil || active > 0 && time.Now().After(until) {
			t.Fatalf("%d backends go on with lists that nobody waits for, %v", active, err)
		}
	}
	must.Do(t, tx.Rollback(t.Context()))
}
