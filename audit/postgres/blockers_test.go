package postgres

import (
	"context"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"spendgate/audit/audittest"
	"spendgate/bench/must"
)

// TestRunbookFindsBlockers: the runbook's query lists each session that has held a lock for which commits wait, and no
// session of a node at work.
func TestRunbookFindsBlockers(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/operate/runbook.md"))(t)
	query := regexp.MustCompile(`(?s)SELECT DISTINCT coalesce\(l\.pid.*?;`).Find(page)
	if query == nil {
		t.Fatal("the runbook has no query")
	}
	url := migrated(t)
	s := open(t, url, true)
	must.Do(t, audittest.Record(t.Context(), s, minimal(newFence(t, s))))
	var want []int
	for _, sql := range []string{
		"BEGIN; LOCK TABLE checks IN ACCESS EXCLUSIVE MODE",                         // as VACUUM FULL and a migration have it
		"BEGIN; LOCK TABLE violations IN SHARE MODE",                                // as REINDEX and CREATE INDEX have it
		"BEGIN; LOCK TABLE approvals IN SHARE ROW EXCLUSIVE MODE",                   // as ALTER TABLE ADD FOREIGN KEY has it
		"BEGIN; SELECT FROM config FOR UPDATE",                                      // a row
		"BEGIN; UPDATE event_state SET below = below",                               // a row that was written
		"SELECT pg_advisory_lock(7)",                                                // of a session without a transaction
		"BEGIN; LOCK TABLE keys IN EXCLUSIVE MODE; SAVEPOINT a",                     // within a savepoint
		"BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE policies IN EXCLUSIVE MODE", // of another isolation
	} {
		conn := connect(t, url)
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatal(sql, err)
		}
		want = append(want, int(conn.PgConn().PID()))
	}
	admin := connect(t, url)
	time.Sleep(2100 * time.Millisecond) // the query's two seconds
	rows := must.Get(admin.Query(t.Context(), string(query)))(t)
	var got []int
	for rows.Next() {
		values := must.Get(rows.Values())(t)
		got = append(got, int(values[0].(int32)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if rows.Err() != nil || !slices.Equal(got, want) {
		t.Errorf("got the sessions %v, want %v, %v", got, want, rows.Err())
	}
}
