package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// charge has checks take from a budget of the day, one of a lifetime for their
// agent, and a rolling one.
func charge(checks ...*spend.Check) {
	for _, c := range checks {
		at := c.ID.Time()
		day := at.Truncate(24 * time.Hour)
		bucket := at.Truncate(time.Minute).UnixMilli()
		of := func(ruleID, subject string, start, length, end int64) spend.Charge {
			return spend.Charge{
				Counter: spend.Counter{ID: spend.CounterID(c.Action.PolicyID, ruleID, 2, subject), StartMS: start, BucketMS: length},
				RuleID:  ruleID, Since: 2, Subject: subject, Amount: c.Action.Amount, EndMS: end,
			}
		}
		c.Charges = []spend.Charge{
			of("day", "[]", day.UnixMilli(), 0, day.Add(24*time.Hour).UnixMilli()),
			of("ever", `["agent"]`, 0, 0, 0),
			of("rolling", "[]", bucket, 60_000, bucket+61*60_000),
		}
	}
}

// recordCharged commits checks of all sorts that are charged, and returns the
// first that took.
func (tr *trail) recordCharged(times int) *spend.Check {
	tr.t.Helper()
	epoch := must.Get(tr.store.Epoch(tr.t.Context()))(tr.t)
	f := spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch, Stops: tr.lastStop()}
	var first *spend.Check
	for range times {
		checks := checksOfAllSorts(f)
		charge(checks...)
		for _, c := range checks {
			must.Do(tr.t, tr.writer.Append(c).Final())
			if first == nil && !c.Violation() && c.Action.Amount != (spend.Amount{}) {
				first = c
			}
		}
	}
	return first
}

func counter(kind string, c *spend.Check, i int) string {
	ch := &c.Charges[i]
	return fmt.Sprintf("%s counter of budget %q of policy %q since version %d for %s, start_ms %d", kind, ch.RuleID, c.Action.PolicyID,
		ch.Since, ch.Subject, ch.Counter.StartMS)
}

// tamperedCounters changes counters of budgets behind the nodes' backs. In each
// %s is the rule, which is the finding's.
var tamperedCounters = []struct{ kind, sql string }{
	{"altered", "UPDATE budget_counters SET used = used - 125.5 WHERE rule_id = '%s'"},
	{"altered", "UPDATE budget_counters SET used = -used WHERE rule_id = '%s' AND start_ms >= 0"},
	{"altered", "UPDATE budget_counters SET count = count - 1 WHERE rule_id = '%s' AND start_ms >= 0"},
	{"altered", "UPDATE budget_counters SET used = used + 1, bucket_ms = 1 WHERE rule_id = '%s' AND start_ms >= 0"},
	{"removed", "DELETE FROM budget_counters WHERE rule_id = '%s'"},
}

