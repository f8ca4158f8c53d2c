package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// CounterUsages implements audit.Budgets.
func (s *Store) CounterUsages(ctx context.Context, counters []spend.Counter) ([]spend.Usage, error) {
	ids, starts, buckets := make([][16]byte, len(counters)), make([]int64, len(counters)), make([]int64, len(counters))
	for i, c := range counters {
		ids[i], starts[i], buckets[i] = c.ID, c.StartMS, c.BucketMS
	}
	return collect(ctx, s, "cannot read counters of budgets", func(row pgx.CollectableRow) (u spend.Usage, err error) {
		err = row.Scan(parse(&u.Used, spend.ParseTotal), &u.Count)
		return u, err
	}, `SELECT coalesce(sum(b.used), 0)::text, coalesce(sum(b.count), 0)::bigint
		FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS c (id, start, bucket, place)
		LEFT JOIN budget_counters AS b ON b.counter_id = c.id AND b.start_ms >= greatest(c.start - $4 * c.bucket, 0) AND (c.bucket > 0 OR b.start_ms = c.start)
		GROUP BY c.place ORDER BY c.place`, ids, starts, buckets, int64(spend.RollingBuckets))
}

// ListCounters implements audit.Budgets.
func (s *Store) ListCounters(ctx context.Context, q audit.CounterQuery) ([]audit.SubjectUsage, bool, error) {
	where := "policy_id = $1 AND rule_id = $2 AND since = $3 AND left(subject, 64) >= left($4, 64) AND subject > $4"
	args := []any{q.PolicyID, q.RuleID, q.Since, q.After}
	if q.BucketMS > 0 {
		where += " AND start_ms >= $5"
		args = append(args, max(q.StartMS-spend.RollingBuckets*q.BucketMS, 0))
	} else {
		where += " AND start_ms = $5"
		args = append(args, q.StartMS)
	}
	if q.Principal != "" {
		args = append(args, q.Principal)
		where += fmt.Sprintf(" AND EXISTS (SELECT FROM budget_principals AS p WHERE p.counter_id = budget_counters.counter_id AND p.principal = $%d)", len(args))
	}
	var conditions strings.Builder
	for i, values := range q.Subject {
		if values != nil {
			args = append(args, values)
			fmt.Fprintf(&conditions, " AND subject::jsonb ->> %d = ANY ($%d)", i, len(args))
		}
	}
	subjects, err := collect(ctx, s, "cannot list budgets", func(row pgx.CollectableRow) (u audit.SubjectUsage, err error) {
		err = row.Scan(&u.Subject, &u.FirstMS, parse(&u.Used, spend.ParseTotal), &u.Count)
		return u, err
	}, "SELECT subject, min(start_ms), sum(used)::text, sum(count)::bigint FROM budget_counters WHERE "+where+conditions.String()+
		fmt.Sprintf(" AND (count > 0 OR used > 0) GROUP BY left(subject, 64), subject ORDER BY left(subject, 64), subject LIMIT $%d", len(args)+1),
		append(args, q.Limit+1)...)
	subjects, more := audit.Cut(subjects, q.Limit)
	return subjects, more, err
}

// counterPrincipal says that a counter met a check of that principal.
type counterPrincipal struct {
	counter   spend.ID
	principal string
}

// recordings remembers what commits recorded and need not record again.
type recordings[K comparable] struct {
	mu    sync.Mutex
	known map[K]struct{}
}

// maxRecorded bounds the memory; what is forgotten is recorded again.
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

// newPrincipals returns those of the changes that may not be recorded.
func (s *Store) newPrincipals(changes []audit.CounterChange) (unknown []counterPrincipal) {
	for i := range changes {
		for _, principal := range changes[i].Principals {
			if one := (counterPrincipal{changes[i].ID, principal}); !s.principals.has(one) {
				unknown = append(unknown, one)
			}
		}
	}
	return unknown
}
