package audittest

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// changesRejected: a rejected draft counts no approval and takes none, until it is put again. Both are events, and so is
// the draft that people are asked about.
func changesRejected(t *testing.T, s Subject) {
	c, ctx := newChange(t, s), t.Context()
	reject := func(d *audit.Draft, name string, want audit.ApprovalDecisionResult) {
		t.Helper()
		got, err := s.DecideDraft(ctx, audit.DraftDecisionRequest{PolicyID: d.PolicyID, Rejects: true, Hash: d.Hash, Note: "no", By: c.by(name)})
		if must(t, err); got != want {
			t.Errorf("%s rejects: %q, want %q", name, got, want)
		}
	}
	submitted := func(want ...string) {
		t.Helper()
		got, more, err := s.SubmittedDrafts(ctx, audit.PolicyQuery{Limit: 5})
		if must(t, err); !slices.Equal(got, want) || more {
			t.Errorf("submitted are %q %t, want %q", got, more, want)
		}
	}
	must(t, s.CreatePolicy(ctx, c.by("ann"), newPolicy("free"), audit.NewBudgets{}, epochStart))
	if d := c.put("free"); d.Submitted {
		t.Error("a draft that nobody is asked about is submitted")
	}
	submitted()
	d := c.govern(`{"from":[{"group":"risk","required":1}]}`)
	submitted(d.PolicyID)
	c.approve(d, "cleo", audit.DecisionRecorded)
	reject(d, "ann", audit.DecisionAuthor)
	reject(d, "bob", audit.DecisionNoGroup)
	reject(d, "dan", audit.DecisionRecorded)
	reject(d, "dan", audit.DecisionReplayed)
	reject(d, "cleo", audit.DecisionRejected)
	c.approve(d, "dan", audit.DecisionRejected)
	c.missing(d, 1)
	c.promote(d, c.by("ann"), 1, true)
	r, err := s.Review(ctx, d.PolicyID)
	if must(t, err); !r.Draft.Submitted || r.Rejection == nil || r.Rejection.Note != "no" || r.Rejection.By.Principal != "dan" ||
		len(r.Approvals) != 1 {
		t.Errorf("rejected: %+v, by %+v", r, r.Rejection)
	}
	again := c.put(d.PolicyID)
	c.missing(again, 1)
	c.approve(again, "cleo", audit.DecisionRecorded)
	c.promote(again, c.by("ann"), 1, false)
	submitted()
	page, err := s.Events(ctx, audit.EventQuery{Limit: 100, PolicyIDs: []string{d.PolicyID}})
	must(t, err)
	var types []audit.EventType
	for _, e := range page.Events {
		types = append(types, e.Type)
	}
	if want := []audit.EventType{
		audit.EventPolicyCreated, audit.EventDraftSubmitted, audit.EventDraftApproved, audit.EventDraftRejected, audit.EventDraftSubmitted,
		audit.EventDraftApproved, audit.EventPolicyCreated,
	}; !slices.Equal(types, want) {
		t.Errorf("events %q", types)
	}
}

