package detach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/audittest"
	"spendgate/audit/postgres/snapshot"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// oldDays is a store with checks of two old days and of today.
type oldDays struct {
	*Store
	url, dir string
	first    time.Time // 00:00 of the first of the two
	checks   []*spend.Check
	recent   *spend.Check
}

// before is the day after the two.
func (o *oldDays) before() time.Time { return o.first.AddDate(0, 0, 2) }

func newOldDays(t *testing.T) *oldDays {
	t.Helper()
	url := migrated(t)
	o := &oldDays{Store: open(t, url), url: url, dir: t.TempDir(), first: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -12)}
	f := newFence(t, o.Store)
	for d := range 2 {
		statement(t, url, "SELECT make_partition('"+o.first.AddDate(0, 0, d).Format(time.DateOnly)+"')")
	}
	commit := func(checks ...*spend.Check) {
		t.Helper()
		f.Node = spend.NewID(time.Now())
		for _, c := range checks {
			c.Fence = f
		}
		must.Do(t, o.Commit(t.Context(), checks, nil, audittest.Link(1, checks...)))
	}
	texts := []string{"plain", "\x1b[31m\u2028\"\\ é 😀", "\u007f\t\r\n", "<&>", " "}
	for i := range 40 {
		c := minimal(f)
		c.ID = spend.NewID(o.first.Add(time.Duration(i) * 71 * time.Minute)) // over both days
		c.Action.AgentID, c.Action.ReasonText = texts[i%len(texts)], texts[(i+1)%len(texts)]
		c.Action.Amount, _ = spend.ParseAmount([]string{"0", "600.05", "9999999999.999999999"}[i%3])
		if i%4 == 0 {
			c.Decision.Effect, c.Decision.Reason, c.Decision.RuleID, c.Decision.RuleDescription = spend.Block, spend.ReasonMaxAmount, "cap", "a cap"
		}
		if i%2 == 0 {
			c.Pass = spend.Pass{ClaimedMS: c.ID.Time().UnixMilli(), UntilMS: c.ID.Time().UnixMilli() + 300_000}
		}
		o.checks = append(o.checks, c)
	}
	for batch := range slices.Chunk(o.checks, 7) { // one of them over midnight
		commit(batch...)
	}
	o.recent = minimal(f)
	commit(o.recent)
	return o
}

// detach runs Checks and returns what it reported and the days that it found to differ.
func (o *oldDays) detach(t *testing.T, change func(*Options)) (done []Detached, found []verify.Finding, err error) {
	t.Helper()
	return o.runs(t, Checks, Options{Before: o.before()}, change)
}

// runs is detach of a function, with other options.
func (o *oldDays) runs(t *testing.T, run func(context.Context, Options) error, options Options, change func(*Options)) (
	done []Detached, found []verify.Finding, err error,
) {
	options.URL, options.Dir, options.Now = o.url, o.dir, time.Now()
	options.Report = func(d Detached) { done = append(done, d) }
	options.Found = func(f verify.Finding) { found = append(found, f) }
	if change != nil {
		change(&options)
	}
	err = run(t.Context(), options)
	return done, found, err
}

// snapshot is one of this moment, for the caller to close.
func (o *oldDays) snapshot(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	return must.Get(snapshot.Open(t.Context(), o.url, 2))(t)
}

// verified returns the findings over the whole trail.
func (o *oldDays) verified(t *testing.T, dir string) (verify.Summary, []string) {
	t.Helper()
	return o.verifiedTo(t, dir, time.Time{})
}

func (o *oldDays) verifiedTo(t *testing.T, dir string, to time.Time) (verify.Summary, []string) {
	t.Helper()
	s := o.snapshot(t)
	defer s.Close()
	var found []string
	summary := must.Get(verify.Verify(t.Context(), verify.Options{
		Evidence: s, Archives: dir, To: to, Workers: 2, SliceSize: 8, Found: func(f verify.Finding) { found = append(found, f.String()) },
	}))(t)
	return summary, found
}

func (o *oldDays) mustBeClean(t *testing.T) {
	t.Helper()
	if s, found := o.verified(t, o.dir); !s.Clean() || s.Checks != int64(len(o.checks)+1) {
		t.Errorf("%d checks verified, want %d; found %q", s.Checks, len(o.checks)+1, found)
	}
}

