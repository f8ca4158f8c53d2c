package postgres

import (
	"context"
	"fmt"
	"slices"
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

const (
	listedDays   = 50
	listedRows   = 120_000 // over these days
	listedSparse = 20      // days, the newest, with few rows

	// One page may look at so many, twice: for what matches and for where to go on.
	listedExamine = 2000
	listedLimit   = 100
)

var listedStart = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)

// prepareChecks makes a trail of days with many checks and then days with few. Two
// days have no partition.
func prepareChecks(t *testing.T) (url string, s *Store) {
	t.Helper()
	url = migrated(t)
	s = open(t, url, true)
	statement(t, url, fmt.Sprintf("SELECT make_partition(date '%s' + n) FROM generate_series(0, %d) AS n WHERE n NOT IN (7, 37)",
		listedStart.Format(time.DateOnly), listedDays-1))
	// A thousandth of the checks lie in the days with few.
	statement(t, url, fmt.Sprintf(`INSERT INTO checks (check_id, node, epoch, policy_version, latency_ms, format, action_type, decision,
		confidence, amount,
			fingerprint, request_sha, currency, agent_id, policy_id, counterparty, message, next_step, key_id, request_id)
		SELECT (left(first_id(ms)::text, 24) || substr(md5(i::text), 1, 12))::uuid, gen_random_uuid(), gen_random_uuid(), 1, 1, 1, 'r',
			CASE WHEN i %% 50000 = 7 THEN 'e' ELSE 'a' END::"char", 'h', 1, sha256(i::text::bytea), sha256(i::text::bytea), 'USD',
			CASE WHEN i %% 60000 = 11 THEN 'rare' ELSE 'agent-' || i %% 500 END, 'policy-' || i %% 3, 'customer', 'a message of the usual length',
			'proceed with the action', 'key_' || i %% 5, 'req_0123456789ab'
		FROM generate_series(1, %d) AS i, LATERAL (SELECT %d + CASE WHEN i %% 1000 = 0 THEN (%[3]d + i / 1000 %% %d) * 86400000::bigint + i
			ELSE i * (%[3]d * 86400000::bigint / %[1]d) END AS ms) AS placed`,
		listedRows, listedStart.UnixMilli(), listedDays-listedSparse, listedSparse))
	return url, s
}

func listedQueries() map[string]audit.CheckQuery {
	allow, escalate := spend.Allow, spend.Escalate
	day := func(n int) time.Time { return listedStart.AddDate(0, 0, n) }
	all := map[string]audit.CheckQuery{
		"everything": {}, "frequent": {Effect: &allow}, "rare decision": {Effect: &escalate}, "rare agent": {AgentID: "rare"},
		"agent": {AgentID: "agent-17"}, "nobody": {AgentID: "nobody"}, "policy": {PolicyID: "policy-1", AgentID: "rare"},
		"bound":     {Bounds: audit.Bounds{PolicyIDs: []string{"policy-2"}, AgentIDs: []string{"rare", "agent-3"}}},
		"principal": {Bounds: audit.Bounds{Principal: "key_3"}}, "stranger": {Bounds: audit.Bounds{Principal: "key_9"}},
		"counterparty": {Counterparty: "nobody"}, "key": {IdempotencyKey: "never"},
		"type and reason": {ActionType: spend.Credit, Reason: spend.ReasonBudgetExceeded},
		"approval":        {ApprovalID: spend.ID{15: 1}},
		"from":            {AgentID: "rare", From: day(12)},
		"until":           {AgentID: "nobody", Until: day(20).Add(time.Hour)},
		"range":           {AgentID: "rare", From: day(3), Until: day(28)},
		"hour":            {AgentID: "nobody", From: day(9).Add(time.Hour), Until: day(9).Add(2 * time.Hour)},
		"sparse":          {From: day(31), Until: day(47)}, "future": {From: day(300)}, "past": {Until: day(-300)},
	}
	for name, q := range all {
		q.Limit, q.Examine = listedLimit, listedExamine
		all[name] = q
	}
	return all
}

// pageFaults returns the faults of a page's plans.
func pageFaults(t *testing.T, tx pgx.Tx, q audit.CheckQuery) (all []string) {
	t.Helper()
	low, end := q.IDRange()
	starts := must.Get(listingStarts(t.Context(), tx, low, end))(t)
	rows, blocks := 0, 0
	look := func(query string, args []any) {
		touched := make(map[string]bool)
		tree := explain(t, tx, query, args)
		blocks += tree.Hit + tree.Read
		tree.walk(func(p plan) {
			if p.Relation != "" {
				touched[p.Relation] = true
				rows += (p.Rows + p.Filtered) * p.Loops
			}
		})
		if len(touched) > listedPartitions+1 { // and the default one
			all = append(all, fmt.Sprintf("%d partitions are touched", len(touched)))
		}
	}
	left, found := q.Examine, 0
	for _, start := range starts {
		query, args := checksQuery(pg.ColumnList(chain.Checks()), &q, start, end, left, q.Limit+1-found)
		look(query, args)
		matches := len(texts(t, tx, "SELECT 'one' FROM ("+inline(query, args)+") AS matching"))
		if found += matches; found > q.Limit {
			break
		}
		look(examinedQuery(left), []any{[16]byte(start), [16]byte(end)})
		var examined int
		must.Do(t, tx.QueryRow(t.Context(), examinedQuery(left), [16]byte(start), [16]byte(end)).Scan(&examined, pg.UUID(&end)))
		if left -= examined; left == 0 {
			break
		}
		end = start
	}
	// Each partition costs a row that is looked ahead to, and some blocks of its
	// index. Rows and their entries in it lie beside others of that time.
	if rows > 2*(listedExamine+listedDays) || blocks > listedExamine+10*listedDays {
		all = append(all, fmt.Sprintf("%d rows and %d blocks are read, in %d parts", rows, blocks, len(starts)))
	}
	return all
}

