package detach

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// oldMonths is a store with checks of two old months, all of whose days were
// detached, and of today.
type oldMonths struct {
	*oldDays
	months [2]time.Time // 00:00 of their first days
}

// newAttachedMonths is newOldMonths before the days are detached.
func newAttachedMonths(t *testing.T) *oldMonths {
	t.Helper()
	url := migrated(t)
	now := time.Now().UTC()
	first := time.Date(now.Year(), now.Month()-4, 1, 0, 0, 0, 0, time.UTC)
	o := &oldMonths{&oldDays{Store: open(t, url), url: url, dir: t.TempDir(), first: first}, [2]time.Time{first, first.AddDate(0, 1, 0)}}
	statement(t, url, "UPDATE violation_count_state SET bucket_size = 2")
	f := newFence(t, o.Store)
	commit := func(at time.Time, n int, agents ...string) {
		t.Helper()
		f.Node = spend.NewID(now)
		var batch []*spend.Check
		for i := range n {
			c := minimal(f)
			c.ID, c.ActionType = spend.NewID(at.Add(time.Duration(i)*time.Minute)), spend.ActionTypes[i%4]
			c.Action.AgentID, c.Action.Counterparty = agents[i%len(agents)], "c-1"
			if c.Decision.Effect = []spend.Effect{spend.Block, spend.Escalate, spend.Allow}[i%3]; c.Decision.Effect != spend.Allow {
				c.Decision.Reason, c.Decision.RuleID, c.Decision.RuleDescription = spend.ReasonMaxAmount, "cap", "a cap"
			}
			batch = append(batch, c)
		}
		must.Do(t, o.Commit(t.Context(), batch, nil, audittest.Link(1, batch...)))
		o.checks = append(o.checks, batch...)
	}
	for _, day := range []time.Time{o.months[0], o.months[0].AddDate(0, 0, 19), o.months[1].AddDate(0, 0, 27)} {
		statement(t, url, "SELECT make_partition('"+day.Format(time.DateOnly)+"')")
		commit(day.Add(23*time.Hour), 9, "busy", "busy", "rare", "gone \u2028\"\\")
	}
	must.Do(t, o.CountViolations(t.Context()))
	commit(now.Add(-time.Hour), 6, "busy", "rare")
	o.recent = minimal(f)
	o.recent.Fence.Node = spend.NewID(now)
	must.Do(t, o.Commit(t.Context(), []*spend.Check{o.recent}, nil, audittest.Link(1, o.recent)))
	return o
}

func newOldMonths(t *testing.T) *oldMonths {
	t.Helper()
	o := newAttachedMonths(t)
	if _, found, err := o.detach(t, func(d *Options) { d.Before = o.after() }); err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
	return o
}

// after is the month after the two.
func (o *oldMonths) after() time.Time { return o.months[1].AddDate(0, 1, 0) }

// leave runs Violations and returns what it reported and the months that it found to differ.
func (o *oldMonths) leave(t *testing.T, change func(*Options)) (done []Detached, found []verify.Finding, err error) {
	t.Helper()
	return o.runs(t, Violations, Options{Before: o.after(), atOnce: 4}, change)
}

func dropRows(d *Options) { d.Drop = true }

func (o *oldMonths) mustLeave(t *testing.T, change func(*Options)) {
	t.Helper()
	if _, found, err := o.leave(t, change); err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
}

// noted is how many months are.
func (o *oldMonths) noted(t *testing.T) int {
	t.Helper()
	return count(t, o.Store, "archived_violations")
}

// from is where the violations begin that are listed.
func (o *oldMonths) from(t *testing.T) time.Time {
	t.Helper()
	return []time.Time{{}, o.months[1], o.after()}[o.noted(t)]
}

// exact compares listings by every third combination of filters, in which each filter meets each
// other one, with the violations that were recorded and are not archived.
func (o *oldMonths) exact(t *testing.T, when string) {
	t.Helper()
	o.compareListings(t, when, 3)
}

// roughly compares those by every agent in every span, each with one combination or two of the
// other filters: there are eight, which are innermost.
func (o *oldMonths) roughly(t *testing.T, when string) {
	t.Helper()
	o.compareListings(t, when, 7)
}

