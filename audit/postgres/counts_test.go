package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// counting is a schema whose counts are fine enough for few violations, with sessions that are
// stopped in the middle of their work.
type counting struct {
	*Store
	url      string
	fence    spend.Fence
	compared int // how often totals were
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	url := migrated(t)
	c := &counting{Store: open(t, url, true), url: url}
	c.fence = newFence(t, c.Store)
	c.exec(t, "UPDATE violation_count_state SET bucket_size = 4")
	return c
}

func (c *counting) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := c.Reads.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// session begins a transaction on a connection of its own.
func (c *counting) session(t *testing.T, isolation pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	conn := connect(t, with(t, c.url, "lock_timeout", "5s")) // nothing here is meant to wait
	return must.Get(conn.BeginTx(context.Background(), pgx.TxOptions{IsoLevel: isolation}))(t)
}

// insert writes violations of an agent, as record_checks does, at a distance
// from now.
func insert(t *testing.T, db querier, agent string, n int, age time.Duration) {
	t.Helper()
	rows, err := db.Query(context.Background(), `INSERT INTO violations (id, policy_version, latency_ms, action_type, decision,
		confidence, amount,
			currency, agent_id, policy_id, counterparty, rule_id, rule_description, key_id)
		SELECT (left(first_id($1::bigint + i * 1000)::text, 24) || substr(md5(random()::text), 1, 12))::uuid, 1, 1,
		substr('rcds', 1 + i % 4, 1)::"char", CASE i % 3 WHEN 0 THEN 'e' ELSE 'b' END::"char",
			'h', 1, 'USD', $2, 'p', 'c', 'r', 'd', 'k' FROM generate_series(1, $3) AS i`,
		time.Now().Add(-age).UnixMilli()+rand.Int64N(1000), agent, n) //nolint:gosec // not a secret
	must.Do(t, err)
	if rows.Close(); rows.Err() != nil {
		t.Fatal(rows.Err())
	}
}

func (c *counting) count(t *testing.T) {
	t.Helper()
	must.Do(t, c.CountViolations(t.Context()))
}

// step is one transaction of CountViolations, up to where it would commit.
func step(t *testing.T, tx pgx.Tx, most int) (complete *bool) {
	t.Helper()
	must.Do(t, tx.QueryRow(context.Background(), "SELECT count_violations($1)", most).Scan(&complete))
	return complete
}

func end(t *testing.T, do func(context.Context) error) {
	t.Helper()
	must.Do(t, do(context.Background()))
}

// exact compares every row of the counts with the rows that it counts, and totals with count(*) by
// one of five combinations of filters in turn.
func (c *counting) exact(t *testing.T, when string) {
	t.Helper()
	var wrong int
	must.Do(t, c.Reads.QueryRow(t.Context(), `SELECT count(*) FROM (
		SELECT c.*, lead(start_id) OVER (PARTITION BY agent_id ORDER BY start_id) AS next FROM violation_counts AS c) AS c
		CROSS JOIN violation_count_state AS s CROSS JOIN LATERAL (
			SELECT count(*) AS total, count(*) FILTER (WHERE action_type = 'r' AND decision = 'b') AS refund_blocks,
				count(*) FILTER (WHERE action_type = 's' AND decision = 'e') AS spend_escalations, count(*) FILTER (WHERE id > c.max_id) AS higher
			FROM violations AS v WHERE (c.agent_id = '' OR v.agent_id = c.agent_id) AND v.id >= c.start_id AND (next IS NULL OR v.id < next)
				AND v.xid < s.below AND v.xid <> ALL (s.pending) AND (s.recounted_to IS NULL OR v.id <= s.recounted_to)) AS v
		WHERE (v.total, v.refund_blocks, v.spend_escalations, v.higher) <> (c.total, c.refund_blocks, c.spend_escalations, 0)`).Scan(&wrong))
	if wrong > 0 {
		t.Errorf("%s: %d counts are wrong", when, wrong)
	}
	now, queries := time.Now(), []audit.ViolationQuery{}
	for _, agent := range []string{"", "busy", "rare"} {
		for _, kind := range []spend.ActionType{spend.Unspecified, spend.Refund, spend.Spend} {
			for effect := range 3 {
				for _, age := range [][2]time.Duration{{}, {20 * time.Minute, 0}, {119 * time.Minute, 7 * time.Minute}} {
					q := audit.ViolationQuery{AgentID: agent, ActionType: kind, Effect: spend.Effect(effect), Limit: 1}
					if age[0] > 0 {
						q.From = now.Add(-age[0])
					}
					if age[1] > 0 {
						q.To = now.Add(-age[1])
					}
					queries = append(queries, q)
				}
			}
		}
	}
	const oneIn = 5
	for i := c.compared % oneIn; i < len(queries); i += oneIn {
		c.compare(t, when, queries[i])
	}
	c.compared++
}