func (o *oldDays) attached(t *testing.T) (n int) {
	return count(t, o.Store, "pg_inherits WHERE inhparent = 'checks'::regclass "+
		"AND inhrelid IN (SELECT oid FROM pg_class WHERE relname IN ('checks_"+
		o.first.Format("20060102")+"','checks_"+o.first.AddDate(0, 0, 1).Format("20060102")+"'))")
}

// TestDetach takes two days out and finds everything that must stay.
func TestDetach(t *testing.T) {
	ctx := t.Context()
	o := newOldDays(t)
	o.mustBeClean(t)
	rows := strings.Join(rowsOf(t, o.Store, "(SELECT * FROM checks WHERE check_id < '"+audit.FirstID(o.before().UnixMilli()).Text("")+"')"),
		"\n")

	done, found, err := o.detach(t, func(d *Options) { d.DryRun = true })
	if err != nil || len(done) != 2 || len(found) > 0 || o.attached(t) != 2 {
		t.Fatalf("a dry run: %+v, %v, %v", done, found, err)
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) > 0 {
		t.Errorf("a dry run left %v, %v", left, err)
	}
	done, found, err = o.detach(t, nil)
	if err != nil || len(done) != 2 || len(found) > 0 || o.attached(t) != 0 || done[0].Rows+done[1].Rows != int64(len(o.checks)) {
		t.Fatalf("%+v, %v, %v", done, found, err)
	}
	o.mustBeClean(t)
	if s, found := o.verified(t, ""); s.Findings[verify.Unchecked] != 2 || len(s.Findings) != 1 ||
		!strings.Contains(strings.Join(found, ""), "--archive") {
		t.Errorf("without the archives: %+v %q", s.Findings, found)
	}
	if s, _ := o.verified(t, t.TempDir()); s.Findings[verify.Unchecked] != 2 || len(s.Findings) != 1 {
		t.Errorf("with an empty folder: %+v", s.Findings)
	}
	for _, c := range o.checks {
		if recorded(t, o.Store, c) {
			t.Errorf("%s is still there", c.ID.Text(spend.PrefixCheck))
		}
	}
	if page, err := o.Violations(ctx, audit.ViolationQuery{Limit: 100}); err != nil || page.Total != 10 {
		t.Errorf("%d violations, %v", page.Total, err)
	}

	// The detached rows are unchanged, and immutable.
	first, second := "checks_"+o.first.Format("20060102"), "checks_"+o.first.AddDate(0, 0, 1).Format("20060102")
	if kept := strings.Join(append(rowsOf(t, o.Store, first), rowsOf(t, o.Store, second)...), "\n"); kept != rows {
		t.Errorf("detached rows are now\n%s\nwere\n%s", kept, rows)
	}
	for _, change := range []string{
		"UPDATE " + first + " SET agent_id = 'x'", "DELETE FROM " + first, "TRUNCATE " + first, "INSERT INTO " + first + " SELECT * FROM checks",
		"UPDATE archived_days SET rows = 1", "DELETE FROM archived_days", "TRUNCATE archived_days",
	} {
		if _, err := o.Reads.Exec(ctx, change); err == nil || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%s: got %v, want a refusal", change, err)
		}
	}
	// Again, it has nothing to do; then the tables go.
	if done, _, err := o.detach(t, nil); err != nil || len(done) != 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
	if done, _, err := o.detach(t, func(d *Options) { d.Drop = true }); err != nil || len(done) != 2 ||
		!slices.Equal(done[0].Steps, []string{"dropped"}) {
		t.Errorf("drop: %+v, %v", done, err)
	}
	if n := count(t, o.Store, "pg_class WHERE relname IN ('"+first+"', '"+second+
		"') AND relnamespace = quote_ident(current_schema())::regnamespace"); n != 0 {
		t.Errorf("%d tables left", n)
	}
	// Nor does a node whose clock is days behind make them anew.
	if err := o.Tidy(ctx, o.first); err != nil || o.attached(t) != 0 {
		t.Errorf("%d archived days are back: %v", o.attached(t), err)
	}
	o.mustBeClean(t)
}

