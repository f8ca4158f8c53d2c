package sim

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// record is what the store's file has in the end.
type record struct {
	events   []event        // in the order of their commits
	all      []event        // the same, with those of payments
	checks   []*spend.Check // in the order of their commits
	byID     map[spend.ID]*spend.Check
	outcomes map[spend.ID][]*spend.Outcome // by check
	counters map[string]spend.Usage        // by rule, subject and bucket
	rules    map[string][]string           // by policy and version
	redeemed map[spend.ID]*spend.Outcome   // redemptions and take-overs of payments
}

// read reads the record, and has it verified: what the judges see is what is there, and complete.
func (f *simulation) read(t *testing.T) *record {
	t.Helper()
	ctx := context.Background()
	r := &record{
		events: f.store.events, byID: make(map[spend.ID]*spend.Check), outcomes: make(map[spend.ID][]*spend.Outcome),
		counters: make(map[string]spend.Usage), rules: make(map[string][]string), redeemed: make(map[spend.ID]*spend.Outcome),
	}
	var checkIDs, outcomeIDs []spend.ID
	for _, e := range r.events {
		switch {
		case e.check != nil:
			checkIDs = append(checkIDs, e.check.ID)
		case e.outcome != nil:
			outcomeIDs = append(outcomeIDs, e.outcome.ID)
		}
	}
	checks := must.Get(f.store.Checks(ctx, checkIDs))(t)
	for _, c := range checks {
		r.byID[c.ID] = c
	}
	outcomes := must.Get(f.store.OutcomesOf(ctx, outcomeIDs))(t)
	changes := must.Get(f.store.Changes(ctx, audit.ChangeQuery{Limit: 1 + len(r.events)}))(t)
	byID := make(map[spend.ID]*spend.Outcome)
	for _, o := range outcomes {
		byID[o.ID] = o
	}
	for i := range r.events {
		switch e := &r.events[i]; {
		case e.check != nil:
			if e.check = r.byID[e.check.ID]; e.check.Payment == nil {
				r.checks = append(r.checks, e.check)
			}
		case e.outcome != nil && r.byID[byID[e.outcome.ID].CheckID].Payment != nil:
			if e.outcome = byID[e.outcome.ID]; e.outcome.Number == 0 {
				r.redeemed[e.outcome.ID] = e.outcome
			}
		case e.outcome != nil:
			e.outcome = byID[e.outcome.ID]
			r.outcomes[e.outcome.CheckID] = append(r.outcomes[e.outcome.CheckID], e.outcome)
		default:
			changes = changes[1:]
			if e.change.Kind != audit.PolicyCreated {
				continue
			}
			p := must.Get(f.store.Policy(ctx, e.change.Subject, e.change.Version))(t)
			r.rules[p.PolicyID] = append(r.rules[p.PolicyID], p.Rules)
		}
	}
	r.all = slices.Clone(r.events)
	r.events = slices.DeleteFunc(r.events, func(e event) bool { // payments have rules of their own
		return e.check != nil && e.check.Payment != nil || e.outcome != nil && r.byID[e.outcome.CheckID].Payment != nil
	})
	if len(changes) > 0 {
		t.Errorf("seed %d: G8: %d changes are recorded that were not made", f.seed, len(changes))
	}
	f.verify(t, len(checks), len(outcomes))
	f.readCounters(t, r)
	return r
}

// verify verifies the file (G8), which has as many rows as were answered for.
func (f *simulation) verify(t *testing.T, checks, outcomes int) {
	t.Helper()
	snapshot := must.Get(f.store.Snapshot(context.Background()))(t)
	defer snapshot.Close()
	summary, err := verify.Verify(context.Background(), verify.Options{
		Evidence: snapshot, Workers: 1, Found: func(found verify.Finding) { t.Errorf("seed %d: G8: %s", f.seed, found) },
	})
	if err != nil || summary.Checks != int64(checks) || summary.Outcomes != int64(outcomes) {
		t.Errorf("seed %d: G8: %d checks and %d outcomes were committed, verified are %d and %d: %v", f.seed, checks, outcomes, summary.Checks,
			summary.Outcomes, err)
	}
}

func (f *simulation) readCounters(t *testing.T, r *record) {
	t.Helper()
	file := must.Get(sql.Open("sqlite", "file:"+f.store.path+"?mode=ro"))(t)
	defer func() { _ = file.Close() }()
	rows, err := file.Query("SELECT policy_id, rule_id, subject, start_ms / 1000, used, count FROM budget_counters")
	must.Do(t, err)
	defer func() { _ = rows.Close() }() // its error is rows.Err's
	for rows.Next() {
		var policy, rule, subject, used string
		var start, count int64
		must.Do(t, rows.Scan(&policy, &rule, &subject, &start, &used, &count))
		total := must.Get(spend.ParseTotal(used))(t)
		r.counters[fmt.Sprint(policy+" "+rule, subject, start)] = spend.Usage{Used: total, Count: count}
	}
	must.Do(t, rows.Err())
}
