package audittest

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// redemption returns the first step of a check.
func redemption(f spend.Fence, of *spend.Check) *spend.Outcome {
	return &spend.Outcome{
		ID: spend.NewOutcomeID(now()), CheckID: of.ID, Step: 1, Status: spend.Redeemed, Release: spend.ReleaseNone, KeyID: "key_1",
		Principal: "psp",
		RequestID: "req_0123456789ab", Fence: f, Check: of, RedeemBy: now().Add(time.Minute), Replay: spend.RedemptionReplay("key_1", "k"),
	}
}

// step returns a later step of a check.
func step(f spend.Fence, of *spend.Check, number int, status spend.Status) *spend.Outcome {
	o := report(f, of, 1, status, true)
	if o.Step = number; status == spend.InDoubt || status == spend.Redeemed {
		o.Number, o.Amount, o.Release, o.MayRelease = 0, spend.Amount{}, spend.ReleaseNone, false
	}
	o.RedeemBy = now().Add(time.Minute)
	return o
}

// redemptionsAreSteps: a check can be redeemed only as its first step, be in doubt only after that,
// and be reported on after both (S74, G14).
func redemptionsAreSteps(t *testing.T, s Subject) {
	f := fence(t, s)
	checks := []*spend.Check{newCheck(f), newCheck(f), newCheck(f), newCheck(f)}
	mustCommit(t, s, checks...)
	mustBeUntouched(t, s, checks, checks)
	redeemed := redemption(f, checks[0])
	mustReport(t, s, redeemed, report(f, checks[1], 1, spend.Voided, false))
	late := redemption(f, checks[2])
	late.RedeemBy = now().Add(-time.Minute)
	skips := step(f, checks[0], 2, spend.Voided)
	skips.Number = 2
	for _, refused := range []*spend.Outcome{
		redemption(f, checks[0]), redemption(f, checks[1]), step(f, checks[0], 2, spend.Redeemed), step(f, checks[1], 2, spend.Redeemed), late,
		step(f, checks[0], 1, spend.Voided), step(f, checks[0], 3, spend.Voided), skips, step(f, checks[1], 2, spend.InDoubt),
		step(f, checks[2], 1, spend.InDoubt),
	} {
		mustRefuseReport(t, s, nil, []*spend.Outcome{refused}, refused.Check)
	}
	mustBeUntouched(t, s, checks, checks[2:])
	onlyLate(t, s, f)

	doubt := step(f, checks[0], 2, spend.InDoubt)
	mustReport(t, s, doubt)
	if d, err := s.Doubts(t.Context(), 10); err != nil || d.InDoubt != 1 || len(d.Due) != 0 {
		t.Errorf("doubts: %+v, %v", d, err)
	}
	mustRefuseReport(t, s, nil, []*spend.Outcome{step(f, checks[0], 3, spend.InDoubt)}, checks[0])
	mustReport(t, s, step(f, checks[0], 3, spend.Voided))
	if d, err := s.Doubts(t.Context(), 10); err != nil || d.InDoubt != 0 {
		t.Errorf("doubts: %+v, %v", d, err)
	}
	steps := reported(t, s, []*spend.Outcome{redeemed})
	redeemed.Check, redeemed.RedeemBy = nil, time.Time{}
	if len(steps) != 3 || !reflect.DeepEqual(steps[0], redeemed) || steps[1].Status != spend.InDoubt || steps[2].Number != 1 {
		t.Errorf("steps: %+v", steps)
	}
}

// onlyLate: of two redemptions in one commit, one of which is too late, only that one is refused, in either order.
func onlyLate(t *testing.T, s Subject, f spend.Fence) {
	for i := range 2 {
		checks := []*spend.Check{newCheck(f), newCheck(f)}
		mustCommit(t, s, checks...)
		var both []*spend.Outcome
		for _, c := range checks {
			both = append(both, redemption(f, c))
		}
		both[i].RedeemBy = now().Add(-time.Minute)
		err := RecordAll(t.Context(), s, nil, both...)
		refused, ok := errors.AsType[*audit.ReportedError](err)
		if want := []spend.ID{checks[i].ID}; !ok || !slices.Equal(refused.CheckIDs, want) || !slices.Equal(refused.Late, want) {
			t.Errorf("one of two is late: %+v, %v", refused, err)
		}
	}
}

