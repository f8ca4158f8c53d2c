package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// report records outcomes of every sort: a full one and one that follows it, and one
// with nothing.
func (tr *trail) report() []*spend.Outcome {
	tr.t.Helper()
	allowed := tr.find(isAllowed)
	other := tr.find(func(c *spend.Check) bool { return isAllowed(c) && c != allowed })
	made := func(of *spend.Check, number int, status spend.Status) *spend.Outcome {
		return &spend.Outcome{
			ID: spend.NewOutcomeID(time.Now()), CheckID: of.ID, Step: number, Number: number, Status: status, Release: spend.ReleaseDone,
			KeyID: "key_1", RequestID: "req_1", Fence: allowed.Fence, Check: of, MayRelease: number > 1,
		}
	}
	full := made(allowed, 1, spend.Executed)
	full.Amount, _ = spend.ParseAmount("130.25")
	full.Excess, full.Release = spend.ExcessPending, spend.ReleaseNone
	full.Reference, full.Note, full.Principal = "psp-1 – ü", "a\tnote", "till"
	full.Replay = spend.Hash{1} // as redemptions have it
	full.Payment.Flags = []spend.Flag{spend.FlagUnredeemed}
	all := []*spend.Outcome{full, made(allowed, 2, spend.Voided), made(other, 1, spend.Failed)}
	for _, o := range all {
		must.Do(tr.t, tr.writer.AppendOutcome(o).Final())
	}
	return all
}

func outcome(kind string, o *spend.Outcome) string { return kind + " outcome " + o.ID.Text("") }

// Each column of an outcome that is altered is found, also from null to empty, and
// so are rows that were removed or inserted.
func TestTamperedOutcomes(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	all := tr.report()
	found, s, err := tr.verify(nil)
	if err != nil || len(found) > 0 || s.Outcomes != 3 {
		t.Fatalf("untouched: %v, %v, %d outcomes", found, err, s.Outcomes)
	}
	columns := tr.columns("outcomes")
	if len(columns) != 20 {
		t.Errorf("%d columns", len(columns))
	}
	tr.exec("CREATE TABLE kept AS TABLE outcomes; ALTER TABLE outcomes DROP CONSTRAINT outcomes_pkey")
	tr.altersSchema = true
	back := func() { tr.exec("DELETE FROM outcomes; INSERT INTO outcomes SELECT * FROM kept") }
	for _, column := range columns[1:] {
		name, kind := column[0], column[1]
		if name == "xid" { // bookkeeping
			continue
		}
		other := map[string]string{
			"uuid": "gen_random_uuid()", "smallint": "%s + 1", "bigint": "coalesce(%s, 0) + 1",
			"char":    `CASE %s WHEN 'n' THEN 'p' WHEN 'f' THEN 'v' ELSE 'f' END`,
			"numeric": "%s + 0.000000001", "boolean": "NOT %s", "bytea": "sha256(%s)", "text": "coalesce(%s, '') || ' '",
		}[kind]
		if strings.Contains(other, "%") {
			other = fmt.Sprintf(other, name)
		}
		for _, to := range []string{other, "NULL"} {
			if to == "NULL" && (name == "check_id" || name == "step" || name == "number" || name == "stops") {
				continue // refused: rows could not be found by them; there are no stops
			}
			tr.exec("ALTER TABLE outcomes ALTER COLUMN %s DROP NOT NULL", name)
			tr.exec("UPDATE outcomes SET %s = %s WHERE outcome_id = '%s'", name, to, all[0].ID.Text(""))
			if name == "check_id" || name == "step" || name == "number" {
				tr.exec("ALTER TABLE outcomes ALTER COLUMN %s SET NOT NULL", name)
			}
			tr.finds(nil, outcome("altered", all[0]))
			back()
		}
	}
	for _, name := range []string{"reference", "note", "principal"} {
		tr.exec("UPDATE outcomes SET %s = '' WHERE outcome_id = '%s'", name, all[2].ID.Text(""))
		tr.finds(nil, outcome("altered", all[2]))
		back()
	}
	tr.exec("DELETE FROM outcomes WHERE outcome_id = '%s'", all[1].ID.Text(""))
	tr.finds(nil, outcome("removed", all[1]))
	back()
	strange := &spend.Outcome{ID: spend.NewOutcomeID(time.Now().Add(-time.Hour))}
	tr.exec("CREATE TEMPORARY TABLE copy AS SELECT * FROM kept LIMIT 1; UPDATE copy SET outcome_id = '%s', step = 7, number = 7",
		strange.ID.Text(""))
	tr.exec("INSERT INTO outcomes SELECT * FROM copy")
	tr.finds(nil, outcome("inserted", strange))
	back()
	tr.exec("DELETE FROM outcomes")
	tr.finds(nil, outcome("removed", all[0]), outcome("removed", all[1]), outcome("removed", all[2]))
	back()
	tr.finds(nil)
}

