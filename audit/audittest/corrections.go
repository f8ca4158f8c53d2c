package audittest

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// following returns a report that corrects another.
func following(before *spend.Outcome, status spend.Status, text string) *spend.Outcome {
	o := report(before.Fence, before.Check, before.Number+1, status, true)
	o.Follows = before
	return moved(o, text, true)
}

// standing is a report on a check of 100, and the expected use of a counter that it shares with
// another check.
type standing struct {
	status spend.Status
	moved  string
	used   string
	count  int64
}

// outcomesFollow: after any sequence of reports, the counters correspond to the last one, and the
// check is a pass unless the last report gives it back (S61).
func outcomesFollow(t *testing.T, s Subject) {
	f := fence(t, s)
	all := []standing{
		{spend.Executed, "100", "200", 2},
		{spend.Voided, "0", "100", 1},
		{spend.Executed, "40", "140", 2},
		{spend.Executed, "250", "350", 2},
		{spend.Failed, "0", "100", 1},
	}
	for i, first := range all {
		for j, second := range all {
			subject := fmt.Sprintf("[%d]", len(all)*i+j)
			check := hundred(f, subject)
			mustCommit(t, s, check, hundred(f, subject))
			o := moved(report(f, check, 1, first.status, true), first.moved, true)
			mustReport(t, s, o)
			mustStand(t, s, check, first)
			o = following(o, second.status, second.moved)
			mustReport(t, s, o)
			mustStand(t, s, check, second)
			mustReport(t, s, following(o, first.status, first.moved))
			mustStand(t, s, check, first)
		}
		// A report by a key that may not release changes nothing.
		check := hundred(f, fmt.Sprintf("[%d]", -1-i))
		mustCommit(t, s, check)
		pending := moved(report(f, check, 1, first.status, false), first.moved, false)
		mustReport(t, s, pending)
		mustStand(t, s, check, standing{spend.Executed, "100", "100", 1})
		mustReport(t, s, following(pending, spend.Voided, ""))
		mustStand(t, s, check, standing{spend.Voided, "0", "0", 0})
	}
}

// outcomesOfEndedWindows: the counter of an ended window follows reports and corrections as long as
// it exists; they change no other counter.
func outcomesOfEndedWindows(t *testing.T, s Subject) {
	f := fence(t, s)
	ended, open := charge("day", "[]", "100"), charge("day", "[]", "100")
	ended.Counter.StartMS, ended.EndMS = now().Add(-2*time.Hour).UnixMilli(), now().Add(-time.Hour).UnixMilli()
	check := charged(newCheck(f), ended)
	check.Action.Amount = amount("100")
	mustCommit(t, s, check, charged(newCheck(f), open))
	o := moved(report(f, check, 1, spend.Voided, true), "0", true)
	mustReport(t, s, o)
	mustUse(t, s, ended, "0", 0)
	for _, next := range []standing{{spend.Executed, "40", "40", 1}, {spend.Executed, "250", "250", 1}, {spend.Failed, "0", "0", 0}} {
		o = following(o, next.status, next.moved)
		mustReport(t, s, o)
		mustUse(t, s, ended, next.used, next.count)
		mustUse(t, s, open, "100", 1)
	}
}

// hundred returns a check of 100 that takes from counters of every kind.
func hundred(f spend.Fence, subject string) *spend.Check {
	day, times, rolling := charge("day", subject, "100"), charge("times", subject, "0"), charge("rolling", subject, "100")
	times.Limited, times.NoCurrency = false, true
	rolling.Counter.StartMS, rolling.Counter.BucketMS = 6_000_000, 60_000
	check := charged(newCheck(f), day, times, rolling)
	check.Action.Amount = amount("100")
	return check
}

func mustStand(t *testing.T, s Subject, check *spend.Check, want standing) {
	t.Helper()
	mustUse(t, s, check.Charges[0], want.used, want.count)
	mustUse(t, s, check.Charges[1], "0", want.count)
	mustUse(t, s, check.Charges[2], want.used, want.count)
	state := audit.PassReleasable
	if want.status != spend.Executed {
		state = audit.PassReleased
	}
	states, err := s.PassStates(t.Context(), []spend.ID{check.ID})
	live, liveErr := s.LivePasses(t.Context(), []spend.Hash{check.Fingerprint}, spend.ID{}, now().UnixMilli(), spend.Block)
	isLive := live[check.Fingerprint] == livePass(check)
	if err = errors.Join(err, liveErr); err != nil || states[check.ID] != state || isLive != (state == audit.PassReleasable) {
		t.Errorf("%s: state %v, live %v, %v, want %v", want.status, states, live, err, state)
	}
}

// useFollows: if an approval's use is executed after all, it is a pass again, and so is the check
// that asked.
func useFollows(t *testing.T, s Subject) {
	f := fence(t, s)
	asked := asking(f, 1)
	mustCommit(t, s, asked)
	mustDecide(t, s, decision(asked, "bob", true), audit.DecisionRecorded)
	use := using(f, asked)
	mustCommit(t, s, use)
	o := report(f, use, 1, spend.Voided, true)
	mustReport(t, s, o)
	mustReport(t, s, following(o, spend.Executed, "1"))
	states, err := s.PassStates(t.Context(), []spend.ID{asked.ID, use.ID})
	want := map[spend.ID]audit.PassState{asked.ID: audit.PassAsking, use.ID: audit.PassReleasable}
	if err != nil || !maps.Equal(states, want) {
		t.Errorf("got %v, %v", states, err)
	}
}
