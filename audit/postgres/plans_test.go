package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// plan is a node of EXPLAIN's tree.
type plan struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Bound    string `json:"Index Cond"`
	Rows     int    `json:"Actual Rows"`
	Loops    int    `json:"Actual Loops"`
	Filtered int    `json:"Rows Removed by Filter"`
	Hit      int    `json:"Shared Hit Blocks"`
	Read     int    `json:"Shared Read Blocks"`
	Plans    []plan `json:"Plans"`
}

// walk visits a tree.
func (p plan) walk(visit func(plan)) {
	visit(p)
	for _, child := range p.Plans {
		child.walk(visit)
	}
}

func explain(t *testing.T, tx pgx.Tx, query string, args []any) plan {
	t.Helper()
	var text []byte
	if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+query, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	return plans[0].Plan
}

const (
	planRows  = 120_000
	planPiece = 64  // as many counts as 64 times the rows would have
	planNew   = 200 // violations that are not counted yet
	planPage  = 101
	planShort = 1000 // in the shortest range, which the planner may prefer to read whole

	// The rows that a listing may read: two pieces at each end of its range, the new rows, and the
	// page, all of which may be of one of eight kinds; or a short range, for the total and for the
	// page.
	rowsAtMost   = max(2*2*planPiece+8*planPage+planPage, 2*planShort) + planNew
	blocksAtMost = 2 * rowsAtMost
	// A page has each kind's newest from the index, and its rows.
	pageBlocksAtMost = 8*(planPage+4) + 2*planPage
)

// prepareViolations makes the table such that plans which serve most filters
// well are bad for others: an agent that was frequent until some time ago, one
// with three violations in all, kinds that are rare.
func prepareViolations(t *testing.T) *Store {
	t.Helper()
	url := migrated(t)
	s := open(t, url, true)
	statement(t, url, fmt.Sprintf(`UPDATE violation_count_state SET bucket_size = %d`, planPiece))
	statement(t, url, fmt.Sprintf(`INSERT INTO violations (id, policy_version, latency_ms, action_type, decision, confidence, amount,
			currency, agent_id, policy_id, counterparty, rule_id, rule_description, key_id)
		SELECT (left(first_id(1790000000000 + i * 100::bigint)::text, 24) || substr(md5(random()::text), 1, 12))::uuid, 1, 1,
			CASE WHEN i %% 3000 = 0 THEN 'd' WHEN i %% 7 < 4 THEN 'r' ELSE 's' END::"char", CASE WHEN i %% 1500 = 0 THEN 'e' ELSE 'b' END::"char",
			'h', 1, 'USD', CASE WHEN i IN (77, 3000, 90000) THEN 'rare' WHEN i < 90000 AND i %% 2 = 0 THEN 'hot' ELSE 'agent-' || i %% 5000 END,
			'policy', 'customer', 'rule', 'a description of the usual length', 'key' FROM generate_series(1, %d) AS i`, planRows))
	for range 3 {
		must.Do(t, s.CountViolations(t.Context()))
	}
	statement(t, url, "ANALYZE violations, violation_counts")
	// And violations that are newer than the counts.
	statement(t, url, `INSERT INTO violations SELECT (left(first_id(1790000000000 + 100 * 200000::bigint)::text,
		24) || substr(md5(i::text), 1, 12))::uuid,
		1, 1, 'c', 'b', 'h', 1, 'USD', 'hot', 'p', 'c', 'r', 'd', 'k' FROM generate_series(1, `+strconv.Itoa(planNew)+`) AS i`)
	return s
}