func (c *counting) compare(t *testing.T, when string, q audit.ViolationQuery) {
	t.Helper()
	low, high := q.IDRange()
	where, args := "id >= violations_from() AND id BETWEEN $1 AND $2 AND ($3 = '' OR agent_id = $3)",
		[]any{[16]byte(low), [16]byte(high), q.AgentID}
	if q.ActionType != spend.Unspecified {
		where += fmt.Sprintf(" AND action_type = '%c'", chain.TypeLetters[q.ActionType])
	}
	if q.Effect != spend.Allow {
		where += fmt.Sprintf(" AND decision = '%c'", chain.EffectLetters[q.Effect])
	}
	var want int64
	must.Do(t, c.Reads.QueryRow(t.Context(), "SELECT count(*) FROM violations WHERE "+where, args...).Scan(&want))
	page := must.Get(c.Violations(t.Context(), q))(t)
	if page.Total != want || len(page.Violations) != int(min(want, 1)) {
		t.Errorf("%s: %+v: total %d, want %d (%d on the page)", when, q, page.Total, want, len(page.Violations))
	}
}

// covered says how many violations are counted.
func (c *counting) covered(t *testing.T, want int) {
	t.Helper()
	var total, most int
	must.Do(t, c.Reads.QueryRow(t.Context(), "SELECT sum(total), max(total) FROM violation_counts WHERE agent_id = ''").
		Scan(&total, &most))
	if total != want || most >= 8 {
		t.Errorf("%d violations are counted, up to %d in a bucket; want %d, less than 8", total, most, want)
	}
}