// inline writes arguments into a query.
func inline(query string, args []any) string {
	for i := len(args); i > 0; i-- {
		literal := ""
		switch value := args[i-1].(type) {
		case [16]byte:
			literal = fmt.Sprintf("'%x'::uuid", value)
		case string:
			literal = "'" + value + "'"
		case []string:
			literal = "'{" + strings.Join(value, ",") + "}'::text[]"
		}
		query = strings.ReplaceAll(query, fmt.Sprintf("$%d", i), literal)
	}
	return query
}

// TestCheckPlans shows that what a page reads is bounded, whatever its filters
// and with or without statistics, and that it would be noticed if the primary
// key was not there. The walk over its pages finds what a plain query finds. So are pages of
// histories.
func TestCheckPlans(t *testing.T) {
	url, s := prepareChecks(t)
	ctx := t.Context()
	inTransaction := func(do func(tx pgx.Tx)) {
		tx := must.Get(s.Reads.Begin(ctx))(t)
		defer func() { _ = tx.Rollback(context.Background()) }() // nothing was meant to stay
		do(tx)
	}
	for _, prepare := range []string{addOutcomes, "ANALYZE checks, outcomes"} {
		statement(t, url, prepare)
		inTransaction(func(tx pgx.Tx) {
			for name, q := range listedQueries() {
				if all := pageFaults(t, tx, q); all != nil {
					t.Errorf("%s, after %s: %s", name, prepare, strings.Join(all, "; "))
				}
			}
		})
		historyReads(t, s, "after "+prepare)
	}
	inTransaction(func(tx pgx.Tx) {
		must.Get(tx.Exec(ctx, "ALTER TABLE checks DROP CONSTRAINT checks_pkey"))(t)
		if pageFaults(t, tx, listedQueries()["rare agent"]) == nil {
			t.Error("without the primary key: nobody notices")
		}
	})
	for name, q := range listedQueries() {
		if q.AgentID == "" && q.Effect == nil && q.From.IsZero() || q.Effect != nil && *q.Effect == spend.Allow {
			continue // too many to read them all
		}
		plain, args := checksQuery(pg.ColumnList(chain.Checks()), &q, spend.ID{}, audit.MaxID(), listedRows, listedRows)
		low, end := q.IDRange()
		plain = fmt.Sprintf("SELECT check_id::text FROM (%s) AS matching WHERE check_id >= '%x' AND check_id < '%x'", inline(plain, args),
			low, end)
		want := texts(t, s.Reads, plain+" ORDER BY check_id DESC")
		var got []string
		for {
			page := must.Get(s.ListChecks(ctx, q))(t)
			for _, c := range page.Checks {
				text := c.ID.Text("")
				got = append(got, text[:8]+"-"+text[8:12]+"-"+text[12:16]+"-"+text[16:20]+"-"+text[20:])
			}
			if q.Before = page.Next; !page.More {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: walked %d, want %d", name, len(got), len(want))
		}
	}
}

// TestPagePassesPlan shows that a page of passes costs the same while the planner
// knows nothing of a partition that has filled up, and after a day without live ones.
func TestPagePassesPlan(t *testing.T) {
	const passes, page = 20_000, 100
	url := migrated(t)
	s := open(t, url, true)
	statement(t, url, "UPDATE horizon SET ms = 2 * 86400000")
	for _, day := range []time.Time{listedStart, listedStart.AddDate(0, 0, -1)} {
		statement(t, url, fmt.Sprintf(`SELECT make_partition(date '%[1]s');
		ALTER TABLE checks_%[2]s SET (autovacuum_enabled = false);
		INSERT INTO checks (check_id, node, epoch, claimed_ms, until_ms, policy_version, latency_ms, format, action_type, decision, confidence,
			amount, fingerprint, request_sha, currency, agent_id, policy_id, counterparty, message, next_step, key_id, request_id)
		SELECT (left(first_id(%[3]d + i)::text, 24) || substr(md5(i::text), 1, 12))::uuid, gen_random_uuid(), gen_random_uuid(), %[3]d + i,
		%[3]d + 86400000,
			1, 1, 1, 'r', 'a', 'h', 1, sha256(i::text::bytea), sha256(i::text::bytea), 'USD', 'agent', 'policy', 'customer', 'message', 'proceed',
			'key_1', 'req_0123456789ab'
		FROM generate_series(1, %[4]d) AS i`,
			day.Format(time.DateOnly), day.Format("20060102"), day.UnixMilli(), passes))
	}
	tx := must.Get(s.Reads.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }() // nothing was meant to stay
	for _, before := range []spend.ID{{}, audit.FirstID(listedStart.UnixMilli() + passes/2)} {
		query, args, err := passesQuery(t.Context(), tx, before, listedStart.UnixMilli()+passes, page)
		must.Do(t, err)
		rows := 0
		explain(t, tx, query, args).walk(func(p plan) {
			if strings.HasPrefix(p.Relation, "checks") {
				rows += (p.Rows + p.Filtered) * p.Loops
			}
		})
		if rows < page || rows > page+listedPartitions {
			t.Errorf("%d rows are read for a page of %d", rows, page)
		}
	}
}
