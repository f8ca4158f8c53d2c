package postgres

import (
	"slices"
	"testing"
	"time"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/fleet"
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
	url := fleet.TestSchema(t)
	o := &oldDays{Store: open(t, url, true), url: url, dir: t.TempDir(), first: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -12)}
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
		if err := o.Commit(t.Context(), checks, nil, audittest.Link(1, checks...)); err != nil {
			t.Fatal(err)
		}
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

// detach runs Detach and returns what it reported and found.
func (o *oldDays) detach(t *testing.T, change func(*DetachOptions)) (done []Detached, found []verify.Finding, err error) {
	t.Helper()
	options := DetachOptions{
		URL: o.url, Dir: o.dir, Before: o.before(), Now: time.Now(),
		Report: func(d Detached) { done = append(done, d) },
		Found:  func(f verify.Finding) { found = append(found, f) },
	}
	if change != nil {
		change(&options)
	}
	err = Detach(t.Context(), options)
	return done, found, err
}

// snapshot is one of this moment, for the caller to close.
func (o *oldDays) snapshot(t *testing.T) *Snapshot {
	t.Helper()
	s, err := OpenSnapshot(t.Context(), o.url, 2)
	if err != nil {
		t.Fatal(err)
	}
	return s
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
	summary, err := verify.Verify(t.Context(), verify.Options{
		Evidence: s, Archives: dir, To: to, Workers: 2, SliceSize: 8, Found: func(f verify.Finding) { found = append(found, f.String()) },
	})
	if err != nil {
		t.Fatal(err)
	}
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
