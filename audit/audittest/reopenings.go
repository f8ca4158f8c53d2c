package audittest

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// approverKey makes the key of a person who decides.
func approverKey(t *testing.T, s Subject, principal string) *audit.Key {
	t.Helper()
	k := newKey()
	k.Grants = spend.Grants{Role: spend.Approver, Principal: principal}
	must(t, s.CreateKey(t.Context(), actor(), k))
	return k
}

// decisionWith returns a decision that is made with a key.
func decisionWith(k *audit.Key, asked *spend.Check, approves bool) audit.ApprovalDecisionRequest {
	d := decision(asked, k.Grants.Principal, approves)
	d.By.KeyID = k.ID.Text(spend.PrefixKey)
	return d
}

// setActive changes whether a key is active, and returns the last stop after that.
func setActive(t *testing.T, s Subject, k *audit.Key, active bool) (stops int64) {
	t.Helper()
	_, err := s.UpdateKey(t.Context(), actor(), k.ID, audit.KeyChange{Active: &active})
	must(t, err)
	return lastStop(t, s)
}

// mustBeReopened demands that an approval is pending for so many people since a moment, with its time anew.
func mustBeReopened(t *testing.T, s Subject, asked *spend.Check, since time.Time, missing int, void ...bool) {
	t.Helper()
	a := mustBe(t, s, asked, audit.ApprovalPending)
	got := make([]bool, len(a.Decisions))
	for i := range a.Decisions {
		got[i] = a.Decisions[i].Void
	}
	if !slices.Equal(got, void) || a.Missing().People() != missing || a.ReopenedAt.Before(since.Add(-clockTolerance)) ||
		a.ExpiresAt.Sub(a.ReopenedAt) != asked.Approval.Expires || !a.ApprovedAt.IsZero() {
		t.Errorf("reopened: %+v; %d are missing", a, a.Missing().People())
	}
	page, _, err := s.ListApprovals(t.Context(), audit.ApprovalQuery{Status: audit.ApprovalPending, Soonest: true, Limit: 100})
	at := slices.IndexFunc(page, func(b *audit.Approval) bool { return b.Check.ID == asked.ID })
	if err != nil || at < 0 || !page[at].ExpiresAt.Equal(a.ExpiresAt) {
		t.Errorf("waiting are %+v, %v", page, err)
	}
}

// approvalReopens: what a key approved and nobody used counts no more once the key is deactivated, and people are asked anew
// (S92). What was used, or is at its end, stays, and so do denials.
func approvalReopens(t *testing.T, s Subject) {
	f := fence(t, s)
	bob, cleo := approverKey(t, s, "bob"), approverKey(t, s, "cleo")
	both, half, used, denied, other := asking(f, 2), asking(f, 2), asking(f, 1), asking(f, 2), asking(f, 1)
	mustCommit(t, s, both, half, used, denied, other)
	for _, d := range []audit.ApprovalDecisionRequest{
		decisionWith(bob, both, true), decisionWith(cleo, both, true), decisionWith(bob, half, true), decisionWith(bob, used, true),
		decisionWith(bob, denied, true), decisionWith(cleo, denied, false), decisionWith(cleo, other, true),
	} {
		mustDecide(t, s, d, audit.DecisionRecorded)
	}
	use := using(f, used)
	mustCommit(t, s, use)
	started := now()
	f.Stops = setActive(t, s, bob, false)
	mustBeReopened(t, s, both, started, 1, true, false)
	mustBeReopened(t, s, half, started, 2, true)
	if a := mustBe(t, s, used, audit.ApprovalUsed); a.UsedBy != use.ID || !a.ReopenedAt.IsZero() {
		t.Errorf("used: %+v", a)
	}
	mustBe(t, s, denied, audit.ApprovalDenied)
	mustBe(t, s, other, audit.ApprovalApproved)
	mustRefuse(t, s, using(f, both), audit.ApprovalError{Status: audit.ApprovalPending})
	mustPendLongest(t, s, both)

	changes, err := s.Changes(t.Context(), audit.ChangeQuery{Limit: 100})
	must(t, err)
	var recorded []audit.Change
	for _, c := range changes {
		if c.Kind == audit.ApprovalReopening {
			recorded = append(recorded, c)
		}
	}
	slices.SortFunc(recorded, func(a, b audit.Change) int { return len(a.Details) - len(b.Details) }) // pending is shorter than approved
	if len(recorded) != 2 {
		t.Fatalf("recorded %+v", recorded)
	}
	var details struct {
		Was  audit.ApprovalStatus
		Keys []string
	}
	must(t, json.Unmarshal([]byte(recorded[1].Details), &details))
	if recorded[1].Subject != both.ID.Text(spend.PrefixApproval) || recorded[1].By != actor() ||
		recorded[1].Hash != both.Approval.ActionHash || details.Was != audit.ApprovalApproved ||
		!slices.Equal(details.Keys, []string{bob.ID.Text(spend.PrefixKey)}) {
		t.Errorf("recorded %+v", recorded[1])
	}

	// A key that is active again decides again; what it says of others stays.
	setActive(t, s, bob, false)
	f.Stops = setActive(t, s, bob, true)
	mustBeReopened(t, s, half, started, 2, true)
	mustDecide(t, s, decisionWith(bob, half, true), audit.DecisionRecorded)
	mustDecide(t, s, decisionWith(bob, half, true), audit.DecisionReplayed)
	mustDecide(t, s, decisionWith(cleo, half, true), audit.DecisionRecorded)
	mustDecide(t, s, decision(both, "dora", true), audit.DecisionRecorded)
	for _, asked := range []*spend.Check{half, both} {
		mustBe(t, s, asked, audit.ApprovalApproved)
		mustCommit(t, s, using(f, asked))
	}
	if n := s.Count(t, "SELECT count(*) FROM changes WHERE kind = 'approval.reopened'"); n != 2 {
		t.Errorf("%d reopenings are recorded", n)
	}
}

