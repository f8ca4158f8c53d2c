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
	if err := s.DeleteDraft(ctx, by, "refunds", epochStart); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("deleted none: %v", err)
	}
	first, second := newDraft("refunds", `[]`), newDraft("refunds", rules)
	must(t, s.PutDraft(ctx, by, first, epochStart))
	seen := first.Generation
	must(t, s.PutDraft(ctx, by, second, epochStart.Add(time.Hour)))
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
	if changes, err := s.ConfigChanges(ctx, seen); err != nil || !slices.Equal(changes.PolicyIDs, []string{"refunds"}) ||
		changes.Generation != second.Generation {
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
	must(t, s.PutDraft(ctx, by, newDraft("refunds", rules), epochStart))
	must(t, s.DeleteDraft(ctx, by, "refunds", epochStart))
	if _, err := s.Draft(ctx, "refunds"); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("after it was deleted: %v", err)
	}
	changes, err := s.Changes(ctx, audit.ChangeQuery{PolicyID: "refunds", Limit: 100})
	must(t, err)
	var kinds []audit.ChangeKind
	for _, c := range changes {
		kinds = append(kinds, c.Kind)
	}
	if want := []audit.ChangeKind{
		audit.PolicyCreated, audit.DraftPut, audit.DraftPut, audit.DraftPromoted, audit.PolicyCreated, audit.DraftPut, audit.DraftDeleted,
	}; !slices.Equal(kinds, want) {
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

// draftTake returns the take for a check with an amount, from a counter with a limit.
func draftTake(draft int64, c *spend.Check, limit string) *audit.DraftTake {
	at := c.ID.Time().UnixMilli()
	return &audit.DraftTake{
		Draft: draft, Check: c.ID, Fingerprint: c.Fingerprint, UntilMS: at + 300_000, Leaves: true, Looks: true, Takes: true,
		Charges: []spend.Charge{{
			Counter: spend.Counter{ID: spend.CounterID("p", "day", 0, "[]"), StartMS: at / 86_400_000 * 86_400_000}, RuleID: "day", Subject: "[]",
			Amount: amount("60.000000001"), Limited: true, Limit: amount(limit), Counted: true, MaxCount: 100,
			EndMS: at/86_400_000*86_400_000 + 86_400_000,
		}},
		Blocks: []bool{true},
	}
}

// draftsCount: a draft has counters of its own, takes from them while there is room, and recognizes
// repeats of recorded checks.
func draftsCount(t *testing.T, s Subject) {
	ctx, f := t.Context(), fence(t, s)
	judge := func(take *audit.DraftTake) audit.DraftTaken {
		t.Helper()
		taken, err := s.JudgeDraft(ctx, take)
		must(t, err)
		return taken
	}
	c := newCheck(f)
	if taken := judge(draftTake(7, c, "100")); !taken.Repeats.IsZero() || len(taken.Usages) != 1 || taken.Usages[0] != (spend.Usage{}) {
		t.Errorf("the first: %+v", taken)
	}
	if taken := judge(draftTake(7, c, "100")); !taken.Repeats.IsZero() {
		t.Errorf("a repeat of a check that was not recorded: %+v", taken)
	}
	mustCommit(t, s, c)
	want := spend.Usage{Used: amount("60.000000001").Total(), Count: 1} // the second had no room
	if taken := judge(draftTake(7, newCheck(f), "100")); taken.Usages[0] != want {
		t.Errorf("no room: %+v", taken)
	}
	if taken := judge(draftTake(7, c, "1000")); taken.Repeats != c.ID || taken.Usages != nil {
		t.Errorf("a repeat: %+v", taken)
	}
	over := draftTake(7, c, "1000")
	over.Check = spend.NewID(c.ID.Time().Add(301 * time.Second))
	if taken := judge(over); !taken.Repeats.IsZero() || taken.Usages[0] != want {
		t.Errorf("after its window: %+v", taken)
	}
	if taken := judge(draftTake(8, c, "100")); !taken.Repeats.IsZero() || taken.Usages[0] != (spend.Usage{}) {
		t.Errorf("another draft: %+v", taken)
	}
	usages, err := s.CounterUsages(ctx, []spend.Counter{over.Charges[0].Counter})
	if must(t, err); usages[0] != (spend.Usage{}) {
		t.Errorf("the counter of the version in force has %+v", usages[0])
	}

	rolling := func(bucket int64) *audit.DraftTake {
		take := draftTake(9, newCheck(f), "1000")
		take.Charges[0].Counter.StartMS, take.Charges[0].Counter.BucketMS = bucket*60_000, 60_000
		return take
	}
	for _, bucket := range []int64{100, 130, 160} {
		judge(rolling(bucket))
	}
	if taken := judge(rolling(161)); taken.Usages[0].Count != 2 {
		t.Errorf("of buckets that count: %+v", taken)
	}

	var racing sync.WaitGroup
	for range 20 {
		racing.Go(func() {
			if _, err := s.JudgeDraft(ctx, draftTake(10, newCheck(f), "600.00000001")); err != nil {
				t.Error(err)
			}
		})
	}
	racing.Wait()
	if taken := judge(draftTake(10, newCheck(f), "0")); taken.Usages[0].Count != 10 {
		t.Errorf("20 at once: %+v", taken)
	}
}

// shadowed lists the checks that a draft judged.
func shadowed(t *testing.T, s Subject) {
	ctx, f := t.Context(), fence(t, s)
	since := time.Now().Truncate(time.Millisecond)
	var want []spend.ID
	for i := range 6 {
		time.Sleep(time.Microsecond) // as newKey
		c := newCheck(f)
		switch i {
		case 1:
		case 2:
			c.Shadow = &spend.Shadow{Draft: 77, Effect: spend.Block}
		case 3:
			c.Shadow, c.Action.PolicyID = &spend.Shadow{Draft: 7}, "other"
		default:
			c.Shadow = &spend.Shadow{Draft: 7, Effect: spend.Escalate, Reason: spend.ReasonEscalationThreshold, RuleID: "ask"}
			want = append([]spend.ID{c.ID}, want...)
		}
		mustCommit(t, s, c)
	}
	q := audit.CheckQuery{PolicyID: "refunds", Draft: 7, From: since, Limit: 2, Examine: 3}
	var got []spend.ID
	for {
		page, err := s.ListChecks(ctx, q)
		must(t, err)
		for _, c := range page.Checks {
			got = append(got, c.ID)
			if c.Shadow == nil || c.Shadow.RuleID != "ask" || c.Action.Currency == "" {
				t.Errorf("listed %+v", c)
			}
		}
		if q.Before = page.Next; !page.More {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}
