package audittest

import (
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// RunRestored tests what ends when restore treats a fresh store as restored from a backup, whatever
// the clock says: it may be behind the backup's newest check, or ahead (G13, G14).
func RunRestored(t *testing.T, s Subject, restore func(*testing.T) audit.Restored) {
	f := fence(t, s)
	mustCommit(t, s, newCheck(f))
	time.Sleep(10 * time.Millisecond)
	behind := newCheck(f) // by a clock that is behind
	time.Sleep(10 * time.Millisecond)
	restore(t)
	f = fence(t, s)
	behind.Fence = f
	mustCommit(t, s, behind)
	mustRefuseReport(t, s, nil, []*spend.Outcome{redemption(f, behind)}, behind)
	pending, approved, used, denied := asking(f, 1), asking(f, 1), asking(f, 1), asking(f, 1)
	lapsed, unused := asking(f, 1), asking(f, 1)
	lapsed.Approval.Expires, unused.Approval.UseWithin = time.Second, time.Second
	mustCommit(t, s, pending, approved, used, denied, lapsed, unused)
	for _, c := range []*spend.Check{approved, used, unused} {
		mustDecide(t, s, decision(c, "bob", true), audit.DecisionRecorded)
	}
	mustDecide(t, s, decision(denied, "bob", false), audit.DecisionRecorded)
	hook := audit.Webhook{ID: spend.NewID(now()), URL: "http://x", EventTypes: audit.EventTypes()[:1], Active: true, CreatedAt: now()}
	must(t, s.CreateWebhook(t.Context(), actor(), &hook, "secret", 0))
	newest := newCheck(f)
	newest.ID = spend.NewID(now().Add(time.Hour))
	mustCommit(t, s, using(f, used), newest)
	must(t, s.CreateSession(t.Context(), newSession("a", "ana"))) // which may have been ended after the backup
	time.Sleep(1100 * time.Millisecond)
	for _, want := range [][2]int{{4, 1}, {0, 0}} {
		if r := restore(t); r.Approvals != want[0] || r.Webhooks != want[1] || r.Last != newest.ID {
			t.Errorf("%+v, want %d approvals that end, and webhooks", r, want)
		}
	}
	if in := inForce(t, s, "a"); in != "" {
		t.Errorf("session %q is in force", in)
	}
	if leases := get(s.LeaseWebhooks(t.Context(), spend.NewID(now()), nil, time.Minute))(t); leases.Disabled != 1 || len(leases.Taken) != 0 {
		t.Errorf("webhooks %+v", leases)
	}
	last := get(s.Changes(t.Context(), audit.ChangeQuery{KeyID: hook.ID.Text(spend.PrefixWebhook), Limit: 9}))(t)
	if n := len(last); n != 2 || last[1].Kind != audit.WebhookChanged || last[1].By.Principal != audit.Restorer().Principal {
		t.Errorf("recorded of the webhook: %+v", last)
	}
	mustStayFrozen(t, s, restore)
	must(t, s.Exec(t, s.DelayExpiries))
	was := map[string]string{}
	for _, c := range expiries(t, s) {
		if c.By.Principal != audit.Restorer().Principal {
			t.Errorf("recorded by %+v", c.By)
		}
		was[c.Subject] = c.Details
	}
	f = fence(t, s)
	for _, c := range []*spend.Check{pending, approved, lapsed, unused} {
		mustBe(t, s, c, audit.ApprovalExpired)
		mustDecide(t, s, decision(c, "cleo", true), audit.ApprovalDecisionResult(audit.ApprovalExpired))
		mustRefuse(t, s, using(f, c), audit.ApprovalError{Status: audit.ApprovalExpired})
		if was[c.ID.Text(spend.PrefixApproval)] == "" {
			t.Errorf("no expiry is recorded of %v", c.ID)
		}
	}
	mustBe(t, s, used, audit.ApprovalUsed)
	mustBe(t, s, denied, audit.ApprovalDenied)
	if n := s.Count(t, "SELECT count(*) FROM approval_deadlines"); n != 0 || len(was) != 4 {
		t.Errorf("%d deadlines are left, and %d expiries recorded", n, len(was))
	}
	mustRefuseReport(t, s, nil, []*spend.Outcome{redemption(f, newest)}, newest)
	after := newCheck(f)
	after.ID = spend.NewID(newest.ID.Time().Add(time.Millisecond))
	mustCommit(t, s, after)
	mustReport(t, s, redemption(f, after))
}

// mustStayFrozen demands that everything is frozen after a restore, by one freeze, and again after the restore that follows its
// release (G16).
func mustStayFrozen(t *testing.T, s Subject, restore func(*testing.T) audit.Restored) {
	t.Helper()
	active := func() (frozen []audit.Freeze) {
		frozen, _, err := s.ListFreezes(t.Context(), audit.FreezeQuery{Active: new(true), Limit: 10})
		must(t, err)
		return frozen
	}
	before := active()
	if len(before) != 1 || before[0].Scope.Kind != audit.FreezeAll || before[0].By.Principal != audit.Restorer().Principal {
		t.Fatalf("frozen: %+v", before)
	}
	changes, err := s.ConfigChanges(t.Context(), 0)
	must(t, err)
	if changes.Stops != before[0].Seq {
		t.Errorf("commits are compared with stop %d, not %d", changes.Stops, before[0].Seq)
	}
	must(t, s.ReleaseFreeze(t.Context(), admin(), audit.FreezeRelease{Freeze: &before[0], Keys: changes.Generation, Note: "compared"}))
	if r := restore(t); len(active()) != 1 || active()[0].ID != r.Freeze || r.Freeze == before[0].ID {
		t.Errorf("after the release and another restore: %+v", active())
	}
}