// approvalReopensOfGroups: the person who completed what is asked of groups may remain, and another of the group is missing.
func approvalReopensOfGroups(t *testing.T, s Subject) {
	f := fence(t, s)
	asked := asking(f, 2)
	asked.Approval.From = []spend.GroupRequired{{Group: "support", Required: 1}, {Group: "finance", Required: 1}}
	mustCommit(t, s, asked)
	keys := make(map[string]*audit.Key)
	for _, name := range []string{"support", "finance"} {
		k := newKey()
		k.Grants = spend.Grants{Role: spend.Approver, Principal: "of " + name, Groups: []string{name}}
		must(t, s.CreateKey(t.Context(), actor(), k))
		keys[name] = k
		mustDecide(t, s, decisionWith(k, asked, true), audit.DecisionRecorded)
	}
	mustBe(t, s, asked, audit.ApprovalApproved)
	started := now()
	f.Stops = setActive(t, s, keys["support"], false)
	mustBeReopened(t, s, asked, started, 1, true, false)
	mustRefuse(t, s, using(f, asked), audit.ApprovalError{Status: audit.ApprovalPending})
	f.Stops = setActive(t, s, keys["support"], true)
	mustDecide(t, s, decisionWith(keys["support"], asked, true), audit.DecisionRecorded)
	mustCommit(t, s, using(f, asked))
}

// approvalReopensByUse: whoever uses an approval reopens it, unless it or a key was changed since it was judged (S92).
func approvalReopensByUse(t *testing.T, s Subject) {
	f := fence(t, s)
	bob, cleo := approverKey(t, s, "bob"), approverKey(t, s, "cleo")
	asked, used := asking(f, 2), asking(f, 1)
	mustCommit(t, s, asked, used)
	for _, k := range []*audit.Key{bob, cleo} {
		mustDecide(t, s, decisionWith(k, asked, true), audit.DecisionRecorded)
	}
	mustDecide(t, s, decisionWith(bob, used, true), audit.DecisionRecorded)
	mustCommit(t, s, using(f, used))
	change := audit.KeyChange{Grants: spend.GrantsChange{Grants: spend.Grants{Role: spend.Auditor}, Named: []string{spend.MemberRole}}}
	_, err := s.UpdateKey(t.Context(), actor(), bob.ID, change)
	must(t, err)
	mustBe(t, s, asked, audit.ApprovalApproved)
	if err := Record(t.Context(), s, using(f, asked)); !errors.Is(err, audit.ErrStaleStops) {
		t.Errorf("judged before the change: %v", err)
	}
	changes, err := s.ConfigChanges(t.Context(), 0)
	must(t, err)
	lost := []string{bob.ID.Text(spend.PrefixKey)}
	reopen := func(id spend.ID, judged int64, want bool) {
		t.Helper()
		if reopened, err := s.Reopen(t.Context(), id, lost, judged); err != nil || reopened != want {
			t.Errorf("reopened: %t, %v; want %t", reopened, err, want)
		}
	}
	started := now()
	reopen(asked.ID, changes.Generation-1, false)
	reopen(used.ID, changes.Generation, false)
	reopen(spend.NewID(now()), changes.Generation, false)
	mustBe(t, s, asked, audit.ApprovalApproved)
	reopen(asked.ID, changes.Generation, true)
	mustBeReopened(t, s, asked, started, 1, true, false)
}