// TestDetachKeepsWhatIsNeeded: no promise loses a row that it may ask for.
func TestDetachKeepsWhatIsNeeded(t *testing.T) {
	o := newOldDays(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	refused := func(before time.Time) {
		t.Helper()
		if _, _, err := o.detach(t, func(d *Options) { d.Before = before }); !errors.Is(err, errStillNeeded) {
			t.Errorf("before %s: got %v", before.Format(time.DateOnly), err)
		}
		if o.attached(t) != 2 {
			t.Fatal("a day left")
		}
	}
	refused(today.AddDate(0, 0, 1))
	refused(today)
	refused(today.AddDate(0, 0, -1)) // 24 hours for keys, and a day for clocks
	// The longest window that was left decides.
	statement(t, o.url, "SELECT raise_horizon(20 * 86400000::bigint)")
	refused(o.before())
	// The database itself refuses, too.
	for _, call := range []string{"SELECT close_day('%s')", "SELECT detach_day('%s', 1, '\\x00')"} {
		if _, err := o.Reads.Exec(t.Context(), fmt.Sprintf(call, today.Format(time.DateOnly))); err == nil ||
			!strings.Contains(err.Error(), "still needed") {
			t.Errorf("%s: %v", call, err)
		}
	}
	statement(t, o.url, "UPDATE horizon SET ms = 0")
	if _, err := o.Reads.Exec(t.Context(), fmt.Sprintf("SELECT detach_day('%s', 1, '\\x00')", o.first.Format(time.DateOnly))); err == nil ||
		!strings.Contains(err.Error(), "not closed") {
		t.Errorf("a day that is not closed: %v", err)
	}
	stray := minimal(newFence(t, o.Store))
	stray.ID = spend.NewID(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	must.Do(t, audittest.Record(t.Context(), o.Store, stray))
	if _, _, err := o.detach(t, nil); err == nil || !strings.Contains(err.Error(), "default partition") || o.attached(t) != 2 {
		t.Errorf("with rows in the default partition: %v", err)
	}
}

// TestDetachAmidWork: readers hold it up, and commits go on meanwhile.
func TestDetachAmidWork(t *testing.T) {
	ctx := t.Context()
	o := newOldDays(t)
	reader := connect(t, o.url)
	tx := must.Get(reader.Begin(ctx))(t)
	must.Get(tx.Exec(ctx, "SELECT 1 FROM checks LIMIT 1"))(t)
	var tries atomic.Int64 // how often the detach was seen to wait, and then not
	working, stop := context.WithCancel(ctx)
	var nodes sync.WaitGroup
	var commits int
	nodes.Go(func() {
		for working.Err() == nil {
			c := minimal(newFence(t, o.Store))
			if err := o.Commit(ctx, []*spend.Check{c}, nil, audittest.Link(1, c)); err != nil {
				t.Errorf("a commit beside a detach: %v", err)
			}
			commits++
		}
	})
	nodes.Go(func() {
		waits := false
		for deadline := time.Now().Add(15 * time.Second); working.Err() == nil && tries.Load() == 0; {
			var n int
			must.Check(t, o.Reads.QueryRow(ctx,
				"SELECT count(*) FROM "+fleet.TestLocks+" WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'checks'::regclass").
				Scan(&n))
			if waits && n == 0 {
				tries.Add(1)
			}
			waits = n > 0
			if time.Now().After(deadline) {
				t.Error("the detach waits on, and commits behind it")
				break
			}
		}
		must.Check(t, tx.Rollback(ctx))
	})
	done, found, err := o.detach(t, nil)
	stop()
	nodes.Wait()
	if err != nil || len(done) != 2 || len(found) > 0 || tries.Load() == 0 || commits == 0 {
		t.Errorf("%+v, %v, %v; gave way %d times, %d commits", done, found, err, tries.Load(), commits)
	}
}

// TestDetachAtOnce has others detach while an archive is written.
func TestDetachAtOnce(t *testing.T) {
	o := newOldDays(t)
	second, months, dry := errTurn, errTurn, errTurn
	done, found, err := o.detach(t, func(d *Options) {
		d.step = func(step string) {
			if step != "reopen" {
				return
			}
			other := Options{URL: d.URL, Dir: d.Dir, Before: d.Before, Now: d.Now, Report: func(Detached) {}}
			second, months = Checks(t.Context(), other), Violations(t.Context(), other)
			other.DryRun = true
			dry = Checks(t.Context(), other)
		}
	})
	if err != nil || len(done) != 2 || len(found) > 0 {
		t.Errorf("the first: %+v, %v, %v", done, found, err)
	}
	if !errors.Is(second, errTurn) || !errors.Is(months, errTurn) || dry != nil {
		t.Errorf("meanwhile: %v, violations %v, dry %v", second, months, dry)
	}
	o.mustBeClean(t)
}

// TestDetachWhatIsProved: a day stays if its rows are not those that were chained, or if its
// archive belongs to another day.
func TestDetachWhatIsProved(t *testing.T) {
	o := newOldDays(t)
	victim := o.checks[5]
	statement(t, o.url, "ALTER TABLE checks DISABLE TRIGGER ALL")
	part := "checks_" + o.first.Format("20060102")
	statement(t, o.url, "ALTER TABLE "+part+" DISABLE TRIGGER ALL")
	change := func(agent string) {
		conn := connect(t, o.url)
		must.Get(conn.Exec(t.Context(), "UPDATE "+part+" SET agent_id = $2 WHERE check_id = $1", [16]byte(victim.ID), agent))(t)
	}
	change("somebody else")
	statement(t, o.url, "ALTER TABLE "+part+" ENABLE TRIGGER ALL")
	_, found, err := o.detach(t, nil)
	if err == nil || len(found) != 1 || !strings.Contains(found[0].String(), victim.ID.Text(spend.PrefixCheck)) || o.attached(t) != 2 {
		t.Fatalf("a day that was altered: %v, %v", found, err)
	}
	// Mended, the row is no longer the archive's row.
	statement(t, o.url, "ALTER TABLE "+part+" DISABLE TRIGGER ALL")
	change(victim.Action.AgentID)
	statement(t, o.url, "ALTER TABLE "+part+" ENABLE TRIGGER ALL")
	if _, _, err := o.detach(t, nil); !errors.Is(err, archive.ErrAltered) || o.attached(t) != 2 {
		t.Fatalf("an archive of other rows: %v", err)
	}
	must.Do(t, os.Remove(archive.ManifestPath(o.dir, archive.ChecksOf(o.first))))
	if _, found, err := o.detach(t, nil); err != nil || len(found) > 0 {
		t.Errorf("after the archive went: %v, %v", found, err)
	}
	statement(t, o.url, "ALTER TABLE checks ENABLE TRIGGER ALL")
	o.mustBeClean(t)
	// The table is not dropped for an archive that is not the one noted.
	rewrite(t, archive.ManifestPath(o.dir, archive.ChecksOf(o.first)), func(m []byte) []byte { return append(m, ' ') })
	if _, _, err := o.detach(t, func(d *Options) { d.Drop = true }); !errors.Is(err, archive.ErrAltered) {
		t.Errorf("dropped for another archive: %v", err)
	}
}

// TestArchivedApprovals: a day on which people were asked is archived once all of that is over; then it has no approvals.
func TestArchivedApprovals(t *testing.T) {
	url := migrated(t)
	s := open(t, url)
	f := newFence(t, s)
	ask := func(days int) *spend.Check {
		c := minimal(f)
		c.ID = spend.NewID(time.Now().AddDate(0, 0, -days))
		c.Decision.Effect = spend.Escalate
		c.Approval = &spend.ApprovalRequest{Required: 1, Expires: 30 * 24 * time.Hour, UseWithin: time.Hour, ActionHash: spend.ActionHash(c)}
		statement(t, url, "SELECT make_partition('"+c.ID.Time().UTC().Format(time.DateOnly)+"')")
		must.Do(t, audittest.Record(t.Context(), s, c))
		return c
	}
	_, old, young := ask(6), ask(5), ask(0)
	day := old.ID.Time().UTC().Format(time.DateOnly)
	db := connect(t, url)
	if _, err := db.Exec(t.Context(), "SELECT close_day('"+day+"')"); err == nil || !strings.Contains(err.Error(), "people may still decide") {
		t.Errorf("it is closed while people are asked: %v", err)
	}
	denial := audit.ApprovalDecisionRequest{
		ApprovalID: old.ID, ActionHash: old.Approval.ActionHash, By: audit.Actor{KeyID: "key_x", Principal: "ann"},
	}
	if got := must.Get(s.Decide(t.Context(), denial))(t); got != audit.DecisionRecorded {
		t.Fatal(got)
	}
	statement(t, url, "SELECT close_day('"+day+"'), detach_day('"+day+"', 1, '')")
	found := must.Get(s.Approvals(t.Context(), []spend.ID{old.ID, young.ID}))(t)
	page, more, err := s.ListApprovals(t.Context(), audit.ApprovalQuery{Limit: 1}) // behind it is the older one
	if len(found) != 1 || found[0].Check.ID != young.ID || err != nil || len(page) != 1 || !more {
		t.Errorf("found %d, listed %d, %v, %v", len(found), len(page), more, err)
	}
}
