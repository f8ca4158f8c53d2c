package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// CounterUsages implements audit.Budgets.
func (s *Store) CounterUsages(ctx context.Context, counters []spend.Counter) ([]spend.Usage, error) {
	ids, starts, buckets := make([][16]byte, len(counters)), make([]int64, len(counters)), make([]int64, len(counters))
	for i, c := range counters {
		ids[i], starts[i], buckets[i] = c.ID, c.StartMS, c.BucketMS
	}
	return collect(ctx, s, "cannot read counters of budgets", func(row pgx.CollectableRow) (u spend.Usage, err error) {
		err = row.Scan(sqlstore.Parse(&u.Used, spend.ParseTotal), &u.Count)
		return u, err
	}, `SELECT coalesce(sum(b.used), 0)::text, coalesce(sum(b.count), 0)::bigint
		FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS c (id, start, bucket, place)
		LEFT JOIN budget_counters AS b ON b.counter_id = c.id AND b.start_ms >= greatest(c.start - $4 * c.bucket, 0)
		AND (c.bucket > 0 OR b.start_ms = c.start)
		GROUP BY c.place ORDER BY c.place`, ids, starts, buckets, int64(spend.RollingBuckets))
}

// ListCounters implements audit.Budgets.
func (s *Store) ListCounters(ctx context.Context, q audit.CounterQuery) ([]audit.SubjectUsage, bool, error) {
	query, args := counterListing(&q)
	subjects, err := collectBy(ctx, s.list, "cannot list budgets", func(row pgx.CollectableRow) (u audit.SubjectUsage, err error) {
		err = row.Scan(&u.Subject, &u.FirstMS, sqlstore.Parse(&u.Used, spend.ParseTotal), &u.Count)
		return u, err
	}, query, args...)
	subjects, more := audit.Cut(subjects, q.Limit)
	return subjects, more, err
}

// counterListing returns the query for a page and one row more. It reads counters that q names by
// their IDs, whatever the statistics suggest.
func counterListing(q *audit.CounterQuery) (query string, args []any) {
	args = []any{q.After, q.StartMS, q.Limit + 1}
	query = "SELECT subject, min(start_ms), sum(used)::text, sum(count)::bigint FROM budget_counters WHERE (count > 0 OR used > 0)"
	and := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprint("$", len(args)), 1)
		}
		query += " AND " + condition
	}
	if q.BucketMS > 0 {
		args[1] = max(q.StartMS-spend.RollingBuckets*q.BucketMS, 0)
		and("start_ms >= $2")
		if q.Past {
			and("start_ms <= ?", q.StartMS)
		}
	} else {
		and("start_ms = $2")
	}
	if ids := q.CounterIDs(); ids != nil {
		and("subject > $1 AND counter_id = ANY (?::uuid[])", pg.UUIDs(ids))
	} else {
		and("left(subject, 64) >= left($1, 64) AND subject > $1 AND policy_id = ? AND rule_id = ? AND since = ?", q.PolicyID, q.RuleID, q.Since)
		for i, values := range q.Subject {
			if values != nil {
				and(fmt.Sprintf("subject::jsonb ->> %d = ANY (?)", i), values)
			}
		}
	}
	if q.Principal != "" {
		and("EXISTS (SELECT FROM budget_principals AS p WHERE p.counter_id = budget_counters.counter_id AND p.principal = ?)", q.Principal)
	}
	return query + " GROUP BY left(subject, 64), subject ORDER BY left(subject, 64), subject LIMIT $3", args
}

// recordings remembers rows that commits have recorded and need not record again.
type recordings[K comparable] struct {
	mu    sync.Mutex
	known map[K]struct{}
}

// maxRecorded bounds the memory; forgotten rows are recorded again.
const maxRecorded = 1 << 16

func (r *recordings[K]) has(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[key]
	return ok
}

func (r *recordings[K]) add(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) > maxRecorded {
		r.known = make(map[K]struct{})
	}
	r.known[key] = struct{}{}
}

func (r *recordings[K]) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = nil
}

// counterRow is a counter that may lack a row, and the principal whose check it meets; the
// principal is empty if already recorded.
type counterRow struct {
	*audit.CounterChange
	principal string
}

// counterKey is the key under which a node remembers a counterRow.
type counterKey struct {
	spend.Counter
	principal string
}

// key returns the key of a row. Buckets of a rolling window share one key per day: their rows are
// always sent, but their principals only once a day. Nobody removes a bucket's principals within
// audit.KeepCounters.
func (r counterRow) key() counterKey {
	const day = 24 * 60 * 60 * 1000
	k := counterKey{r.Counter, r.principal}
	if k.BucketMS > 0 {
		k.StartMS -= k.StartMS % day
	}
	return k
}