// listings are all combinations of agents, types and spans, each with an effect: all meet each of the others.
func listings() map[string]audit.ViolationQuery {
	start := time.UnixMilli(1790000000000)
	all := make(map[string]audit.ViolationQuery)
	for a, agent := range []string{"", "hot", "rare", "agent-17", "nobody"} {
		for k, kind := range []spend.ActionType{spend.Unspecified, spend.Refund, spend.Discount, spend.Credit} {
			for s, span := range [][2]time.Duration{
				{0, 0},
				{1000 * time.Second, 0},
				{0, 8001 * time.Second},
				{777 * time.Second, 11003 * time.Second},
				{5000 * time.Second, 5100 * time.Second},
			} {
				effect := []spend.Effect{spend.Allow, spend.Block, spend.Escalate}[(a+k+s)%3]
				q := audit.ViolationQuery{AgentID: agent, ActionType: kind, Effect: effect, Limit: planPage - 1}
				if span[0] > 0 {
					q.From = start.Add(span[0])
				}
				if span[1] > 0 {
					q.To = start.Add(span[1])
				}
				all[fmt.Sprintf("agent %q, %v, %v, %v to %v", agent, kind, effect, span[0], span[1])] = q
				q.Before = audit.FirstID(start.Add(9500 * time.Second).UnixMilli())
				all[fmt.Sprintf("agent %q, %v, %v, %v to %v, a later page", agent, kind, effect, span[0], span[1])] = q
			}
		}
	}
	return all
}

// pageIndex is the one that a page has to come from.
func pageIndex(q audit.ViolationQuery) string {
	switch {
	case q.AgentID != "":
		return "violations_agent_kind"
	case q.ActionType != spend.Unspecified || q.Effect != spend.Allow:
		return "violations_kind"
	}
	return "violations_pkey"
}

// faults returns the faults of a listing's plans.
func faults(t *testing.T, tx pgx.Tx, q audit.ViolationQuery) (all []string) {
	t.Helper()
	s := selectionOf(q)
	c := must.Get(readCounted(t.Context(), tx, s))(t)
	used := make(map[string]map[string]bool)
	rows, blocks := 0, 0
	look := func(name, query string, args []any) plan {
		used[name] = make(map[string]bool)
		tree := explain(t, tx, query, args)
		blocks += tree.Hit + tree.Read
		tree.walk(func(p plan) {
			if p.Index != "" {
				used[name][p.Index] = true
			}
			if p.Relation == "violations" {
				rows += (p.Rows + p.Filtered) * p.Loops
				if p.Type == "Seq Scan" {
					all = append(all, name+" scans the table")
				}
			}
		})
		return tree
	}
	look("counted", selectCounted, []any{s.agent, [16]byte(s.low), [16]byte(s.end)})
	query, args := s.total(c)
	look("total", query, args)
	query, args = s.page(q.Before, q.Limit+1)
	if page := look("page", query, args); page.Hit+page.Read > pageBlocksAtMost {
		all = append(all, fmt.Sprintf("%d blocks are read for the page", page.Hit+page.Read))
	}
	if !used["page"][pageIndex(q)] {
		all = append(all, fmt.Sprintf("the page does not use %s but %v", pageIndex(q), slices.Collect(maps.Keys(used["page"]))))
	}
	if c.some && !used["total"]["violations_xid"] {
		all = append(all, fmt.Sprintf("the total does not use violations_xid but %v", slices.Collect(maps.Keys(used["total"]))))
	}
	if rows > rowsAtMost || blocks > blocksAtMost {
		all = append(all, fmt.Sprintf("%d rows of violations and %d blocks are read", rows, blocks))
	}
	return all
}

// TestViolationPlans shows that what a listing reads is bounded, whatever its
// filters, and that it would be noticed if an index was not there.
func TestViolationPlans(t *testing.T) {
	s := prepareViolations(t)
	ctx := t.Context()
	inTransaction := func(do func(tx pgx.Tx)) {
		tx := must.Get(s.Reads.Begin(ctx))(t)
		defer func() { _ = tx.Rollback(context.Background()) }() // nothing was meant to stay
		do(tx)
	}
	inTransaction(func(tx pgx.Tx) {
		for name, q := range listings() {
			if all := faults(t, tx, q); all != nil {
				t.Errorf("%s: %s", name, strings.Join(all, "; "))
			}
		}
	})
	for _, drop := range []string{
		"ALTER TABLE violations DROP CONSTRAINT violations_pkey", "DROP INDEX violations_kind",
		"DROP INDEX violations_agent_kind", "DROP INDEX violations_xid",
	} {
		inTransaction(func(tx pgx.Tx) {
			must.Get(tx.Exec(ctx, drop))(t)
			if !slices.ContainsFunc(slices.Collect(maps.Values(listings())), func(q audit.ViolationQuery) bool { return faults(t, tx, q) != nil }) {
				t.Errorf("%s: nobody notices", drop)
			}
		})
	}
}