// approvalReopensAgain: what a key approved counts no more once the key might not decide about it, also where it may again (S92).
func approvalReopensAgain(t *testing.T, s Subject) {
	f := fence(t, s)
	for what, g := range map[string]spend.Grants{
		"another role": {Role: spend.Auditor}, "other scopes": {Scopes: spend.ChecksRead},
		"expired":  {Role: spend.Approver, ExpiresAt: epochStart},
		"policies": {Role: spend.Approver, PolicyIDs: []string{"another"}}, "agents": {Role: spend.Approver, AgentIDs: []string{"another"}},
		"the same policy": {Role: spend.Approver, PolicyIDs: []string{"p"}},
	} {
		bob := approverKey(t, s, "bob "+what)
		become := func(g spend.Grants) {
			t.Helper()
			named := []string{spend.MemberRole, spend.MemberScopes, spend.MemberExpiresAt, spend.MemberPolicyIDs, spend.MemberAgentIDs}
			_, err := s.UpdateKey(t.Context(), actor(), bob.ID, audit.KeyChange{Grants: spend.GrantsChange{Grants: g, Named: named}})
			must(t, err)
		}
		asked := asking(f, 1)
		asked.Action.PolicyID = "p"
		asked.Approval.ActionHash = spend.ActionHash(asked)
		mustCommit(t, s, asked)
		mustDecide(t, s, decisionWith(bob, asked, true), audit.DecisionRecorded)
		become(g)
		mustBe(t, s, asked, audit.ApprovalApproved)
		started := now()
		become(spend.Grants{Role: spend.Approver})
		f.Stops = lastStop(t, s)
		if what == "the same policy" {
			mustBe(t, s, asked, audit.ApprovalApproved)
			continue
		}
		mustBeReopened(t, s, asked, started, 1, true)
		mustDecide(t, s, decisionWith(bob, asked, true), audit.DecisionRecorded)
	}
}

// approvalReopeningRace: an approval is used before the key of who approved it is deactivated, or not at all. A decision
// meanwhile completes nothing together with one that counts no more.
func approvalReopeningRace(t *testing.T, s Subject) {
	for range 10 {
		bob, cleo := approverKey(t, s, "bob"), approverKey(t, s, "cleo")
		f := fence(t, s)
		asked, half := asking(f, 1), asking(f, 2)
		mustCommit(t, s, asked, half)
		mustDecide(t, s, decisionWith(bob, asked, true), audit.DecisionRecorded)
		mustDecide(t, s, decisionWith(bob, half, true), audit.DecisionRecorded)
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			f := fence(t, s)
			wg.Go(func() { errs[i] = Record(t.Context(), s, using(f, asked)) })
		}
		wg.Go(func() { setActive(t, s, bob, false) })
		wg.Go(func() { mustDecide(t, s, decisionWith(cleo, half, true), audit.DecisionRecorded) })
		wg.Go(func() {
			if _, err := s.ExpireApprovals(t.Context()); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		want := audit.ApprovalPending
		for _, err := range errs {
			if _, refused := errors.AsType[*audit.ApprovalsError](err); err == nil {
				want = audit.ApprovalUsed
			} else if !refused && !errors.Is(err, audit.ErrStaleStops) {
				t.Error(err)
			}
		}
		mustBe(t, s, asked, want)
		if a := mustBe(t, s, half, audit.ApprovalPending); a.Missing().People() != 1 {
			t.Errorf("%+v", a)
		}
	}
}
