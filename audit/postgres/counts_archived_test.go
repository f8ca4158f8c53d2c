package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/bench/must"
)

// oldMonth is a month whose violations may be archived, and how long ago its
// eleventh day was.
func oldMonth() (begin time.Time, age time.Duration) {
	now := time.Now().UTC()
	begin = time.Date(now.Year(), now.Month()-3, 1, 0, 0, 0, 0, time.UTC)
	return begin, now.Sub(begin.AddDate(0, 0, 10))
}

// note archives the violations of the old month, without writing an archive.
func (c *counting) note(t *testing.T) {
	t.Helper()
	begin, _ := oldMonth()
	c.exec(t, "SELECT sequence_events(100000)")
	c.exec(t, `SELECT detach_violations($1, (SELECT count(*) FROM violations, month_ids($1) WHERE id >= low AND id < high), '\x00')`, begin)
}

// trim removes archived violations from the counts.
func (c *counting) trim(t *testing.T) {
	t.Helper()
	for more := true; more; {
		must.Do(t, c.Reads.QueryRow(t.Context(), "SELECT trim_violation_counts()").Scan(&more))
	}
}

// delete deletes archived violations.
func (c *counting) delete(t *testing.T) {
	t.Helper()
	begin, _ := oldMonth()
	c.exec(t, "SELECT delete_violations($1, '00000000000000000000000000000000', 100000)", begin)
}

// mustConflict ends a roll-up whose snapshot is from before counts were changed.
func mustConflict(t *testing.T, rollUp pgx.Tx) {
	t.Helper()
	var complete *bool
	err := rollUp.QueryRow(t.Context(), "SELECT count_violations(1000)").Scan(&complete)
	if err == nil || !strings.Contains(err.Error(), pg.CodeSerialization) {
		t.Errorf("a roll-up from before goes on: %v", err)
	}
	end(t, rollUp.Rollback)
}

// begun is a roll-up that has its snapshot.
func (c *counting) begun(t *testing.T) pgx.Tx {
	t.Helper()
	tx := c.session(t, pgx.RepeatableRead)
	must.Get(tx.Exec(t.Context(), "SELECT 1"))(t)
	return tx
}

// TestCountsOfArchived holds sessions in the middle while violations are archived,
// one case for each row of the table in docs/internals/counts.md.
func TestCountsOfArchived(t *testing.T) {
	_, age := oldMonth()
	for name, test := range map[string]func(t *testing.T, c *counting){
		"a roll-up began before the month was noted": func(t *testing.T, c *counting) {
			insert(t, c.Reads, "young", 30, time.Hour) // whose counts it would begin in the month
			rollUp := c.begun(t)
			c.note(t)
			mustConflict(t, rollUp)
			c.exact(t, "noted")
			c.count(t)
			c.exact(t, "noted and counted")
			c.trim(t)
		},
		"a roll-up began before the counts were trimmed": func(t *testing.T, c *counting) {
			c.note(t)
			insert(t, c.Reads, "busy", 10, time.Hour)
			rollUp := c.begun(t)
			c.trim(t)
			mustConflict(t, rollUp)
			c.exact(t, "trimmed")
		},
		"a listing is read meanwhile": func(t *testing.T, c *counting) {
			reader := c.begun(t)
			c.note(t)
			c.trim(t)
			c.delete(t)
			page, err := readPage(t.Context(), reader, audit.ViolationQuery{AgentID: "busy", Limit: 1000})
			if err != nil || page.Total != int64(len(page.Violations)) || page.Total != 60 {
				t.Errorf("total %d of %d, %v; want 60 as when it began", page.Total, len(page.Violations), err)
			}
		},
		"a commit is late": func(t *testing.T, c *counting) {
			one, two := c.session(t, pgx.ReadCommitted), c.session(t, pgx.ReadCommitted)
			for _, late := range []pgx.Tx{one, two} {
				insert(t, late, "busy", 9, 3*time.Hour) // with identifiers between the month and the counted violations
			}
			insert(t, c.Reads, "busy", 3, time.Hour)
			c.count(t)
			c.note(t)
			end(t, one.Commit)
			insert(t, c.Reads, "busy", 3, 3*time.Hour) // new, and seen by who trims
			c.trim(t)
			c.exact(t, "before one is over")
			end(t, two.Commit)
			c.exact(t, "once it is over")
		},
		"the counts were not trimmed": func(t *testing.T, c *counting) {
			c.note(t)
			c.exact(t, "noted")
			insert(t, c.Reads, "busy", 30, time.Hour)
			c.count(t)
			c.exact(t, "noted and counted")
			begin, _ := oldMonth()
			if _, err := c.Reads.Exec(t.Context(), "SELECT delete_violations($1, '00000000000000000000000000000000', 1)", begin); err == nil ||
				!strings.Contains(err.Error(), "still counted") {
				t.Errorf("deleted: %v", err)
			}
			c.trim(t)
		},
		"violations are recounted": func(t *testing.T, c *counting) {
			c.exec(t, "SELECT recount_violations()")
			some := c.session(t, pgx.RepeatableRead)
			step(t, some, 23)
			end(t, some.Commit)
			c.note(t)
			c.exact(t, "noted")
			c.trim(t)
			c.exact(t, "trimmed")
			some = c.session(t, pgx.RepeatableRead)
			step(t, some, 23)
			end(t, some.Commit)
			c.exact(t, "after a step")
		},
		"a recount after it": func(t *testing.T, c *counting) {
			c.note(t)
			c.exec(t, "SELECT recount_violations()")
			c.exact(t, "noted")
			c.count(t)
			c.exact(t, "recounted")
			c.trim(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounting(t)
			insert(t, c.Reads, "busy", 37, age)
			insert(t, c.Reads, "gone", 30, age)
			insert(t, c.Reads, "rare", 2, age)
			insert(t, c.Reads, "busy", 23, 2*time.Hour)
			insert(t, c.Reads, "rare", 3, 2*time.Hour)
			c.count(t)
			test(t, c)
			c.exact(t, "at last")
			c.delete(t)
			c.exact(t, "deleted")
			insert(t, c.Reads, "gone", 20, time.Hour)
			insert(t, c.Reads, "busy", 20, time.Hour)
			c.count(t)
			c.exact(t, "deleted and counted")
			begin, _ := oldMonth()
			if n := count(t, c.Store, "violation_counts, month_ids('"+begin.Format(time.DateOnly)+"') WHERE start_id < high"); n != 0 {
				t.Errorf("%d counts begin in the month", n)
			}
			if n := count(t, c.Store, "violation_counts WHERE agent_id = 'busy'"); n < 4 {
				t.Errorf("%d counts for a busy agent", n)
			}
		})
	}
}
