package violations

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/load"
)

// report is what violations.json holds. Times are in the unit that their names
// say.
type report struct {
	Machine load.Machine `json:"machine"`
	Sizes   []size       `json:"sizes"`
	Write   write        `json:"write"`
}

// size is a table of so many violations.
type size struct {
	Violations int       `json:"violations"`
	New        int       `json:"not_counted_yet"` // of the violations, when the listings were measured
	TableMB    float64   `json:"table_and_indexes_mb"`
	Counts     int       `json:"counts"` // rows of violation_counts
	CountsMB   float64   `json:"counts_mb"`
	CountUS    float64   `json:"roll_up_us_per_violation"`
	CountAllMS float64   `json:"count_of_all_one_by_one_ms"` // the time of a total without counts
	Each       int       `json:"listings_of_each"`
	Limit      int       `json:"violations_a_page"`
	Listings   []listing `json:"listings"`
	All        latency   `json:"all_listings"`
}

// listing is a combination of filters.
type listing struct {
	Filters string `json:"filters"`
	Matches int64  `json:"total_count"` // of one combination of values
	latency
}

type latency struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

func latencyOf(all []time.Duration) latency {
	slices.Sort(all)
	at := func(q float64) float64 {
		return all[int(q*float64(len(all)-1)+0.5)].Seconds() * 1e3
	}
	return latency{P50: at(0.5), P99: at(0.99), Max: at(1)}
}

const (
	smallest = 100_000
	// notCounted is what a fleet that writes 4,000 violations a second has
	// between two roll-ups.
	notCounted = 8_000
	rounds     = 300
	pageLimit  = 100
)

// measure lets the table grow tenfold each time.
func (b *bench) measure(ctx context.Context, most int) error {
	rows := 0
	for n := smallest; n <= most; n *= 10 {
		if err := b.generate(ctx, rows, n-notCounted); err != nil {
			return err
		}
		s := size{Violations: n, New: notCounted, Each: rounds, Limit: pageLimit}
		begun := time.Now()
		for range 2 { // violations from before the first roll-up are rolled up by a call of their own
			if err := b.store.CountViolations(ctx); err != nil {
				return err
			}
		}
		s.CountUS = time.Since(begun).Seconds() * 1e6 / float64(n-notCounted-rows)
		if _, err := b.db.Exec(ctx, "VACUUM ANALYZE violations, violation_counts"); err != nil { // as autovacuum does
			return err
		}
		if err := b.generate(ctx, n-notCounted, n); err != nil {
			return err
		}
		rows = n
		if err := b.describe(ctx, &s); err != nil {
			return err
		}
		if err := b.list(ctx, &s); err != nil {
			return err
		}
		b.report.Sizes = append(b.report.Sizes, s)
		fmt.Fprintf(b.out, "%d violations: p50 %.2f ms, p99 %.2f ms\n", n, s.All.P50, s.All.P99) //nolint:errcheck // only says how far it is
		if n == smallest*10 || n*10 > most && b.report.Write.Violations == 0 {
			if err := b.measureWrites(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) describe(ctx context.Context, s *size) error {
	err := b.db.QueryRow(ctx, `SELECT pg_total_relation_size('violations') / 1e6, (SELECT count(*) FROM violation_counts),
		pg_total_relation_size('violation_counts') / 1e6`).Scan(&s.TableMB, &s.Counts, &s.CountsMB)
	if err != nil {
		return err
	}
	begun := time.Now()
	var n int
	err = b.db.QueryRow(ctx, "SELECT count(*) FROM violations WHERE id >= first_id(0)").Scan(&n)
	s.CountAllMS = time.Since(begun).Seconds() * 1e3
	if err == nil && n != s.Violations {
		err = fmt.Errorf("%d violations, not %d", n, s.Violations)
	}
	return err
}

// list measures a spread of filters. Ranges are drawn anew for each listing.
func (b *bench) list(ctx context.Context, s *size) error {
	draw := rand.New(rand.NewPCG(1, uint64(s.Violations))) //nolint:gosec // not a secret
	instant := func() time.Time { return generated(draw.IntN(s.Violations)) }
	during := func(q audit.ViolationQuery) audit.ViolationQuery {
		q.From, q.To = instant(), instant()
		if q.From.After(q.To) {
			q.From, q.To = q.To, q.From
		}
		return q
	}
	var all []time.Duration
	for _, l := range []struct {
		filters string
		query   func() audit.ViolationQuery
	}{
		{"none", func() audit.ViolationQuery { return audit.ViolationQuery{} }},
		{"from, to", func() audit.ViolationQuery { return during(audit.ViolationQuery{}) }},
		{"decision", func() audit.ViolationQuery { return audit.ViolationQuery{Effect: spend.Escalate} }},
		{"action_type, from, to", func() audit.ViolationQuery { return during(audit.ViolationQuery{ActionType: spend.Credit}) }},
		{"action_type, decision; rare", func() audit.ViolationQuery {
			return audit.ViolationQuery{ActionType: spend.Discount, Effect: spend.Escalate}
		}},
		{"agent_id; frequent", func() audit.ViolationQuery { return audit.ViolationQuery{AgentID: "agent-0"} }},
		{"agent_id, action_type, decision, from, to; frequent", func() audit.ViolationQuery {
			return during(audit.ViolationQuery{AgentID: "agent-0", ActionType: spend.Refund, Effect: spend.Block})
		}},
		{"agent_id, action_type, decision; rare", func() audit.ViolationQuery {
			return audit.ViolationQuery{AgentID: "agent-0", ActionType: spend.Discount, Effect: spend.Escalate}
		}},
		{"agent_id; any", func() audit.ViolationQuery {
			return audit.ViolationQuery{AgentID: fmt.Sprintf("agent-%d", draw.IntN(agents))}
		}},
		{"agent_id; unknown", func() audit.ViolationQuery { return audit.ViolationQuery{AgentID: "nobody"} }},
		{"action_type; a later page", func() audit.ViolationQuery {
			return audit.ViolationQuery{ActionType: spend.Refund, Before: audit.FirstID(instant().UnixMilli())}
		}},
	} {
		one := listing{Filters: l.filters}
		var took []time.Duration
		for i := range rounds + rounds/10 {
			q := l.query()
			q.Limit = pageLimit
			begun := time.Now()
			page, err := b.store.Violations(ctx, q)
			if err != nil {
				return fmt.Errorf("%s: %w", l.filters, err)
			}
			if i >= rounds/10 { // the first prepare their statements
				took = append(took, time.Since(begun))
			}
			one.Matches = page.Total
		}
		if l.filters == "none" && one.Matches != int64(s.Violations) {
			return fmt.Errorf("total_count is %d, not %d", one.Matches, s.Violations)
		}
		all = append(all, took...)
		one.latency = latencyOf(took)
		s.Listings = append(s.Listings, one)
	}
	s.All = latencyOf(all)
	return nil
}