// mustBeUntouched looks up checks, and one that does not exist, in both orders.
func mustBeUntouched(t *testing.T, s Subject, all, want []*spend.Check) {
	t.Helper()
	ids := []spend.ID{spend.NewID(now())}
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	for range 2 {
		found := get(s.Untouched(t.Context(), ids))(t)
		slices.SortFunc(found, func(a, b *spend.Check) int { return a.ID.Compare(b.ID) })
		if !reflect.DeepEqual(found, want) {
			t.Errorf("untouched: %+v, want %+v", found, want)
		}
		slices.Reverse(ids)
	}
}

// redemptionsTogether: steps of several checks in one commit change only the notes of their own
// checks.
func redemptionsTogether(t *testing.T, s Subject) {
	f := fence(t, s)
	var checks []*spend.Check
	for range 7 {
		checks = append(checks, newCheck(f))
	}
	mustCommit(t, s, checks...)
	open, due, closed, plain, under, last := checks[0], checks[1], checks[2], checks[3], checks[4], checks[5]
	settled := checks[6]
	mustReport(t, s, redemption(f, open), redemption(f, due), redemption(f, closed), report(f, settled, 1, spend.Failed, true))
	mustReport(t, s, step(f, due, 2, spend.InDoubt), step(f, closed, 2, spend.Voided), report(f, plain, 1, spend.Voided, true),
		redemption(f, under), redemption(f, last),
		report(f, settled, 2, spend.Voided, true))
	if d, err := s.Doubts(t.Context(), 9); err != nil || d.InDoubt != 1 || len(d.Due) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if n := s.Count(t, "SELECT count(*) FROM redemptions_open"); n != 4 {
		t.Errorf("%d are noted to be without an outcome, want 4", n)
	}
}

// redemptionsAlone: a commit of redemptions is recorded completely or not at
// all: it is refused because of checks that were already redeemed or come too late.
func redemptionsAlone(t *testing.T, s Subject) {
	f := fence(t, s)
	var checks []*spend.Check
	var all []*spend.Outcome
	for i := range 5 {
		checks = append(checks, newCheck(f))
		all = append(all, redemption(f, checks[i]))
	}
	all[0].Principal, all[0].Replay = "", spend.Hash{}
	mustCommit(t, s, checks...)
	mustReport(t, s, all[:2]...)
	again, late := redemption(f, checks[1]), redemption(f, checks[2])
	late.RedeemBy = now().Add(-time.Minute)
	mustRefuseReport(t, s, nil, []*spend.Outcome{all[3], again, late, all[4]}, checks[1], checks[2])
	if refused, ok := errors.AsType[*audit.ReportedError](RecordAll(t.Context(), s, nil, late, again)); !ok ||
		!slices.Equal(refused.Late, []spend.ID{checks[2].ID}) {
		t.Errorf("too late are %+v", refused)
	}
	mustReport(t, s, all[3], all[4])
	recorded := slices.Concat(all[:2], all[3:])
	for _, o := range recorded {
		o.Check, o.RedeemBy = nil, time.Time{}
	}
	byCheck := func(a, b *spend.Outcome) int { return a.CheckID.Compare(b.CheckID) }
	found := reported(t, s, all)
	slices.SortFunc(found, byCheck)
	slices.SortFunc(recorded, byCheck)
	if !reflect.DeepEqual(found, recorded) {
		t.Errorf("recorded are %+v, want %+v", found, recorded)
	}
	if n := s.Count(t, "SELECT count(*) FROM redemptions_open"); n != 4 {
		t.Errorf("%d are noted to be without an outcome, want 4", n)
	}
}

// redemptionsRace: of several candidates for the first step of a check, one is recorded.
func redemptionsRace(t *testing.T, s Subject) {
	for range 10 {
		first := fence(t, s)
		check := newCheck(first)
		mustCommit(t, s, check)
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			f := fence(t, s)
			o := redemption(f, check)
			if i%2 == 1 {
				o = report(f, check, 1, spend.Voided, true)
			}
			wg.Go(func() { errs[i] = RecordAll(t.Context(), s, nil, o) })
		}
		wg.Wait()
		recorded := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err != nil })
		if steps := reported(t, s, []*spend.Outcome{{CheckID: check.ID}}); len(recorded) != 1 || len(steps) != 1 {
			t.Fatalf("%v, and %d steps", errs, len(steps))
		}
	}
}