// TestTamperedCounters has every counter named that is not what the recorded
// checks took (G12).
func TestTamperedCounters(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	c := tr.recordCharged(3)
	tr.exec("CREATE TABLE kept AS TABLE budget_counters")
	for _, size := range []int64{0, 1} {
		_, s, err := tr.verify(func(o *verify.Options) { o.SliceSize = size })
		if err != nil || !s.Clean() || s.Counters != int64(tr.count("budget_counters")) || s.Counters < 4 {
			t.Errorf("slices of %d: %+v, %v", size, s, err)
		}
	}
	size := int64(0) // of slices: each other time the whole trail
	finds := func(want, sql string, args ...any) {
		t.Helper()
		tr.exec(sql, args...)
		tr.finds(func(o *verify.Options) { o.SliceSize = size }, want)
		size = 1 - size // counters are compared once the slices are added up
		tr.exec("TRUNCATE budget_counters; INSERT INTO budget_counters SELECT * FROM kept")
	}
	for i, rule := range []string{"day", "ever"} {
		for _, tampered := range tamperedCounters {
			finds(counter(tampered.kind, c, i), tampered.sql, rule)
		}
	}
	finds(counter("altered", c, 0), "UPDATE budget_counters SET end_ms = 1 WHERE rule_id = 'day'") // and it would be removed
	finds(counter("altered", c, 1), "UPDATE budget_counters SET end_ms = 1 WHERE rule_id = 'ever'")
	finds(counter("altered", c, 0), "UPDATE budget_counters SET end_ms = end_ms + 86400001 WHERE rule_id = 'day'") // and it would stay
	// No time zone moves the end of a bucket.
	for _, moved := range []string{"+ 60000", "- 1"} {
		finds(counter("altered", c, 2), fmt.Sprintf("UPDATE budget_counters SET end_ms = end_ms %s WHERE rule_id = 'rolling' AND start_ms = %d",
			moved, c.Charges[2].Counter.StartMS))
	}
	finds(counter("altered", c, 0), "UPDATE budget_counters SET subject = '[1]' WHERE rule_id = 'day'")
	other := &spend.Check{Action: c.Action, Charges: []spend.Charge{c.Charges[0]}}
	other.Charges[0].Counter.StartMS--
	finds(counter("inserted", other, 0), "INSERT INTO budget_counters SELECT counter_id, start_ms - 1, bucket_ms, end_ms, count, since, "+
		"noticed, used, policy_id, rule_id, subject FROM kept WHERE rule_id = 'day'")
	other.Charges[0] = c.Charges[2]
	other.Charges[0].Counter.StartMS = -1
	finds(counter("inserted", other, 0), "UPDATE budget_counters SET count = 1 WHERE start_ms = -1")
	// Rows that count nothing are rows of a counter, too.
	for _, end := range []string{"end_ms - 1", "end_ms + 60000", "NULL"} {
		finds(counter("altered", other, 0), "UPDATE budget_counters SET end_ms = "+end+" WHERE start_ms = -1")
	}
	finds(counter("altered", other, 0), "UPDATE budget_counters SET bucket_ms = 0 WHERE start_ms = -1")
	renamed := *other
	renamed.Charges = slices.Clone(other.Charges)
	renamed.Charges[0].Subject = "[1]"
	finds(counter("altered", &renamed, 0), "UPDATE budget_counters SET subject = '[1]' WHERE start_ms = -1")
	other.Charges[0].Counter.StartMS = c.Charges[2].Counter.StartMS - 60_000
	unused := "INSERT INTO budget_counters SELECT counter_id, start_ms - 60000, bucket_ms, end_ms - 60000%s, 0, since, '{}', 0, " +
		"policy_id, rule_id, subject " +
		"FROM kept WHERE rule_id = 'rolling' AND start_ms = %d"
	finds(counter("altered", other, 0), fmt.Sprintf(unused, " - 1", c.Charges[2].Counter.StartMS))
	tr.exec(unused, "", c.Charges[2].Counter.StartMS)
	tr.finds(nil)
	tr.exec("TRUNCATE budget_counters; INSERT INTO budget_counters SELECT * FROM kept")

	// Counters of windows that ended long ago are gone, or may go.
	old := *c
	old.Charges = slices.Clone(c.Charges[:1])
	old.ID, old.Action.IdempotencyKey = spend.NewID(time.Now().Add(-25*time.Hour)), "" // so that time has passed
	old.Charges[0].Counter.StartMS, old.Charges[0].EndMS = 0, time.Now().Add(-audit.KeepCounters-2*time.Hour).UnixMilli()
	must.Do(t, tr.writer.Append(&old).Final())
	tr.finds(nil)
	must.Do(t, tr.store.Tidy(t.Context(), time.Now()))
	if tr.count("budget_counters WHERE start_ms = 0 AND rule_id = 'day'") != 0 {
		t.Error("the counter of an old window was kept")
	}
	tr.finds(nil)

	// A part of the trail shows the windows that lie in it.
	tr.exec("UPDATE budget_counters SET used = used + 1 WHERE start_ms >= 0")
	later := time.Now().Add(time.Hour)
	tr.finds(func(o *verify.Options) { o.From = later })
	// The window of a lifetime does not lie in it, nor does the row by which rolling windows take
	// turns.
	midnight := c.ID.Time().Truncate(24 * time.Hour)
	found, s, err := tr.verify(func(o *verify.Options) { o.From = midnight })
	if err != nil || len(found) < 2 || s.CountersBeyond != 2 ||
		slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, "ever") }) {
		t.Errorf("from midnight on: %v, %+v, %v", found, s, err)
	}
}

// A budget counts since the version in which it got its present terms (S37).
func TestTamperedCountSince(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	create := func(identity byte) {
		t.Helper()
		p := &audit.Policy{PolicyID: "counted", Name: "c", Rules: `[]`}
		if err := tr.store.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{Identities: map[string][]spend.Hash{"day": {{identity}}}},
			time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, identity := range []byte{1, 1, 2} {
		create(identity)
	}
	tr.finds(nil)
	// The version before is another one for as long as the next is made.
	made := func(identity byte, was string) {
		t.Helper()
		tr.exec("CREATE TEMPORARY TABLE kept AS TABLE policies")
		tr.exec(`UPDATE policies SET budgets = jsonb_set(budgets, '{day,identity}', '"%s"') WHERE policy_id = 'counted'`, was)
		create(identity)
		tr.exec("UPDATE policies AS p SET budgets = k.budgets FROM kept AS k WHERE p.policy_id = k.policy_id " +
			"AND p.version = k.version; DROP TABLE kept")
	}
	made(2, "00") // begins anew
	tr.finds(nil, `altered policy "counted" version 4`)
	made(3, "03"+strings.Repeat("00", 31)) // goes on
	tr.finds(nil, `altered policy "counted" version 4`, `altered policy "counted" version 5`)
}