// compareListings compares one in so many combinations of filters.
func (o *oldMonths) compareListings(t *testing.T, when string, each int) {
	t.Helper()
	var queries []audit.ViolationQuery
	for _, agent := range []string{"", "busy", "rare", "gone \u2028\"\\"} {
		for _, span := range [][2]time.Time{
			{}, {o.months[0]}, {o.months[0].AddDate(0, 0, 10), o.after()}, {o.months[1].AddDate(0, 0, 20)}, {time.Time{}, o.months[1]},
		} {
			for _, kind := range []spend.ActionType{spend.Unspecified, spend.Refund} {
				for _, effect := range []spend.Effect{spend.Allow, spend.Block} {
					for _, bounds := range []audit.Bounds{{}, {PolicyIDs: []string{o.recent.Action.PolicyID}}} {
						queries = append(queries, audit.ViolationQuery{
							AgentID: agent, ActionType: kind, Effect: effect, From: span[0], To: span[1], Limit: 100, Bounds: bounds,
						})
					}
				}
			}
		}
	}
	from := o.from(t)
	for i := 0; i < len(queries); i += each {
		o.compareListing(t, when, queries[i], from)
	}
}

func (o *oldMonths) compareListing(t *testing.T, when string, q audit.ViolationQuery, from time.Time) {
	t.Helper()
	low, high := q.IDRange()
	if q.To.IsZero() {
		high = audit.MaxID()
	}
	var want []spend.ID
	for _, c := range o.checks {
		if c.Decision.Effect != spend.Allow && !c.ID.Time().Before(from) && (verify.Range{Low: low, High: high}).Holds(c.ID) &&
			(q.AgentID == "" || c.Action.AgentID == q.AgentID) && (q.ActionType == spend.Unspecified || c.ActionType == q.ActionType) &&
			(q.Effect == spend.Allow || c.Decision.Effect == q.Effect) {
			want = append(want, c.ID)
		}
	}
	page, err := o.Violations(t.Context(), q)
	var got []spend.ID
	for _, v := range slices.Backward(page.Violations) {
		got = append(got, v.ID)
	}
	if err != nil || page.Total != int64(len(want)) || !slices.Equal(got, want) {
		t.Errorf("%s: %+v: %d of %d, want %d, %v", when, q, len(got), page.Total, len(want), err)
	}
}

// mustBeClean verifies everything, with the archives.
func (o *oldMonths) mustBeClean(t *testing.T) {
	t.Helper()
	s, found := o.verified(t, o.dir)
	if !s.Clean() || s.Checks != int64(len(o.checks)+1) || s.Violations != 22 {
		t.Errorf("%d checks and %d violations verified, want %d and 22; found %q", s.Checks, s.Violations, len(o.checks)+1, found)
	}
}

// immutable tries to change violations, of archived months and of others.
func (o *oldMonths) immutable(t *testing.T) {
	t.Helper()
	archived, kept := o.checks[0].ID.Text(""), o.checks[len(o.checks)-1].ID.Text("")
	for _, change := range []string{
		"UPDATE violations SET agent_id = 'x' WHERE id <= '" + archived + "'", "UPDATE violations SET agent_id = 'x' WHERE id > '" +
			archived + "'",
		"DELETE FROM violations", "DELETE FROM violations WHERE id <= '" + kept + "' AND id > '" + audit.FirstID(o.after().UnixMilli()).Text("") +
			"'", "TRUNCATE violations",
		"UPDATE archived_violations SET rows = 1", "DELETE FROM archived_violations", "TRUNCATE archived_violations",
	} {
		if _, err := o.Reads.Exec(t.Context(), change); err == nil || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%s: got %v, want a refusal", change, err)
		}
	}
	if n := count(t, o.Store, "violations"); n != 22 {
		t.Errorf("%d violations are left", n)
	}
	// An agent's counts that reach into the month would be wrong without its rows.
	statement(t, o.url, "INSERT INTO violation_counts (agent_id, start_id, max_id) VALUES ('x', '"+archived+"', '"+archived+"')")
	if _, err := o.Reads.Exec(t.Context(), "SELECT delete_violations($1, '00000000000000000000000000000000', 1)", o.months[0]); err == nil ||
		!strings.Contains(err.Error(), "still counted") {
		t.Errorf("rows that are counted are deleted: %v", err)
	}
	statement(t, o.url, "DELETE FROM violation_counts WHERE agent_id = 'x'")
}

