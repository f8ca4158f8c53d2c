package audittest

import (
	"context"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// keyStopIsFinal stops what a key was allowed while commits are in progress, as freezeIsFinal freezes.
func keyStopIsFinal(t *testing.T, s Subject) {
	k := newKey()
	must(t, s.CreateKey(t.Context(), actor(), k))
	stopIsFinal(t, s, fence(t, s), audit.ErrStaleStops, func(ctx context.Context) error {
		_, err := s.UpdateKey(ctx, actor(), k.ID, audit.KeyChange{Active: new(false), Stops: true})
		return err
	})
}

// keyStops counts what a stop of a key stopped, and finds what it left open. A change that keeps what is open, and one that
// makes the key active again, stop nothing (S87).
func keyStops(t *testing.T, s Subject) {
	ctx := t.Context()
	k := newKey()
	must(t, s.CreateKey(ctx, actor(), k))
	f := fence(t, s)
	by := func(c *spend.Check, open bool) *spend.Check {
		if c.KeyID = k.ID.Text(spend.PrefixKey); open {
			c.RedeemBy = now().Add(time.Hour)
		}
		return c
	}
	open, redeemed, other := by(newCheck(f), true), by(newCheck(f), true), newCheck(f)
	other.RedeemBy = now().Add(time.Hour)
	plain, reported := by(newCheck(f), false), by(newCheck(f), false)
	mustCommit(t, s, open, redeemed, other, plain, reported, by(blocked(newCheck(f)), false))
	mustReport(t, s, redemption(f, redeemed), report(f, reported, 1, spend.Executed, true))
	change := func(c audit.KeyChange) *audit.Key {
		t.Helper()
		changed, err := s.UpdateKey(ctx, actor(), k.ID, c)
		must(t, err)
		return changed
	}
	count := func(stop int64, want audit.Stopped) {
		t.Helper()
		if n, err := s.CountStopped(ctx, k.ID.Text(spend.PrefixKey), stop, now().Add(-time.Hour)); err != nil || n != want {
			t.Errorf("stopped %+v, %v; want %+v", n, err, want)
		}
	}
	if kept := change(audit.KeyChange{Active: new(false)}); kept.Stopped != 0 || kept.Active {
		t.Errorf("kept open: %+v", kept)
	}
	stopped := change(audit.KeyChange{Active: new(false), Stops: true})
	changes, err := s.ConfigChanges(ctx, 0)
	must(t, err)
	if stopped.Stopped == 0 || changes.Stops != stopped.Stopped || changes.Generation != stopped.Stopped ||
		changes.Keys[0].Stopped != stopped.Stopped {
		t.Errorf("stopped: %+v; a node hears of %+v", stopped, changes)
	}
	count(stopped.Stopped, audit.Stopped{Checks: 2, Voided: 1})
	mustStayOpen(t, s, open, other)
	if again := change(audit.KeyChange{Active: new(true)}); again.Stopped != stopped.Stopped || !again.Active {
		t.Errorf("active again: %+v", again)
	}
	approver := spend.GrantsChange{Grants: spend.Grants{Role: spend.Approver}, Named: []string{spend.MemberRole}}
	granter := change(audit.KeyChange{Grants: approver})
	changes, err = s.ConfigChanges(ctx, changes.Generation)
	must(t, err)
	if granter.Stopped != stopped.Stopped || granter.GranterSince != changes.Generation || changes.Keys[0].GranterSince != changes.Generation {
		t.Errorf("may grant since: %+v; a node hears of %+v", granter, changes)
	}
	if same := change(audit.KeyChange{Name: new("n")}); same.GranterSince != granter.GranterSince {
		t.Errorf("renamed: %+v", same)
	}
	f.Stops = lastStop(t, s) // that the key may grant
	later := by(newCheck(f), true)
	mustCommit(t, s, later)
	page, err := s.OpenAllows(ctx, other.ID, 10)
	must(t, err)
	if at := slices.IndexFunc(page, func(a audit.OpenAllow) bool { return a.Check == later.ID }); at < 0 ||
		page[at] != (audit.OpenAllow{Check: later.ID, KeyID: later.KeyID, Stops: f.Stops}) {
		t.Errorf("open are %+v", page)
	}
	void := report(f, open, 1, spend.Voided, true)
	void.KeyID, void.Payment.Flags = spend.SystemKey, []spend.Flag{spend.FlagStopped}
	mustReport(t, s, void)
	count(stopped.Stopped, audit.Stopped{Checks: 2, Voided: 1})
	mustStayOpen(t, s, other, later)
}

// mustStayOpen demands that only a redemption carries out exactly these checks, and that nobody redeemed them.
func mustStayOpen(t *testing.T, s Subject, want ...*spend.Check) {
	t.Helper()
	var got []spend.ID
	for after := (spend.ID{}); ; {
		page, err := s.OpenAllows(t.Context(), after, 1)
		must(t, err)
		if len(page) == 0 {
			break
		}
		after = page[0].Check
		got = append(got, after)
	}
	slices.SortFunc(want, func(a, b *spend.Check) int { return slices.Compare(a.ID[:], b.ID[:]) })
	if !slices.Equal(got, idsOf(want)) {
		t.Errorf("open are %v, want %v", got, idsOf(want))
	}
}
