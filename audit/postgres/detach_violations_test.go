package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/fleet"
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
	url := fleet.TestSchema(t)
	now := time.Now().UTC()
	first := time.Date(now.Year(), now.Month()-4, 1, 0, 0, 0, 0, time.UTC)
	o := &oldMonths{&oldDays{Store: open(t, url, true), url: url, dir: t.TempDir(), first: first}, [2]time.Time{first, first.AddDate(0, 1, 0)}}
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
		if err := o.Commit(t.Context(), batch, nil, audittest.Link(1, batch...)); err != nil {
			t.Fatal(err)
		}
		o.checks = append(o.checks, batch...)
	}
	for _, day := range []time.Time{o.months[0], o.months[0].AddDate(0, 0, 19), o.months[1].AddDate(0, 0, 27)} {
		statement(t, url, "SELECT make_partition('"+day.Format(time.DateOnly)+"')")
		commit(day.Add(23*time.Hour), 9, "busy", "busy", "rare", "gone \u2028\"\\")
	}
	if err := o.CountViolations(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(now.Add(-time.Hour), 6, "busy", "rare")
	o.recent = minimal(f)
	o.recent.Fence.Node = spend.NewID(now)
	if err := o.Commit(t.Context(), []*spend.Check{o.recent}, nil, audittest.Link(1, o.recent)); err != nil {
		t.Fatal(err)
	}
	return o
}

func newOldMonths(t *testing.T) *oldMonths {
	t.Helper()
	o := newAttachedMonths(t)
	if _, found, err := o.detach(t, func(d *DetachOptions) { d.Before = o.after() }); err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
	return o
}

// after is the month after the two.
func (o *oldMonths) after() time.Time { return o.months[1].AddDate(0, 1, 0) }

// leave runs DetachViolations and returns what it reported and found.
func (o *oldMonths) leave(t *testing.T, change func(*DetachOptions)) (done []Detached, found []verify.Finding, err error) {
	t.Helper()
	options := DetachOptions{
		URL: o.url, Dir: o.dir, Before: o.after(), Now: time.Now(), atOnce: 4,
		Report: func(d Detached) { done = append(done, d) },
		Found:  func(f verify.Finding) { found = append(found, f) },
	}
	if change != nil {
		change(&options)
	}
	err = DetachViolations(t.Context(), options)
	return done, found, err
}

func dropRows(d *DetachOptions) { d.Drop = true }

