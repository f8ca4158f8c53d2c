package verify_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// changeZones notes that a release of the time zones came into force.
func (tr *trail) changeZones(release, replaces string) {
	tr.t.Helper()
	must.Do(tr.t, tr.store.ChangeZones(tr.t.Context(), audit.Actor{Principal: "spendgate"}, replaces, release))
}

// inWindow is a change for take: of a window that begins then, in a zone whose clocks are ahead by offset.
func inWindow(begin time.Time, offset, length time.Duration) func(*spend.Check, *spend.Charge) {
	return func(_ *spend.Check, charge *spend.Charge) {
		charge.Counter.StartMS, charge.OffsetMS = begin.Add(offset).UnixMilli(), offset.Milliseconds()
		charge.EndMS = begin.Add(length).UnixMilli()
	}
}

// TestRangeAtMovedWindow: a release of the time zones moves a window by an hour, and a range begins or ends
// where the window does by either release. What the other release took lies outside the range and is in
// the counter.
func TestRangeAtMovedWindow(t *testing.T) {
	t.Parallel()
	const offset, hour, day = -8 * time.Hour, time.Hour, 24 * time.Hour
	for name, of := range map[string]struct {
		begin func(between time.Time) time.Time // of the window, by the older release
		moved time.Duration
		bound func(o *verify.Options, at time.Time)
	}{
		"begin":     {func(at time.Time) time.Time { return at.Add(-hour) }, hour, func(o *verify.Options, at time.Time) { o.From = at }},
		"end":       {func(at time.Time) time.Time { return at.Add(-day) }, hour, func(o *verify.Options, at time.Time) { o.To = at }},
		"begins on": {func(at time.Time) time.Time { return at }, -hour, func(o *verify.Options, at time.Time) { o.From = at }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrail(t)
			tr.changeZones("2025c-1", "")
			tr.capAt("251", time.Now())
			between := time.Now().Truncate(time.Millisecond)
			windows := []func(*spend.Check, *spend.Charge){
				inWindow(of.begin(between), offset, day), inWindow(of.begin(between).Add(of.moved), offset-of.moved, day),
			}
			if of.moved < 0 { // nodes of the newer release were there first
				slices.Reverse(windows)
			}
			tr.changeZones("2026f-2", "2025c-1")
			var taken *spend.Check
			for i, at := range []time.Time{between.Add(-9 * time.Millisecond), between.Add(9 * time.Millisecond)} {
				taken = tr.took("20", func(c *spend.Check, charge *spend.Charge) {
					c.ID = spend.NewID(at)
					windows[i](c, charge)
				})
			}
			for _, off := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
				tr.finds(func(o *verify.Options) { of.bound(o, between.Add(off)) })
			}
			tr.bothSay("in all")
			tr.exec("UPDATE budget_counters SET used = used + 1 WHERE rule_id = 'cap'")
			altered := counter("altered", taken, 0)
			tr.bothSay("altered", altered)
			tr.finds(func(o *verify.Options) { o.From, o.To = between.Add(-2*day), between.Add(3*day) }, altered)
		})
	}
}

// TestRangeWithoutZones: where no release changed, the windows are compared that begin with the range.
func TestRangeWithoutZones(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.capAt("251", time.Now())
	begin := time.Now().Truncate(time.Millisecond)
	time.Sleep(2 * time.Millisecond)
	c := tr.took("20", inWindow(begin, -8*time.Hour, 24*time.Hour))
	tr.exec("UPDATE budget_counters SET used = used + 1 WHERE rule_id = 'cap'")
	tr.finds(func(o *verify.Options) { o.From = begin }, counter("altered", c, 0))
	tr.finds(func(o *verify.Options) { o.From = begin.Add(time.Millisecond) })
	tr.changeZones("2026f-2", "2025c-1") // which is not in force
	tr.finds(func(o *verify.Options) { o.From = begin }, counter("altered", c, 0))
}

// TestMovedWindowOfAnArchive: a window was moved over midnight, and the archive of the day before, in which
// the older release took from it, is not at hand.
func TestMovedWindowOfAnArchive(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	now := time.Now().UTC()
	midnight := time.Date(now.Year(), now.Month()-3, 6, 0, 0, 0, 0, time.UTC) // after the archived day
	tr.exec("SELECT make_partition('%s')", midnight.AddDate(0, 0, -1).Format(time.DateOnly))
	tr.capAt("251", midnight.AddDate(0, 0, -2))
	const offset, year = -8 * time.Hour, 365 * 24 * time.Hour
	tr.took("200", func(c *spend.Check, charge *spend.Charge) {
		c.ID = spend.NewID(midnight.Add(-30 * time.Minute))
		c.Pass.ClaimedMS, c.Pass.UntilMS = c.ID.Time().UnixMilli(), c.ID.Time().UnixMilli()+300_000
		inWindow(midnight.Add(-time.Hour), offset, year)(c, charge)
	})
	tr.changeZones("2025c-1", "")
	tr.changeZones("2026f-2", "2025c-1")
	a := newArchivedIn(t, tr)
	a.took("51", inWindow(midnight, offset-time.Hour, year)) // with which the window is exhausted
	a.exec("SELECT sequence_events(1000)")
	a.named(t, true, map[string]tampering{
		"at hand": {func(*archived) {}, nil},
		"not at hand": {
			func(a *archived) { must.Do(a.t, os.Remove(a.day.manifest)) },
			[]string{`unchecked counter of budget "cap"`, `unchecked counter of budget "ever"`, "unchecked day DAY"},
		},
	})
}

// TestTamperedZones: both verifiers follow changes of the time zones, and name those that were altered or
// removed.
func TestTamperedZones(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.changeZones("2025c-1", "")
	tr.changeZones("2026f-2", "2025c-1")
	tr.sign()
	for tamper, want := range map[string]string{
		"SELECT": "",
		"UPDATE changes SET details = replace(details, '2026f-2', '2025c-1') WHERE seq = 5": "altered change 5 of the configuration",
		"UPDATE changes SET at = at - interval '1 hour' WHERE seq = 4":                      "altered change 4 of the configuration",
		"UPDATE changes SET subject = 'capped' WHERE seq = 5":                               "altered change 5 of the configuration",
		"UPDATE changes SET details = '2026f-2' WHERE seq = 5":                              "altered change 5 of the configuration",
		"DELETE FROM changes WHERE seq = 4":                                                 "removed change 4 of the configuration",
	} {
		tr.bothFind("changes", tamper, slices.DeleteFunc([]string{want}, func(s string) bool { return s == "" })...)
	}
	tr.exec("DELETE FROM changes WHERE seq = 5")
	tr.bothHeld("removed change 5 of the configuration")
	if found, _, err := tr.verify(nil); err != nil || strings.Join(found, "") != "" {
		t.Errorf("only a checkpoint tells: %v, %v", found, err)
	}
}