// counterRows returns the rows that the changes may lack. Commits also lock the rows of rolling
// windows among them.
func (s *Store) counterRows(changes []audit.CounterChange) (rows []counterRow) {
	for i := range changes {
		if changes[i].BucketMS > 0 {
			rows = append(rows, counterRow{CounterChange: &changes[i]})
		}
		principals := changes[i].Principals
		if len(principals) == 0 && changes[i].BucketMS == 0 {
			principals = []string{""} // the check takes nothing, but is still compared
		}
		for _, principal := range principals {
			if row := (counterRow{&changes[i], principal}); !s.counters.has(row.key()) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// noRoom is that a counter had no room, with the grants until a change.
type noRoom struct {
	spend.Counter
	raised int64
}

func noRoomOf(ch *audit.CounterChange) noRoom { return noRoom{ch.Counter, ch.Charge.Raised} }

// budgetChanges are the changes of budgets in one commit.
type budgetChanges struct {
	takes     []audit.CounterChange // from rolling windows first
	refused   []audit.CounterChange // not yet recorded as exhausted
	corrected []audit.CounterChange
	rows      []counterRow // that takes and refused may lack
}

func (s *Store) budgetChanges(checks []*spend.Check, outcomes []*spend.Outcome) (b budgetChanges) {
	b.takes = audit.CounterChanges(checks, outcomes)
	if slices.ContainsFunc(b.takes, audit.CounterChange.Corrects) {
		b.corrected = b.takes
		b.takes = slices.DeleteFunc(slices.Clone(b.takes), func(ch audit.CounterChange) bool { return !ch.Take })
	}
	b.refused = slices.DeleteFunc(audit.Refusals(checks), func(ch audit.CounterChange) bool { return s.refusals.has(noRoomOf(&ch)) })
	b.rows = s.counterRows(b.takes)
	for i := range b.refused {
		b.rows = append(b.rows, counterRow{CounterChange: &b.refused[i]})
	}
	return b
}

// recorded remembers what a commit recorded.
func (s *Store) recorded(b *budgetChanges) {
	for _, row := range b.rows {
		key := row.key()
		s.counters.add(key)
		if row.BucketMS == 0 && key.principal != "" { // a check that only compares needs the row, too
			key.principal = ""
			s.counters.add(key)
		}
	}
	for i := range b.refused {
		s.refusals.add(noRoomOf(&b.refused[i]))
	}
}

// none reports whether a commit changes nothing of budgets.
func (b *budgetChanges) none() bool {
	return len(b.takes)+len(b.refused)+len(b.corrected)+len(b.rows) == 0
}

// calendarOnly reports whether a commit only takes from counters of calendar windows whose rows are
// known to exist.
func (b *budgetChanges) calendarOnly() bool {
	return len(b.rows)+len(b.refused)+len(b.corrected) == 0 && b.rolling() == 0
}

// rolling returns how many takes are from rolling windows; these come first.
func (b *budgetChanges) rolling() int {
	if i := slices.IndexFunc(b.takes, func(ch audit.CounterChange) bool { return ch.BucketMS == 0 }); i >= 0 {
		return i
	}
	return len(b.takes)
}

// budgets adds the fields of a commit_extra that concern budgets.
func (p *parameters) budgets(b *budgetChanges) {
	rolling := b.rolling()
	arrayField(p, 0, 0, b.rows, nil, appendCounterRow)
	for _, changes := range [...][]audit.CounterChange{b.takes[:rolling], b.takes[rolling:], b.refused} {
		arrayField(p, 0, 0, changes, nil, appendChange)
	}
	arrayField(p, 0, 0, b.corrected, audit.CounterChange.Corrects, appendCorrection)
}

// appendCounterRow adds a counter_row, a composite value in the binary format.
func appendCounterRow(b []byte, r counterRow) []byte {
	w := chain.NewComposite(b)
	w.ID(r.ID)
	w.Int64(r.StartMS)
	w.Int64(r.BucketMS)
	w.OptionalInt64(r.Charge.EndMS, r.Charge.EndMS != 0)
	w.Int32(int32(r.Charge.Since))
	w.Text(r.PolicyID)
	w.Text(r.Charge.RuleID)
	w.Text(r.Charge.Subject)
	w.Optional(r.Charge.AgentID)
	w.Optional(r.principal)
	return w.End()
}

// appendChange adds a counter_change, a composite value in the binary format.
func appendChange(b []byte, c audit.CounterChange) []byte {
	w := chain.NewComposite(b)
	w.ID(c.ID)
	w.Int64(c.StartMS)
	w.Int64(c.BucketMS)
	w.Int64(c.Count)
	w.Numeric(c.Used, false)
	w.OptionalInt64(c.MostCount, c.Counted)
	if c.Limited {
		w.Numeric(c.MostUsed, false)
	} else {
		w.Null(chain.Amount)
	}
	w.OptionalInt64(c.Charge.MaxCount, c.Charge.Counted)
	if c.Charge.Limited {
		w.Numeric(c.Charge.Limit, false)
	} else {
		w.Null(chain.Amount)
	}
	w.Optional(string(c.Charge.NotifyAt))
	w.Int64(c.Charge.Raised)
	return w.End()
}