func (o *oldMonths) mustLeave(t *testing.T, change func(*DetachOptions)) {
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

// exact compares listings by many filters with the violations that were recorded
// and are not archived.
func (o *oldMonths) exact(t *testing.T, when string) {
	t.Helper()
	from := o.from(t)
	for _, agent := range []string{"", "busy", "rare", "gone \u2028\"\\"} {
		for _, kind := range []spend.ActionType{spend.Unspecified, spend.Refund} {
			for _, effect := range []spend.Effect{spend.Allow, spend.Block} {
				for _, span := range [][2]time.Time{
					{}, {o.months[0]}, {o.months[0].AddDate(0, 0, 10), o.after()}, {o.months[1].AddDate(0, 0, 20)}, {time.Time{}, o.months[1]},
				} {
					for _, bounds := range []audit.Bounds{{}, {PolicyIDs: []string{o.recent.Action.PolicyID}}} {
						q := audit.ViolationQuery{AgentID: agent, ActionType: kind, Effect: effect, From: span[0], To: span[1], Limit: 100, Bounds: bounds}
						low, high := q.IDRange()
						if span[1].IsZero() {
							high = audit.MaxID()
						}
						var want []spend.ID
						for _, c := range o.checks {
							if c.Decision.Effect != spend.Allow && !c.ID.Time().Before(from) && (verify.Range{Low: low, High: high}).Holds(c.ID) &&
								(agent == "" || c.Action.AgentID == agent) && (kind == spend.Unspecified || c.ActionType == kind) &&
								(effect == spend.Allow || c.Decision.Effect == effect) {
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
				}
			}
		}
	}
}

// verified returns the findings over the whole trail.
func (o *oldMonths) verified(t *testing.T, dir string) (s verify.Summary, found []string) {
	t.Helper()
	moment := o.snapshot(t)
	defer moment.Close()
	s, err := verify.Verify(t.Context(), verify.Options{
		Evidence: moment, Archives: dir, Workers: 2, Found: func(f verify.Finding) { found = append(found, f.String()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, found
}

// mustBeClean verifies everything, with the archives.
func (o *oldMonths) mustBeClean(t *testing.T) {
	t.Helper()
	s, found := o.verified(t, o.dir)
	if !s.Clean() || s.Checks != int64(len(o.checks)+1) || s.Violations != 22 {
		t.Errorf("%d checks and %d violations verified, want %d and 22; found %q", s.Checks, s.Violations, len(o.checks)+1, found)
	}
}

// TestDetachViolations takes two months out and finds everything that must stay.
func TestDetachViolations(t *testing.T) {
	ctx := t.Context()
	o := newAttachedMonths(t)
	if _, _, err := o.leave(t, nil); !errors.Is(err, ErrStillNeeded) || o.noted(t) != 0 {
		t.Fatalf("with checks in the database: %v", err)
	}
	if _, _, err := o.detach(t, func(d *DetachOptions) { d.Before = o.after() }); err != nil {
		t.Fatal(err)
	}
	before, err := o.Events(ctx, audit.EventQuery{Limit: 100})
	if err != nil || len(before.Events) != 22 {
		t.Fatal(len(before.Events), err)
	}
	o.mustBeClean(t)
	o.exact(t, "at first")
	done, _, err := o.leave(t, func(d *DetachOptions) { d.DryRun, d.Drop = true, true })
	if err != nil || len(done) != 2 || !slices.Equal(done[1].Steps, []string{"to be archived", "to be detached", "to be dropped"}) ||
		o.noted(t) != 0 {
		t.Fatalf("a dry run: %+v, %v", done, err)
	}
	if _, err := os.Stat(archive.ManifestPath(o.dir, archive.ViolationsOf(o.months[0]))); err == nil {
		t.Error("a dry run left an archive")
	}

	// One month, then the other: the agents' counts reach over the end of the first.
	for i, end := range []time.Time{o.months[1].AddDate(0, 0, 27), o.after()} {
		done, found, err := o.leave(t, func(d *DetachOptions) { d.Before = end })
		if err != nil || len(found) > 0 || len(done) != 1 || done[0].Part.String() != o.months[i].Format("2006-01") ||
			done[0].Rows != int64([]int{12, 6}[i]) {
			t.Fatalf("%+v, %v, %v", done, found, err)
		}
		o.exact(t, done[0].Part.String()+" is archived")
		o.mustBeClean(t)
		if err := o.CountViolations(ctx); err != nil {
			t.Fatal(err)
		}
		o.exact(t, done[0].Part.String()+" is archived, and all is counted")
	}
	var blocks, all int
	err = o.reads.QueryRow(ctx, "SELECT sum(refund_blocks + credit_blocks + discount_blocks + spend_blocks), sum(rows) "+
		"FROM archived_violations").Scan(&blocks, &all)
	if err != nil || blocks != 9 || all != 18 {
		t.Errorf("%d blocks of %d are noted, %v", blocks, all, err)
	}
	if n := count(t, o.Store, `violation_counts WHERE agent_id LIKE 'gone%'`); n != 0 {
		t.Errorf("an agent that has no violations left has %d counts", n)
	}
	if s, found := o.verified(t, ""); s.Findings[verify.Unchecked] != 5 || len(s.Findings) != 1 {
		t.Errorf("without the archives: %q", found)
	}
	o.immutable(t)

	if done, _, err := o.leave(t, nil); err != nil || len(done) != 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
	if done, _, err := o.leave(t, dropRows); err != nil || len(done) != 2 || !slices.Equal(done[0].Steps, []string{"dropped"}) {
		t.Errorf("drop: %+v, %v", done, err)
	}
	if n := count(t, o.Store, "violations"); n != 4 {
		t.Errorf("%d violations are left", n)
	}
	if done, _, err := o.leave(t, dropRows); err != nil || len(done) != 0 {
		t.Errorf("drop again: %+v, %v", done, err)
	}
	o.mustBeClean(t)
	for _, recount := range []string{"", "SELECT recount_violations()"} {
		statement(t, o.url, recount)
		o.exact(t, "dropped")
		if err := o.CountViolations(ctx); err != nil {
			t.Fatal(err)
		}
		o.exact(t, "dropped and counted")
	}
	if s, found := o.verifiedTo(t, o.dir, time.Time{}); !s.Clean() || s.Violations != 22 { // in small slices
		t.Errorf("found %q", found)
	}
	if s, found := o.verifiedTo(t, o.dir, o.months[0].Add(23*time.Hour+4*time.Minute)); !s.Clean() || s.Violations != 4 {
		t.Errorf("up to amid the first day: %d violations, found %q", s.Violations, found)
	}
	o.sameEvents(t, before.Events)
	if _, err := o.KeepEvents(ctx, audit.LeastEventsKept, time.Now()); err != nil {
		t.Fatal(err)
	}
	if left, err := o.EventsHead(ctx); err != nil || count(t, o.Store, "events") >= int(left) {
		t.Errorf("no event of archived months was removed: %d, %v", left, err)
	}
	o.mustBeClean(t)
	o.stayClosed(t)
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
		if _, err := o.reads.Exec(t.Context(), change); err == nil || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%s: got %v, want a refusal", change, err)
		}
	}
	if n := count(t, o.Store, "violations"); n != 22 {
		t.Errorf("%d violations are left", n)
	}
	// An agent's counts that reach into the month would be wrong without its rows.
	statement(t, o.url, "INSERT INTO violation_counts (agent_id, start_id, max_id) VALUES ('x', '"+archived+"', '"+archived+"')")
	if _, err := o.reads.Exec(t.Context(), "SELECT delete_violations($1, '00000000000000000000000000000000', 1)", o.months[0]); err == nil ||
		!strings.Contains(err.Error(), "still counted") {
		t.Errorf("rows that are counted are deleted: %v", err)
	}
	statement(t, o.url, "DELETE FROM violation_counts WHERE agent_id = 'x'")
}

// sameEvents: the feed has what it had; events of archived violations say whose they are.
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
	if err := o.Tidy(t.Context(), day); err != nil {
		t.Fatal(err)
	}
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

// TestDetachViolationsRefuses: the database itself takes no month out that is needed.
func TestDetachViolationsRefuses(t *testing.T) {
	o := newOldMonths(t)
	month := func(m time.Time) string { return m.Format(time.DateOnly) }
	detach := "SELECT detach_violations('%s', %d, '\\x00')"
	refused := func(want, statement string) {
		t.Helper()
		if _, err := o.reads.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", statement, err, want)
		}
	}
	refused("not the first day", fmt.Sprintf(detach, month(o.months[0].AddDate(0, 0, 1)), 12))
	refused("still needed", fmt.Sprintf(detach, month(time.Now().UTC().AddDate(0, 0, 1-time.Now().UTC().Day())), 4))
	refused("from before", fmt.Sprintf(detach, month(o.months[1]), 6))
	refused("have no events yet", fmt.Sprintf(detach, month(o.months[0]), 12))
	if _, err := o.Events(t.Context(), audit.EventQuery{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	refused("and the archive 11", fmt.Sprintf(detach, month(o.months[0]), 11))
	refused("are not archived", "SELECT delete_violations('"+month(o.months[0])+"', '00000000000000000000000000000000', 100)")
	stray := minimal(newFence(t, o.Store))
	stray.ID = spend.NewID(o.months[0].AddDate(0, 0, 5))
	if err := audittest.Record(t.Context(), o.Store, stray); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.leave(t, nil); err == nil || !strings.Contains(err.Error(), "default partition") || o.noted(t) != 0 {
		t.Errorf("with a check in the default partition: %v", err)
	}
	refused("not detached", fmt.Sprintf(detach, month(o.months[0]), 12))
}

// TestDetachViolationsKilled kills the process between each two steps that write. The month is
// then listed or has a complete archive, nothing is lost, and another run finishes.
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
			before, err := o.Events(t.Context(), audit.EventQuery{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			killAt(t, step, "violations", o.url, o.dir, o.after())
			noted := slices.Contains([]string{"trim", "reread", "delete", "delete again", "vacuum"}, step)
			if (o.noted(t) == 1) != noted {
				t.Errorf("%d months are noted", o.noted(t))
			}
			if n, want := count(t, o.Store, "violations"), map[string]int{"delete again": 18, "vacuum": 10}[step]; n != want && n != 22 {
				t.Errorf("%d violations are there", n)
			}
			o.exact(t, "killed")
			o.mustBeClean(t)
			if err := o.CountViolations(t.Context()); err != nil {
				t.Error(err)
			}
			o.exact(t, "killed, and counted")
			o.sameNumbers(t, before.Events)
			o.mustLeave(t, dropRows)
			if o.noted(t) != 2 || count(t, o.Store, "violations") != 4 {
				t.Errorf("%d months are noted after the next run", o.noted(t))
			}
			o.exact(t, "after the next run")
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

// TestDetachViolationsWhatIsProved: a month whose violations are not the violations of its
// checks stays, and so do rows that are not in the archive.
func TestDetachViolationsWhatIsProved(t *testing.T) {
	o := newOldMonths(t)
	victim := o.checks[1].ID.Text("")
	change := func(sql string) {
		t.Helper()
		statement(t, o.url, "ALTER TABLE violations DISABLE TRIGGER ALL; "+sql+"; ALTER TABLE violations ENABLE TRIGGER ALL")
	}
	refused := func(want string) {
		t.Helper()
		_, found, err := o.leave(t, nil)
		if err == nil || len(found) != 1 || !strings.Contains(found[0].String(), want) || o.noted(t) != 0 {
			t.Errorf("got %v, %v; want %q", found, err, want)
		}
		if err := os.Remove(archive.ManifestPath(o.dir, archive.ViolationsOf(o.months[0]))); err != nil {
			t.Fatal(err)
		}
	}
	statement(t, o.url, "CREATE TABLE kept AS SELECT * FROM violations")
	change("UPDATE violations SET counterparty = 'another' WHERE id = '" + victim + "'")
	refused("altered violation viol_" + victim)
	change("DELETE FROM violations WHERE id = '" + victim + "'")
	refused("removed violation viol_" + victim)
	change("INSERT INTO violations SELECT * FROM kept WHERE id = '" + victim +
		"'; INSERT INTO violations (SELECT (jsonb_populate_record(v, jsonb_build_object('id', '" +
		spend.NewID(o.months[0].AddDate(0, 0, 3)).Text("") + "'))).* FROM kept AS v LIMIT 1)")
	refused("inserted violation viol_")
	change("DELETE FROM violations WHERE id NOT IN (SELECT id FROM kept)")
	day := archive.ManifestPath(o.dir, archive.ChecksOf(o.months[0]))
	if err := os.Rename(day, day+".away"); err != nil {
		t.Fatal(err)
	}
	refused("unchecked day " + o.months[0].Format(time.DateOnly))
	if err := os.Rename(day+".away", day); err != nil {
		t.Fatal(err)
	}

	// An archive from before the rows were mended is not theirs.
	killed := errors.New("killed")
	func() {
		defer func() { _ = recover() }()
		_, _, _ = o.leave(t, func(d *DetachOptions) {
			d.step = func(step string) {
				if step == "compare" {
					panic(killed)
				}
			}
		})
	}()
	change("UPDATE violations SET counterparty = 'another' WHERE id = '" + victim + "'")
	if _, _, err := o.leave(t, nil); !errors.Is(err, archive.ErrAltered) || o.noted(t) != 0 {
		t.Errorf("an archive of other rows: %v", err)
	}
	change("UPDATE violations SET counterparty = 'c-1' WHERE id = '" + victim + "'")
	o.mustLeave(t, nil)

	// No row is deleted that the archive does not have, nor by an archive that is not the one noted.
	change("UPDATE violations SET counterparty = 'another' WHERE id = '" + victim + "'")
	if _, _, err := o.leave(t, dropRows); !errors.Is(err, archive.ErrAltered) || count(t, o.Store, "violations") != 22 {
		t.Errorf("a row that is not in the archive is deleted: %v", err)
	}
	change("UPDATE violations SET counterparty = 'c-1' WHERE id = '" + victim + "'")
	rewrite(t, archive.ManifestPath(o.dir, archive.ViolationsOf(o.months[0])), func(m []byte) []byte { return append(m, ' ') })
	if _, _, err := o.leave(t, dropRows); !errors.Is(err, archive.ErrAltered) || count(t, o.Store, "violations") != 22 {
		t.Errorf("deleted for another archive: %v", err)
	}
}

// TestDetachViolationsAmidWork: commits go on while months leave, and every listing
// has as many as it says.
func TestDetachViolationsAmidWork(t *testing.T) {
	o := newOldMonths(t)
	ctx, stop := context.WithCancel(t.Context())
	var nodes sync.WaitGroup
	var commits, listings int
	nodes.Go(func() {
		for ; ctx.Err() == nil; commits++ {
			c := minimal(newFence(t, o.Store))
			c.Decision.Effect, c.Action.AgentID = spend.Block, "busy"
			if err := o.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(1, c)); err != nil {
				t.Errorf("a commit meanwhile: %v", err)
			}
			if err := o.CountViolations(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	nodes.Go(func() {
		for ; ctx.Err() == nil; listings++ {
			page, err := o.Violations(t.Context(), audit.ViolationQuery{AgentID: "busy", Limit: 10_000})
			if err != nil || page.Total != int64(len(page.Violations)) {
				t.Errorf("a listing has %d of %d, %v", len(page.Violations), page.Total, err)
			}
			if _, err := o.Events(t.Context(), audit.EventQuery{Limit: 100}); err != nil {
				t.Error(err)
			}
		}
	})
	_, found, err := o.leave(t, dropRows)
	stop()
	nodes.Wait()
	if err != nil || len(found) > 0 || o.noted(t) != 2 || commits == 0 || listings == 0 {
		t.Errorf("%v, %v; %d commits, %d listings", found, err, commits, listings)
	}
}
