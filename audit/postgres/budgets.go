package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

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
		var used string
		if err = row.Scan(&used, &u.Count); err == nil {
			u.Used, err = spend.ParseTotal(used)
		}
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
		var used string
		if err = row.Scan(&u.Subject, &u.FirstMS, &used, &u.Count); err == nil {
			u.Used, err = spend.ParseTotal(used)
		}
		return u, err
	}, "SELECT subject, min(start_ms), sum(used)::text, sum(count)::bigint FROM budget_counters WHERE "+where+conditions.String()+
		fmt.Sprintf(" AND (count > 0 OR used > 0) GROUP BY left(subject, 64), subject ORDER BY left(subject, 64), subject LIMIT $%d", len(args)+1),
		append(args, q.Limit+1)...)
	if len(subjects) > q.Limit {
		return subjects[:q.Limit], true, err
	}
	return subjects, false, err
}

// removeCounters removes counters whose windows ended long ago.
func removeCounters(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	const batch = 5000
	for {
		tag, err := conn.Exec(ctx, `DELETE FROM budget_counters WHERE (counter_id, start_ms) IN
			(SELECT counter_id, start_ms FROM budget_counters WHERE end_ms <= $1 LIMIT $2)`, now.Add(-audit.KeepCounters).UnixMilli(), batch)
		if err != nil {
			return fmt.Errorf("cannot remove counters of budgets: %w: %w", audit.ErrUnavailable, err)
		}
		if tag.RowsAffected() < batch {
			return nil
		}
	}
}

// refusals remembers counters that are recorded as exhausted, so that an agent that
// hammers one costs its commits nothing more.
type refusals struct {
	mu       sync.Mutex
	recorded map[spend.Counter]struct{}
}

// unknown returns those of the changes that may not be recorded.
func (r *refusals) unknown(changes []audit.CounterChange) []audit.CounterChange {
	if len(changes) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(changes, func(ch audit.CounterChange) bool {
		_, ok := r.recorded[ch.Counter]
		return ok
	})
}

func (r *refusals) add(recorded []audit.CounterChange) {
	if len(recorded) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recorded == nil || len(r.recorded) > maxPrincipals {
		r.recorded = make(map[spend.Counter]struct{})
	}
	for i := range recorded {
		r.recorded[recorded[i].Counter] = struct{}{}
	}
}

// counterPrincipal says that a counter met a check of that principal.
type counterPrincipal struct {
	counter   spend.ID
	principal string
}

// principals remembers which were recorded, so that they are sent once.
type principals struct {
	mu       sync.Mutex
	recorded map[counterPrincipal]struct{}
}

// maxPrincipals bounds the memory; what is forgotten is recorded again.
const maxPrincipals = 1 << 16

// unknown returns those of the changes that may not be recorded.
func (p *principals) unknown(changes []audit.CounterChange) (unknown []counterPrincipal) {
	if len(changes) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range changes {
		for _, principal := range changes[i].Principals {
			one := counterPrincipal{changes[i].ID, principal}
			if _, ok := p.recorded[one]; !ok {
				unknown = append(unknown, one)
			}
		}
	}
	return unknown
}

func (p *principals) add(recorded []counterPrincipal) {
	if len(recorded) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.recorded == nil || len(p.recorded) > maxPrincipals {
		p.recorded = make(map[counterPrincipal]struct{})
	}
	for _, one := range recorded {
		p.recorded[one] = struct{}{}
	}
}