// TestCountsInterleaved holds sessions in the middle, one case for each row of
// the table in docs/internals/counts.md.
func TestCountsInterleaved(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, c *counting){
		"commit is late": func(t *testing.T, c *counting) {
			late := c.session(t, pgx.ReadCommitted)
			insert(t, late, "busy", 30, time.Hour) // with identifiers below those that are counted
			insert(t, c.Reads, "busy", 10, time.Minute)
			c.count(t)
			c.covered(t, 60)
			c.exact(t, "before it is over")
			end(t, late.Commit)
			c.exact(t, "once it is over")
			insert(t, c.Reads, "busy", 10, time.Minute)
			c.count(t)
			c.covered(t, 100)
		},
		"session sleeps before it inserts": func(t *testing.T, c *counting) {
			asleep := c.session(t, pgx.ReadCommitted)
			if _, err := asleep.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil { // as after take_keys
				t.Fatal(err)
			}
			for range 3 { // the others' counts go on meanwhile
				insert(t, c.Reads, "busy", 10, time.Minute)
				c.count(t)
			}
			c.covered(t, 80)
			insert(t, asleep, "busy", 9, 30*time.Minute)
			c.exact(t, "before it is over")
			end(t, asleep.Commit)
			c.exact(t, "once it is over")
			c.count(t)
			c.covered(t, 89)
		},
		"session sleeps before its first statement": func(t *testing.T, c *counting) {
			asleep := c.session(t, pgx.ReadCommitted)
			insert(t, c.Reads, "busy", 10, time.Minute)
			c.count(t)
			insert(t, asleep, "rare", 3, time.Hour)
			c.count(t)
			end(t, asleep.Commit)
			c.exact(t, "once it is over")
			c.count(t)
			c.covered(t, 63)
		},
		"commit is undone": func(t *testing.T, c *counting) {
			undone := c.session(t, pgx.ReadCommitted)
			insert(t, undone, "busy", 10, time.Minute)
			c.count(t)
			end(t, undone.Rollback)
			c.exact(t, "once it is over")
			insert(t, c.Reads, "busy", 10, time.Minute)
			c.count(t)
			c.covered(t, 60)
		},
		"clock is ahead, then right": func(t *testing.T, c *counting) {
			insert(t, c.Reads, "busy", 20, -3*time.Hour)
			c.count(t)
			insert(t, c.Reads, "busy", 20, 0)
			c.count(t)
			insert(t, c.Reads, "busy", 20, -time.Hour)
			c.count(t)
			c.covered(t, 110)
		},
		"two count at once": func(t *testing.T, c *counting) {
			insert(t, c.Reads, "busy", 30, time.Minute)
			one, two := c.session(t, pgx.RepeatableRead), c.session(t, pgx.RepeatableRead)
			if _, err := two.Exec(t.Context(), "SELECT 1"); err != nil { // its snapshot is from before
				t.Fatal(err)
			}
			step(t, one, pg.CountedAtOnce)
			if complete := step(t, two, pg.CountedAtOnce); complete != nil {
				t.Error("two count at once")
			}
			c.count(t) // and a node does not wait for it
			c.exact(t, "before it is over")
			end(t, one.Commit)
			var complete *bool
			err := two.QueryRow(t.Context(), "SELECT count_violations(1000)").Scan(&complete)
			if err == nil || !strings.Contains(err.Error(), pg.CodeSerialization) {
				t.Errorf("the same was counted twice: %v", err)
			}
			end(t, two.Rollback)
			c.covered(t, 80)
		},
		"counting is killed": func(t *testing.T, c *counting) {
			insert(t, c.Reads, "busy", 30, time.Minute)
			killed := c.session(t, pgx.RepeatableRead)
			step(t, killed, pg.CountedAtOnce)
			c.exec(t, "SELECT pg_terminate_backend($1)", int32(killed.Conn().PgConn().PID())) //nolint:gosec // a process's number
			c.exact(t, "once it is dead")
			for c.coveredNow(t) < 80 { // its lock goes with it
				c.count(t)
			}
		},
		"a listing is read meanwhile": func(t *testing.T, c *counting) {
			insert(t, c.Reads, "busy", 10, time.Minute)
			reader := c.session(t, pgx.RepeatableRead)
			q := audit.ViolationQuery{AgentID: "busy", Limit: 1000}
			known := must.Get(readCounted(t.Context(), reader, selectionOf(q)))(t)
			insert(t, c.Reads, "busy", 10, time.Minute)
			c.count(t)
			page, err := readPage(t.Context(), reader, q)
			if err != nil || page.Total != int64(len(page.Violations)) || page.Total != 50 {
				t.Errorf("total %d of %d, %v; want 50 as when it began (%+v)", page.Total, len(page.Violations), err, known)
			}
		},
		"one transaction is larger than a step": func(t *testing.T, c *counting) {
			insert(t, c.Reads, "busy", 40, time.Minute)
			insert(t, c.Reads, "rare", 2, time.Minute)
			for steps := 0; ; steps++ {
				tx := c.session(t, pgx.RepeatableRead)
				complete := *step(t, tx, 7)
				end(t, tx.Commit)
				c.exact(t, "after a step")
				if complete {
					break
				}
				if steps > 20 {
					t.Fatal("it does not end")
				}
			}
			c.covered(t, 92)
		},
		"part of a transaction is undone": func(t *testing.T, c *counting) {
			tx := c.session(t, pgx.ReadCommitted)
			part, err := tx.Begin(t.Context()) // a savepoint
			must.Do(t, err)
			insert(t, part, "busy", 5, time.Minute)
			end(t, part.Commit)
			if part, err = tx.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			insert(t, part, "busy", 5, time.Hour)
			c.count(t)
			end(t, part.Rollback)
			end(t, tx.Commit)
			c.exact(t, "once it is over")
			c.count(t)
			c.covered(t, 55)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounting(t)
			insert(t, c.Reads, "busy", 40, 2*time.Hour)
			insert(t, c.Reads, "rare", 3, 2*time.Hour)
			insert(t, c.Reads, "other", 7, 2*time.Hour)
			c.count(t)
			c.covered(t, 50)
			test(t, c)
			c.count(t)
			c.exact(t, "in the end")
			if agents := count(t, c.Store, "violation_counts WHERE agent_id = 'busy'"); agents < 4 {
				t.Errorf("%d counts for a busy agent", agents)
			}
		})
	}
}

func (c *counting) coveredNow(t *testing.T) (n int) {
	t.Helper()
	must.Do(t, c.Reads.QueryRow(t.Context(), "SELECT sum(total) FROM violation_counts WHERE agent_id = ''").Scan(&n))
	return n
}
