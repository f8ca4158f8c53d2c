package detach

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
	"spendgate/bench/must"
)

// TestDetachViolations takes two months out and finds everything that must stay.
func TestDetachViolations(t *testing.T) {
	ctx := t.Context()
	o := newAttachedMonths(t)
	if _, _, err := o.leave(t, nil); !errors.Is(err, errStillNeeded) || o.noted(t) != 0 {
		t.Fatalf("with checks in the database: %v", err)
	}
	if _, _, err := o.detach(t, func(d *Options) { d.Before = o.after() }); err != nil {
		t.Fatal(err)
	}
	before, err := o.Events(ctx, audit.EventQuery{Limit: 100})
	if err != nil || len(before.Events) != 22 {
		t.Fatal(len(before.Events), err)
	}
	o.mustBeClean(t)
	o.exact(t, "at first")
	done, _, err := o.leave(t, func(d *Options) { d.DryRun, d.Drop = true, true })
	if err != nil || len(done) != 2 || !slices.Equal(done[1].Steps, []string{"to be archived", "to be detached", "to be dropped"}) ||
		o.noted(t) != 0 {
		t.Fatalf("a dry run: %+v, %v", done, err)
	}
	if _, err := os.Stat(archive.ManifestPath(o.dir, archive.ViolationsOf(o.months[0]))); err == nil {
		t.Error("a dry run left an archive")
	}

	// One month, then the other: the agents' counts reach over the end of the first.
	for i, end := range []time.Time{o.months[1].AddDate(0, 0, 27), o.after()} {
		done, found, err := o.leave(t, func(d *Options) { d.Before = end })
		if err != nil || len(found) > 0 || len(done) != 1 || done[0].Part.String() != o.months[i].Format("2006-01") ||
			done[0].Rows != int64([]int{12, 6}[i]) {
			t.Fatalf("%+v, %v, %v", done, found, err)
		}
		o.exact(t, done[0].Part.String()+" is archived")
		o.mustBeClean(t)
		must.Do(t, o.CountViolations(ctx))
		o.exact(t, done[0].Part.String()+" is archived, and all is counted")
	}
	var blocks, all int
	err = o.Reads.QueryRow(ctx, "SELECT sum(refund_blocks + credit_blocks + discount_blocks + spend_blocks), sum(rows) "+
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
		must.Do(t, o.CountViolations(ctx))
		o.exact(t, "dropped and counted")
	}
	if s, found := o.verifiedTo(t, o.dir, o.months[0].Add(23*time.Hour+4*time.Minute)); !s.Clean() || s.Violations != 4 {
		t.Errorf("up to amid the first day: %d violations, found %q", s.Violations, found)
	}
	o.sameEvents(t, before.Events)
	must.Get(o.KeepEvents(ctx, audit.LeastEventsKept, time.Now()))(t)
	if left, err := o.EventsHead(ctx); err != nil || count(t, o.Store, "events") >= int(left) {
		t.Errorf("no event of archived months was removed: %d, %v", left, err)
	}
	o.mustBeClean(t)
	o.stayClosed(t)
}

// TestDetachViolationsRefuses: the database itself takes no month out that is needed.
func TestDetachViolationsRefuses(t *testing.T) {
	o := newOldMonths(t)
	month := func(m time.Time) string { return m.Format(time.DateOnly) }
	detach := "SELECT detach_violations('%s', %d, '\\x00')"
	refused := func(want, statement string) {
		t.Helper()
		if _, err := o.Reads.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", statement, err, want)
		}
	}
	refused("not the first day", fmt.Sprintf(detach, month(o.months[0].AddDate(0, 0, 1)), 12))
	refused("still needed", fmt.Sprintf(detach, month(time.Now().UTC().AddDate(0, 0, 1-time.Now().UTC().Day())), 4))
	refused("from before", fmt.Sprintf(detach, month(o.months[1]), 6))
	refused("have no events yet", fmt.Sprintf(detach, month(o.months[0]), 12))
	must.Get(o.Events(t.Context(), audit.EventQuery{Limit: 1}))(t)
	refused("and the archive 11", fmt.Sprintf(detach, month(o.months[0]), 11))
	refused("are not archived", "SELECT delete_violations('"+month(o.months[0])+"', '00000000000000000000000000000000', 100)")
	stray := minimal(newFence(t, o.Store))
	stray.ID = spend.NewID(o.months[0].AddDate(0, 0, 5))
	must.Do(t, audittest.Record(t.Context(), o.Store, stray))
	if _, _, err := o.leave(t, nil); err == nil || !strings.Contains(err.Error(), "default partition") || o.noted(t) != 0 {
		t.Errorf("with a check in the default partition: %v", err)
	}
	refused("not detached", fmt.Sprintf(detach, month(o.months[0]), 12))
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
		must.Do(t, os.Remove(archive.ManifestPath(o.dir, archive.ViolationsOf(o.months[0]))))
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
	must.Do(t, os.Rename(day, day+".away"))
	refused("unchecked day " + o.months[0].Format(time.DateOnly))
	must.Do(t, os.Rename(day+".away", day))

	// An archive from before the rows were mended is not theirs.
	killed := errors.New("killed")
	func() {
		defer func() { _ = recover() }()
		_, _, _ = o.leave(t, func(d *Options) {
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
			must.Check(t, o.CountViolations(t.Context()))
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
