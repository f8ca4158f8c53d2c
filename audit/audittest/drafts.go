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

func newDraft(policyID, rules string) *audit.Draft {
	return &audit.Draft{
		PolicyID: policyID, Name: "Next – ゼロ", Description: "less", Rules: rules, Metadata: `{"a":1}`,
		Redeem: spend.RedeemTerms{Required: true, WithinMinutes: 7}, Note: "tighter",
	}
}

// drafts puts, replaces, deletes and promotes drafts; each has its change and generation.
func drafts(t *testing.T, s Subject) {
	ctx, by := t.Context(), actor()
	rules := `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":1,"currency":"USD"}}]`
	if err := s.PutDraft(ctx, by, newDraft("refunds", rules), epochStart); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("the draft of no policy: %v", err)
	}
	must(t, s.CreatePolicy(ctx, by, newPolicy("refunds"), audit.NewBudgets{}, epochStart))
	if _, err := s.Draft(ctx, "refunds"); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("there is no draft: %v", err)
	}
	if err := s.DeleteDraft(ctx, by, "refunds", 1, epochStart); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("deleted none: %v", err)
	}
	first, second := newDraft("refunds", `[]`), newDraft("refunds", rules)
	must(t, s.PutDraft(ctx, by, first, epochStart))
	seen := first.Generation
	if err := s.PutDraft(ctx, by, second, epochStart); !errors.Is(err, audit.ErrDraftChanged) {
		t.Errorf("replaced a draft that it does not name: %v", err)
	}
	second.Replaces = first.Generation
	must(t, s.PutDraft(ctx, by, second, epochStart.Add(time.Hour)))
	second.Replaces = 0
	if second.Generation <= first.Generation || first.Hash == second.Hash || second.BaseVersion != 1 {
		t.Errorf("drafts %+v and %+v", first, second)
	}
	got, err := s.Draft(ctx, "refunds")
	must(t, err)
	want := *second
	want.Author = audit.Actor{KeyID: by.KeyID, Principal: by.Principal, Credential: by.Credential}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("came back\n%+v, want\n%+v", *got, want)
	}
	if changes, err := s.ConfigChanges(ctx, seen); err != nil || len(changes.PolicyIDs) > 0 || changes.Generation != second.Generation {
		t.Errorf("changed %+v, %v", changes, err)
	}

	promotion := audit.Promotion{PolicyID: "refunds", Generation: first.Generation, Version: 1, Note: "as tried"}
	if _, err := s.PromoteDraft(ctx, by, promotion, epochStart); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("promoted a draft that was replaced: %v", err)
	}
	promotion.Generation, promotion.Version = second.Generation, 2
	other, is := errors.AsType[*audit.VersionError](func() error { _, err := s.PromoteDraft(ctx, by, promotion, epochStart); return err }())
	if !is || other.Version != 1 {
		t.Errorf("promoted over another version: %v", other)
	}
	promotion.Version = 1
	p, err := s.PromoteDraft(ctx, by, promotion, epochStart.Add(2*time.Hour))
	must(t, err)
	stored, err := s.Policy(ctx, "refunds", 0)
	if must(t, err); stored.Version != 2 || stored.Rules != rules || stored.Name != second.Name || stored.Redeem != second.Redeem ||
		p.Redeem != second.Redeem || p.Version != 2 || p.Rules != rules || !p.CreatedAt.Equal(epochStart) {
		t.Errorf("promoted to %+v, stored %+v", p, stored)
	}
	if _, err := s.PromoteDraft(ctx, by, promotion, epochStart); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("promoted twice: %v", err)
	}
	last := newDraft("refunds", rules)
	must(t, s.PutDraft(ctx, by, last, epochStart))
	if err := s.DeleteDraft(ctx, by, "refunds", second.Generation, epochStart); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("deleted another draft: %v", err)
	}
	must(t, s.DeleteDraft(ctx, by, "refunds", last.Generation, epochStart))
	if _, err := s.Draft(ctx, "refunds"); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("after it was deleted: %v", err)
	}
	recordedOf(t, s, "refunds",
		audit.PolicyCreated, audit.DraftPut, audit.DraftPut, audit.DraftPromoted, audit.PolicyCreated, audit.DraftPut, audit.DraftDeleted)
}

// recordedOf compares the changes of a policy.
func recordedOf(t *testing.T, s Subject, policyID string, want ...audit.ChangeKind) {
	t.Helper()
	changes, err := s.Changes(t.Context(), audit.ChangeQuery{PolicyID: policyID, Limit: 100})
	must(t, err)
	var kinds []audit.ChangeKind
	for _, c := range changes {
		kinds = append(kinds, c.Kind)
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("recorded %q", kinds)
	}
}

// draftsRace: each of many concurrent promotions and puts finds the draft that it names, or none.
func draftsRace(t *testing.T, s Subject) {
	ctx, by := t.Context(), actor()
	must(t, s.CreatePolicy(ctx, by, newPolicy("p"), audit.NewBudgets{}, epochStart))
	d := newDraft("p", `[]`)
	must(t, s.PutDraft(ctx, by, d, epochStart))
	var mu sync.Mutex
	var racing sync.WaitGroup
	promoted := 0
	for range 8 {
		racing.Go(func() {
			_, err := s.PromoteDraft(ctx, by, audit.Promotion{PolicyID: "p", Generation: d.Generation, Version: 1}, epochStart)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				promoted++
			case !errors.Is(err, audit.ErrNotFound):
				t.Error(err)
			}
		})
	}
	racing.Wait()
	if p, err := s.Policy(ctx, "p", 0); promoted != 1 || err != nil || p.Version != 2 {
		t.Errorf("promoted %d times, %+v, %v", promoted, p, err)
	}
}
