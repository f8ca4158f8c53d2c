package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

const statsNew = 50 // batches that are not counted yet

// TestStatsPlans: statistics read the counts of the range's minutes, and newer batches, by indexes
// alone, and neither other batches nor checks.
func TestStatsPlans(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	insert := `INSERT INTO batches (chain_id, seq, first_id, last_id, version, head, entries, counts)
		SELECT gen_random_uuid(), 1, first_id(1790000000000 + i * 60000::bigint), first_id(1790000000000 + i * 60000::bigint), 1, '', '',
			ARRAY[ROW(29833333 + i, 'policy-' || i % 5, 100, 20, 3)::check_count] FROM generate_series(`
	statement(t, url, insert+"1, 60000) AS i")
	must.Do(t, s.CountChecks(t.Context()))
	statement(t, url, "ANALYZE batches, check_counts")
	statement(t, url, insert+"60001, 60050) AS i")
	from := time.UnixMilli(1790000000000 + 20*60*24*60000).UTC().Truncate(24 * time.Hour)
	month := audit.CountQuery{From: from, Until: from.AddDate(0, 0, 30), Step: 24 * time.Hour}
	policies := month
	policies.PolicyIDs = []string{"policy-1", "policy-3"}
	hour := month
	hour.From, hour.Until, hour.Step = from, from.Add(time.Hour), time.Minute
	for name, c := range map[string]struct {
		q    audit.CountQuery
		rows int
	}{"a month": {month, 30*24*60 + statsNew}, "policies": {policies, 30*24*60 + statsNew}, "an hour": {hour, 60 + statsNew}} {
		begun := time.Now()
		counts, err := s.CheckCounts(t.Context(), c.q)
		t.Logf("%s: %d counts, %v, in %v", name, len(counts), err, time.Since(begun))
		err = pgx.BeginTxFunc(t.Context(), connect(t, url), pg.ReadOnly(), func(tx pgx.Tx) error {
			var below, pending string
			var here bool
			if err := tx.QueryRow(t.Context(), selectCountState).Scan(&below, &pending, &here); err != nil {
				return err
			}
			query, args := countsQuery(&c.q, below, pending, here)
			explain(t, tx, query, args).walk(func(p plan) {
				if read := (p.Rows + p.Filtered) * p.Loops; p.Relation != "" && read > c.rows {
					t.Errorf("%s: %d rows of %s are read by %s, at most %d are of the range", name, read, p.Relation, p.Type, c.rows)
				}
				if p.Relation != "" && p.Relation != "check_counts" && p.Index != "batches_xid" {
					t.Errorf("%s: %s of %s by index %q", name, p.Type, p.Relation, p.Index)
				}
			})
			return nil
		})
		must.Check(t, err)
	}
}

// TestRecountChecks counts the checks of all batches anew while commits continue.
func TestRecountChecks(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	epoch := must.Get(s.Epoch(t.Context()))(t)
	until := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2)
	q := audit.CountQuery{From: until.AddDate(0, 0, -4), Until: until, Step: 24 * time.Hour}
	want := int64(0)
	check := func(when string) {
		t.Helper()
		counts, err := s.CheckCounts(t.Context(), q)
		var got int64
		for _, c := range counts {
			got += c.Of[spend.Allow]
		}
		if err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", when, got, err, want)
		}
	}
	record := func() {
		t.Helper()
		c := minimal(spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch})
		c.Action.PolicyID = "p"
		must.Do(t, audittest.Record(t.Context(), s, c))
		want++
	}
	record()
	must.Do(t, s.CountChecks(t.Context()))
	record()
	check("one is new")
	statement(t, url, "UPDATE check_counts SET allows = 77")
	statement(t, url, "SELECT recount_checks()")
	check("recounted")
	record()
	check("one is new again")
	must.Do(t, s.CountChecks(t.Context()))
	check("all is counted")
	statement(t, url, "UPDATE check_count_state SET cluster = 1")
	check("in another cluster")
	if err := s.CountChecks(t.Context()); err == nil {
		t.Error("checks of another cluster are counted")
	}
	statement(t, url, "SELECT recount_checks()")
	check("recounted there")
}

// TestSumsOfArchived: sums say since when no day is archived.
func TestSumsOfArchived(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	must.Do(t, audittest.Record(t.Context(), s, minimal(newFence(t, s))))
	today := time.Now().UTC().Truncate(24 * time.Hour)
	sums := func(q audit.CheckQuery, since time.Time) {
		t.Helper()
		q.Examine = 2
		if got := must.Get(s.CheckSums(t.Context(), q))(t); !got.Since.Equal(since) || got.Of[spend.Allow] != 1 {
			t.Errorf("%+v, want since %v", got, since)
		}
	}
	sums(audit.CheckQuery{}, time.Time{})
	statement(t, url, fmt.Sprintf(`INSERT INTO archived_days (day, rows, manifest_sha256)
		SELECT '%s'::date - n, 1, sha256('') FROM (VALUES (1), (3)) AS v (n)`, today.Format(time.DateOnly)))
	sums(audit.CheckQuery{From: today}, time.Time{})
	sums(audit.CheckQuery{From: today.Add(-time.Millisecond)}, today)
	sums(audit.CheckQuery{}, today)
}