// changesRace: with concurrent approvals, drafts and promotions, no version results from a draft
// that nobody else approved.
func changesRace(t *testing.T, s Subject) {
	c, ctx := newChange(t, s), t.Context()
	d := c.govern(asksOne)
	d.Changes, d.Replaces = asksOne, d.Generation // each version asks again
	must(t, s.PutDraft(ctx, c.by("ann"), d, epochStart))
	var racing sync.WaitGroup
	for range 8 {
		racing.Go(func() {
			_, err := s.DecideDraft(ctx, audit.DraftDecisionRequest{PolicyID: d.PolicyID, Hash: d.Hash, By: c.by("bob")})
			if err != nil {
				t.Error(err)
			}
		})
	}
	racing.Wait()
	if r, err := s.Review(ctx, d.PolicyID); err != nil || len(r.Approvals) != 1 {
		t.Errorf("one person who approves at once is recorded as %+v, %v", r, err)
	}
	for range 8 {
		racing.Go(func() {
			next := newDraft(d.PolicyID, `[]`)
			next.Changes = asksOne
			if before, err := s.Draft(ctx, d.PolicyID); err == nil {
				next.Replaces = before.Generation
			}
			if err := s.PutDraft(ctx, c.by("ann"), next, epochStart); err != nil && !errors.Is(err, audit.ErrDraftChanged) {
				t.Error(err)
			}
		})
		racing.Go(func() {
			r, err := s.Review(ctx, d.PolicyID)
			if errors.Is(err, audit.ErrNotFound) {
				return
			}
			must(t, err)
			_, err = s.DecideDraft(ctx, audit.DraftDecisionRequest{PolicyID: d.PolicyID, Hash: r.Draft.Hash, By: c.by("bob")})
			if err != nil && !errors.Is(err, audit.ErrNotFound) {
				t.Error(err)
			}
		})
		racing.Go(func() {
			r, err := s.Review(ctx, d.PolicyID)
			if errors.Is(err, audit.ErrNotFound) {
				return
			}
			must(t, err)
			_, err = s.PromoteDraft(ctx, c.by("ann"), audit.Promotion{PolicyID: d.PolicyID, Generation: r.Draft.Generation, Version: r.Version},
				epochStart)
			if err != nil && !errors.Is(err, audit.ErrNotFound) && !isRefusal(err) {
				t.Error(err)
			}
		})
	}
	racing.Wait()
	promotesApproved(t, s, d.PolicyID)
}

// promotesApproved: each draft that was promoted was approved before.
func promotesApproved(t *testing.T, s Subject, policyID string) {
	t.Helper()
	changes, err := s.Changes(t.Context(), audit.ChangeQuery{PolicyID: policyID, Limit: 1000})
	must(t, err)
	var draft int64
	approved := make(map[int64]bool)
	for i := range changes {
		switch ch := &changes[i]; ch.Kind {
		case audit.DraftPut:
			draft = ch.Seq
		case audit.DraftApproved:
			a, err := audit.DraftDecisionOf(ch)
			if approved[a.Draft] = true; err != nil || a.Draft != draft {
				t.Errorf("change %d approves draft %d, and there is %d: %v", ch.Seq, a.Draft, draft, err)
			}
		case audit.DraftPromoted:
			if !approved[draft] {
				t.Errorf("change %d promotes a draft that nobody approved", ch.Seq)
			}
		default:
		}
	}
}

// changesKeyRace: with a concurrent promotion, change of an approver's key and forced version, a
// promotion that comes after either of the others finds no approver.
func changesKeyRace(t *testing.T, s Subject) {
	c, ctx := newChange(t, s), t.Context()
	bob, admin := c.m.keys["bob"].ID.Text(spend.PrefixKey), audit.Actor{Credential: "0123abcd"}
	for round := range 12 {
		c.grant("bob", spend.Grants{Principal: "bob"}, "principal")
		d := c.govern(asksOne)
		c.approve(d, "bob", audit.DecisionRecorded)
		var racing sync.WaitGroup
		racing.Go(func() {
			_, err := s.PromoteDraft(ctx, c.by("ann"), audit.Promotion{PolicyID: d.PolicyID, Generation: d.Generation, Version: 1}, epochStart)
			if err != nil && !isRefusal(err) {
				t.Error(err)
			}
		})
		racing.Go(func() {
			if round%2 == 0 {
				c.grant("bob", spend.Grants{Principal: "ann"}, "principal")
				return
			}
			next := newPolicy(d.PolicyID)
			next.Changes = asksOne
			if err := s.CreatePolicy(ctx, admin, next, audit.NewBudgets{}, epochStart); err != nil {
				t.Error(err)
			}
		})
		racing.Wait()
		changes, err := s.Changes(ctx, audit.ChangeQuery{After: d.Generation + 1, Limit: 100})
		must(t, err)
		spoilt := false // by now bob is ann, or another version is in force
		for i := range changes {
			switch ch := &changes[i]; {
			case ch.Subject == bob, ch.Kind == audit.PolicyCreated && ch.By.Credential != "":
				spoilt = true
			case ch.Kind == audit.DraftPromoted && spoilt:
				t.Errorf("change %d promotes what nobody approves any more", ch.Seq)
			}
		}
	}
}