// The days of checks leave; their outcomes stay.
func TestOutcomesInSlices(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	all := tr.report()
	for _, size := range []int64{1, 3} {
		found, s, err := tr.verify(func(o *verify.Options) { o.SliceSize = size; tr.held(o) })
		if err != nil || len(found) > 0 || s.Outcomes != 3 {
			t.Errorf("slices of %d: %v, %v, %d outcomes", size, found, err, s.Outcomes)
		}
	}
	found, s, err := tr.verify(func(o *verify.Options) { o.From = all[1].ID.Time() })
	if err != nil || len(found) > 0 || s.Outcomes == 0 || s.Outcomes > 2 && all[0].ID.Time().Before(all[1].ID.Time()) {
		t.Errorf("from the second: %v, %v, %d outcomes", found, err, s.Outcomes)
	}
}

// Both verifiers subtract what outcomes gave back when they recompute counters.
func TestCountersAfterOutcomes(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	epoch := must.Get(tr.store.Epoch(t.Context()))(t)
	f := spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch, Stops: tr.lastStop()}
	var last *spend.Outcome // of several
	var of *spend.Check
	for _, report := range []struct {
		status spend.Status
		amount string
		may    bool
		free   bool // the check is of 0
		after  []spend.Status
	}{
		{status: spend.Voided, amount: "0", may: true, after: []spend.Status{spend.Executed}},
		{status: spend.Executed, amount: "0.25", may: true, after: []spend.Status{spend.Executed}},
		{status: spend.Executed, amount: "900", may: true, after: []spend.Status{spend.Voided, spend.Executed, spend.Failed}},
		{status: spend.Voided, amount: "0", may: true},
		{status: spend.Failed, amount: "0"},
		{status: spend.Executed, amount: "0.25", may: true},
		{status: spend.Executed, amount: "900", may: true},
		{status: spend.Executed, amount: "900"},
		{status: spend.Executed, amount: "7", may: true, free: true},
	} {
		var c *spend.Check
		for _, one := range checksOfAllSorts(f) {
			if !one.Violation() && !one.Action.Amount.IsZero() {
				c = one
			}
		}
		if report.free {
			c.Action.Amount = spend.Amount{}
		}
		charge(c)
		c.Charges[1].Amount, c.Charges[1].NoCurrency = spend.Amount{}, true
		o := &spend.Outcome{
			ID: spend.NewOutcomeID(time.Now()), CheckID: c.ID, Step: 1, Number: 1, Status: report.status, KeyID: "key_1", RequestID: "req_1",
			Fence: f, Check: c,
		}
		o.Amount, _ = spend.ParseAmount(report.amount)
		o.SetRelease(report.may)
		must.Do(t, tr.writer.Append(c).Final())
		must.Do(t, tr.writer.AppendOutcome(o).Final())
		for _, status := range report.after {
			next := *o
			next.ID, next.Step, next.Number, next.Follows, next.Status, next.Amount = spend.NewOutcomeID(time.Now()), o.Step+1, o.Number+1, o,
				status, spend.Amount{}
			if status == spend.Executed {
				next.Amount, _ = spend.ParseAmount("1")
			}
			next.SetRelease(true)
			if o = &next; tr.writer.AppendOutcome(o).Final() != nil {
				t.Fatal(o)
			}
			last, of = o, c
		}
	}
	for _, size := range []int64{0, 1} {
		found, s, err := tr.verify(func(o *verify.Options) { o.SliceSize = size })
		if err != nil || len(found) > 0 || s.Counters < 3 || s.Outcomes != 14 {
			t.Errorf("slices of %d: %v, %v, %+v", size, found, err, s)
		}
	}
	if found := tr.stranger(false); len(found) > 0 {
		t.Errorf("verify.py: %v", found)
	}
	tr.exec("DELETE FROM outcomes WHERE outcome_id = '%s'", last.ID.Text(""))
	want := []string{outcome("removed", last)}
	for i := range of.Charges {
		want = append(want, counter("altered", of, i))
	}
	tr.finds(nil, want...)
	slices.Sort(want)
	if found := tr.stranger(false); !slices.Equal(found, want) {
		t.Errorf("verify.py: %v, want %v", found, want)
	}
}
