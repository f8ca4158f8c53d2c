package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestRecountInSteps has many violations counted again in small steps, while
// others come: totals are exact at every moment.
func TestRecountInSteps(t *testing.T) {
	c := newCounting(t)
	insert(t, c.Reads, "busy", 100, 2*time.Hour)
	insert(t, c.Reads, "rare", 2, time.Hour)
	c.exec(t, "SELECT recount_violations()")
	insert(t, c.Reads, "busy", 10, time.Minute)
	c.exact(t, "before the first step")
	for steps := 1; ; steps++ {
		next := c.session(t, pgx.RepeatableRead)
		complete := *step(t, next, 23)
		end(t, next.Commit)
		insert(t, c.Reads, "busy", 1, 100*time.Minute) // amid those that are recounted
		c.exact(t, fmt.Sprintf("after step %d", steps))
		if complete && steps > 5 {
			break
		}
		if steps > 20 {
			t.Fatal("it does not end")
		}
	}
	c.count(t)
	c.exact(t, "in the end")
}

// TestRecount makes the counts anew while a commit is open and others go on.
func TestRecount(t *testing.T) {
	c := newCounting(t)
	insert(t, c.Reads, "busy", 60, 2*time.Hour)
	c.count(t)
	open := c.session(t, pgx.ReadCommitted)
	insert(t, open, "busy", 10, 2*time.Hour)
	insert(t, c.Reads, "rare", 2, 2*time.Hour) // a younger transaction that is over
	c.exec(t, runbookSQL(t, "recount_violations"))
	c.exact(t, "at once")
	insert(t, c.Reads, "rare", 3, 2*time.Hour)
	next := c.session(t, pgx.RepeatableRead)
	step(t, next, 40)
	end(t, next.Commit)
	c.exact(t, "after a step")
	end(t, open.Commit)
	c.exact(t, "after the commit")
	c.count(t)
	c.exact(t, "in the end")
	c.covered(t, 75)
}

// TestCountsThatDiffer notices counts that differ from the violations.
func TestCountsThatDiffer(t *testing.T) {
	c := newCounting(t)
	insert(t, c.Reads, "busy", 3, time.Hour)
	c.count(t)
	c.exec(t, "UPDATE violation_counts SET spend_blocks = spend_blocks + 1")
	insert(t, c.Reads, "busy", 10, time.Hour)
	if err := c.CountViolations(t.Context()); err == nil || !strings.Contains(err.Error(), "recount_violations") {
		t.Errorf("got %v", err)
	}
	c.exec(t, "SELECT recount_violations()")
	c.count(t)
	c.exact(t, "in the end")
	c.covered(t, 13)
}

// TestCountsOfAnotherCluster has the transactions of another cluster, as after
// a restore of a dump: theirs were many more.
func TestCountsOfAnotherCluster(t *testing.T) {
	c := newCounting(t)
	insert(t, c.Reads, "busy", 60, 2*time.Hour)
	c.count(t)
	c.exec(t, "ALTER TABLE violations DISABLE TRIGGER immutable")
	c.exec(t, "UPDATE violations SET xid = (xid::text::bigint + 1000000000)::text::xid8")
	c.exec(t, "ALTER TABLE violations ENABLE TRIGGER immutable")
	c.exec(t, "UPDATE violation_count_state SET below = (below::text::bigint + 1000000000)::text::xid8, cluster = cluster + 1")
	insert(t, c.Reads, "busy", 5, time.Hour) // below the bound, and not counted
	compare := func(when string) {
		t.Helper()
		for _, agent := range []string{"", "busy"} {
			c.compare(t, when, audit.ViolationQuery{AgentID: agent, Limit: 1})
		}
	}
	compare("before the recount")
	if err := c.CountViolations(t.Context()); err == nil || !strings.Contains(err.Error(), "recount_violations") {
		t.Errorf("got %v", err)
	}
	c.exec(t, "SELECT recount_violations()")
	compare("after it")
	c.count(t)
	insert(t, c.Reads, "busy", 5, time.Hour)
	c.exact(t, "before new ones are counted")
	c.count(t)
	c.exact(t, "in the end")
	c.covered(t, 70)
}

// TestCountedAt follows the metric that an alert asks.
func TestCountedAt(t *testing.T) {
	registry := prometheus.NewRegistry()
	s, err := Open(t.Context(), Options{URL: migrated(t), Logger: slog.New(slog.DiscardHandler), Migrate: true, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	gauge := func() float64 {
		t.Helper()
		families := must.Get(registry.Gather())(t)
		for _, f := range families {
			if f.GetName() == "spendgate_audit_violations_counted_timestamp_seconds" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("no such metric")
		return 0
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if at := gauge(); at != 0 {
		t.Errorf("counted at %v before it was", at)
	}
	before := time.Now().Unix()
	must.Do(t, s.CountViolations(t.Context()))
	first := gauge()
	if first < float64(before) || first > float64(time.Now().Unix()) {
		t.Errorf("counted at %v, now it is %v", first, before)
	}
	// A session that hangs in the middle keeps others from it; listings go on.
	f := newFence(t, s)
	c := minimal(f)
	c.Decision.Effect, c.Action.AgentID = spend.Block, "busy"
	must.Do(t, audittest.Record(t.Context(), s, c))
	tx := must.Get(s.Reads.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))(t)
	step(t, tx, 10)
	s.countedAt.Store(1)
	must.Check(t, s.CountViolations(t.Context()))
	if at := gauge(); at != 1 {
		t.Errorf("counted at %v, while another is at it", at)
	}
	if page, err := s.Violations(t.Context(), audit.ViolationQuery{Limit: 1}); err != nil || page.Total != 1 {
		t.Errorf("total %d, %v", page.Total, err)
	}
	end(t, tx.Rollback)
}

// Many violations are counted in short steps, which commits of checks can get
// between (V8).
func TestCountsInSteps(t *testing.T) {
	const transactions, each, most = 4, 700, 2000
	c := newCounting(t)
	c.exec(t, "UPDATE violation_count_state SET bucket_size = 100")
	c.exec(t, `CREATE TABLE steps (counted bigint);
		CREATE FUNCTION keep_step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO steps SELECT sum(total) FROM violation_counts WHERE agent_id = '';
			RETURN NULL;
		END $$;
		CREATE TRIGGER keep_step AFTER UPDATE ON violation_count_state FOR EACH ROW EXECUTE FUNCTION keep_step()`)
	for range transactions {
		insert(t, c.Reads, "busy", each, time.Hour)
	}
	c.count(t)
	c.exact(t, "in steps")
	var counted, longest int64
	must.Do(t, c.Reads.QueryRow(t.Context(),
		"SELECT max(counted), max(step) FROM (SELECT counted, counted - lag(counted, 1, 0) OVER (ORDER BY counted) AS step FROM steps) AS s").
		Scan(&counted, &longest))
	if counted != transactions*each || longest > most {
		t.Errorf("%d of %d violations were counted, up to %d in a step", counted, transactions*each, longest)
	}
}

// A restored database is not begun anew beside nodes, also if the URL that both
// have returns their sessions another name.
func TestRestoredBesideNodes(t *testing.T) {
	url := with(t, migrated(t), "application_name", "others")
	newFence(t, open(t, url, true)) // connects
	if _, err := BeginRestored(t.Context(), url); !errors.Is(err, ErrNodesConnected) {
		t.Errorf("got %v, want ErrNodesConnected", err)
	}
}