// TestExpiryPlan: who removes expired keys reads no others, however many live.
func TestExpiryPlan(t *testing.T) {
	s := open(t, migrated(t), true)
	tx := must.Get(s.Reads.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }() // nothing was meant to stay
	const expired = 10
	for _, prepare := range []string{
		fmt.Sprintf(`INSERT INTO idempotency_keys SELECT sha256(i::text::bytea), gen_random_uuid(),
			now() + CASE WHEN i <= %d THEN -1 ELSE 1 END * interval '1 hour' FROM generate_series(1, 20000) AS i`, expired),
		"ANALYZE idempotency_keys",
	} {
		must.Get(tx.Exec(t.Context(), prepare))(t)
	}
	bound := false
	explain(t, tx, deleteExpired, []any{5000}).walk(func(p plan) {
		bound = bound || p.Index == "idempotency_keys_expiry" && strings.Contains(p.Bound, "expires_at")
		if p.Rows+p.Filtered > expired {
			t.Errorf("%s %s reads %d rows and leaves out %d of them; %d are expired", p.Type, p.Index, p.Rows+p.Filtered, p.Filtered, expired)
		}
	})
	if !bound {
		t.Error("the index is not asked for what is expired")
	}
}

// TestSelectionEnds: both ends of a range belong to it, to the millisecond.
func TestSelectionEnds(t *testing.T) {
	from, to := time.UnixMilli(1_790_000_000_000), time.UnixMilli(1_790_000_000_255)
	s := selectionOf(audit.ViolationQuery{From: from, To: to})
	if s.low != audit.FirstID(from.UnixMilli()) || s.end != audit.FirstID(to.UnixMilli()+1) {
		t.Errorf("from %x to before %x", s.low, s.end)
	}
	if s := selectionOf(audit.ViolationQuery{}); s.low != (spend.ID{}) || s.end != audit.MaxID() {
		t.Errorf("everything is from %x to before %x", s.low, s.end)
	}
}

// TestNamedCounters: a listing of counters that it names reads no others, without
// statistics, too.
func TestNamedCounters(t *testing.T) {
	s := open(t, migrated(t), true)
	tx := must.Get(s.Reads.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }() // nothing was meant to stay
	q := audit.CounterQuery{PolicyID: "p", RuleID: "r", Since: 1, Subject: [][]string{{"agent-1", "agent-2"}}, Limit: 20}
	for i, id := range q.CounterIDs() {
		must.Get(tx.Exec(t.Context(), `INSERT INTO budget_counters (counter_id, start_ms, bucket_ms, since, count, policy_id, rule_id,
			subject)
			VALUES ($1, 0, 0, 1, 1, 'p', 'r', $2)`, [16]byte(id), spend.SubjectOf(q.Subject[0][i])))(t)
	}
	must.Get(tx.Exec(t.Context(), `INSERT INTO budget_counters (counter_id, start_ms, bucket_ms, since, count, policy_id, rule_id, subject)
		SELECT md5(i::text)::uuid, 0, 0, 1, 1, 'p', 'r', '["' || i || '"]' FROM generate_series(1, 20000) AS i`))(t)
	query, args := counterListing(&q)
	for _, prepare := range []string{"SELECT", "ANALYZE budget_counters"} {
		must.Get(tx.Exec(t.Context(), prepare))(t)
		rows, filtered := 0, 0
		explain(t, tx, query, args).walk(func(p plan) {
			if p.Relation == "budget_counters" {
				rows, filtered = rows+p.Rows*p.Loops, filtered+p.Filtered*p.Loops
			}
		})
		if rows != 2 || filtered > 0 {
			t.Errorf("after %s: %d rows and %d others are read", prepare, rows, filtered)
		}
	}
}