// sameEvents checks that the feed is unchanged, and that events of archived violations still have
// their owners.
func (o *oldMonths) sameEvents(t *testing.T, before []audit.Event) {
	t.Helper()
	after, err := o.Events(t.Context(), audit.EventQuery{Limit: 100})
	if err != nil || len(after.Events) != len(before) {
		t.Fatalf("%d events, were %d: %v", len(after.Events), len(before), err)
	}
	for i, e := range after.Events {
		was := before[i]
		if archived := e.At.Before(o.after()); archived != (e.Violation == nil) || e.AgentID != was.Violation.AgentID {
			t.Errorf("event %d is of %v, its violation %v", e.Sequence, e.At, e.Violation)
		}
		e.Violation, was.Violation = nil, nil
		if e != was {
			t.Errorf("event %+v was %+v", e, was)
		}
	}
}

// stayClosed: nothing comes into an archived month, not even on a day without checks.
func (o *oldMonths) stayClosed(t *testing.T) {
	t.Helper()
	day := o.months[1].AddDate(0, 0, 2)
	must.Do(t, o.Tidy(t.Context(), day))
	late := minimal(newFence(t, o.Store))
	late.ID, late.Decision.Effect = spend.NewID(day), spend.Block
	if err := audittest.Record(t.Context(), o.Store, late); err == nil {
		t.Error("a check of an archived month is recorded")
	}
	if n := count(t, o.Store, "pg_class WHERE relname = 'checks_"+day.Format("20060102")+
		"' AND relnamespace = quote_ident(current_schema())::regnamespace"); n != 0 {
		t.Error("a day of an archived month has a partition")
	}
}

// TestDetachViolationsKilled kills the process between each two steps that write. The month is
// then listed or has a complete archive, nothing is lost, and another run finishes (G8).
func TestDetachViolationsKilled(t *testing.T) {
	for _, step := range []string{
		"number", "archive", "verify", "detach", "trim", "reread", "delete", "delete again", "vacuum",
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			o := newOldMonths(t)
			if step == "archive" {
				leaveHalf(t, o.dir, "violations-"+o.months[0].Format("2006-01"))
			}
			before := must.Get(o.Events(t.Context(), audit.EventQuery{Limit: 100}))(t)
			killAt(t, step, "violations", o.url, o.dir, o.after())
			noted := slices.Contains([]string{"trim", "reread", "delete", "delete again", "vacuum"}, step)
			if (o.noted(t) == 1) != noted {
				t.Errorf("%d months are noted", o.noted(t))
			}
			if n, want := count(t, o.Store, "violations"), map[string]int{"delete again": 18, "vacuum": 10}[step]; n != want && n != 22 {
				t.Errorf("%d violations are there", n)
			}
			o.roughly(t, "killed")
			o.mustBeClean(t)
			must.Check(t, o.CountViolations(t.Context()))
			o.roughly(t, "killed, and counted")
			o.sameNumbers(t, before.Events)
			o.mustLeave(t, dropRows)
			if o.noted(t) != 2 || count(t, o.Store, "violations") != 4 {
				t.Errorf("%d months are noted after the next run", o.noted(t))
			}
			o.roughly(t, "after the next run")
			o.mustBeClean(t)
			o.sameEvents(t, before.Events)
		})
	}
}

// sameNumbers: the feed has the numbers that it had.
func (o *oldMonths) sameNumbers(t *testing.T, before []audit.Event) {
	t.Helper()
	after, err := o.Events(t.Context(), audit.EventQuery{Limit: 100})
	same := func(a, b audit.Event) bool { return a.Sequence == b.Sequence && a.ID == b.ID }
	if err != nil || !slices.EqualFunc(after.Events, before, same) {
		t.Errorf("%d events, were %d: %v", len(after.Events), len(before), err)
	}
}
