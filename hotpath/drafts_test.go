package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

func (f *fleet) draft(node int, policyID, rules string) *audit.Draft {
	f.t.Helper()
	d := &audit.Draft{PolicyID: policyID, Name: "next", Rules: rules}
	if err := f.nodes[node].PutDraft(f.t.Context(), hotpath.Access{}, audit.Actor{}, d, nil); err != nil {
		f.t.Fatal(err)
	}
	return d
}

// verdict returns the decision about a check, and the draft's.
func (f *fleet) verdict(o outcome) string {
	f.t.Helper()
	if o.err != nil {
		return o.err.Error()
	}
	c := f.recorded(o.answer.Check.ID)
	switch {
	case c.Shadow == nil:
		return c.Decision.Effect.String() + "/-"
	case c.Shadow.Without != "":
		return fmt.Sprintf("%s/%s", c.Decision.Effect, c.Shadow.Without)
	}
	return strings.TrimSpace(fmt.Sprintf("%s/%s %s", c.Decision.Effect, c.Shadow.Effect, c.Shadow.RuleID))
}

// S54: every node judges by a draft as soon as the draft was answered, with counters of its own,
// until the draft ends. The answer shows nothing of it.
func TestDraftJudgesBeside(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		next := func(node, n int, want string) {
			t.Helper()
			if got := f.verdict(f.check(node, refundOf(t, "60", fmt.Sprint("c-", n)))); got != want {
				t.Errorf("check %d is %s, want %s", n, got, want)
			}
		}
		next(0, 0, "allow/-")
		next(1, 1, "allow/-")
		f.draft(0, "p", `[{"rule_id":"small","rule_type":"max_amount","parameters":{"limit":50}}]`)
		next(1, 2, "allow/block small")
		next(0, 3, "allow/block small")
		f.draft(1, "p", `[{"rule_id":"day","rule_type":"budget","parameters":{"limit":150,"currency":"USD","window":"lifetime"}},
			{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":400}}]`)
		next(0, 4, "allow/allow")
		next(1, 5, "allow/allow")
		next(0, 6, "allow/block day")
		again := refundOf(t, "60", "c-4")
		if got := f.verdict(f.check(1, again)); got != "block/block duplicate_guard" {
			t.Errorf("a duplicate is %s", got)
		}
		if usages, err := f.store.CounterUsages(t.Context(),
			[]spend.Counter{{ID: spend.CounterID("p", "day", 0, "[]")}, {ID: spend.CounterID("p", "day", 1, "[]")}}); err != nil ||
			usages[0].Count+usages[1].Count != 0 {
			t.Errorf("counters of the version in force: %+v, %v", usages, err)
		}
		if err := f.nodes[0].DeleteDraft(t.Context(), hotpath.Access{}, audit.Actor{}, "p"); err != nil {
			t.Fatal(err)
		}
		next(1, 7, "allow/-")
		if _, err := f.nodes[1].DraftReport(t.Context(), "p"); !errors.Is(err, hotpath.ErrDraftNotFound) {
			t.Errorf("the report of no draft: %v", err)
		}
	})
}

// The live version's budget is the same as without a draft. The draft's budget counts what the
// draft allows, so the two diverge.
func TestDraftCountsApart(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		const day = `[{"rule_id":"day","rule_type":"budget","parameters":{"limit":%d,"currency":"USD","window":"lifetime"}}]`
		f.post(0, "p", fmt.Sprintf(day, 100))
		f.draft(0, "p", fmt.Sprintf(day, 200))
		for i, want := range []string{"allow/allow", "block/allow day", "block/allow day", "block/block day"} {
			got := f.verdict(f.check(i%2, refundOf(t, "60", fmt.Sprint("c-", i))))
			if want = strings.TrimSuffix(want, " day"); strings.TrimSuffix(got, " day") != want {
				t.Errorf("check %d is %s, want %s", i, got, want)
			}
		}
		usages, err := f.store.CounterUsages(t.Context(), []spend.Counter{{ID: spend.CounterID("p", "day", 2, "[]")}})
		if err != nil || usages[0].Count != 1 || usages[0].Used.String() != "60" {
			t.Errorf("the budget in force has %+v, %v", usages, err)
		}
		r, err := f.nodes[1].DraftReport(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		if r.Report.Coverage.Compared != 4 || r.Report.Flips.Total != 2 || r.Report.Flips.ToAllow != 2 || len(r.Flips) != 2 || !r.Complete {
			t.Errorf("reported %s, %d flips", r.Report.JSON(), len(r.Flips))
		}
		made, err := f.nodes[1].PromoteDraft(t.Context(), hotpath.Access{}, audit.Actor{}, hotpath.Promotion{PolicyID: "p", Version: 2})
		if err != nil || made.Version != 3 {
			t.Fatalf("promoted to %+v, %v", made, err)
		}
		if got := f.verdict(f.check(0, refundOf(t, "70", "c-9"))); got != "allow/-" { // 130 of 200: the live counter goes on
			t.Errorf("after the promotion: %s", got)
		}
		if usages, err = f.store.CounterUsages(t.Context(), []spend.Counter{{ID: spend.CounterID("p", "day", 2, "[]")}}); err != nil ||
			usages[0].Used.String() != "130" {
			t.Errorf("the budget in force has %+v, %v", usages, err)
		}
	})
}

// An approved check takes from the draft's budget once, and only what the draft allowed when people
// were asked.
func TestDraftNeedsNoApproval(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "p", `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":100,"approval":{}}}]`)
		f.draft(0, "p", `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":1000,"approval":{}}},
			{"rule_id":"day","rule_type":"budget","parameters":{"limit":500,"currency":"USD","window":"lifetime"}}]`)
		action := refundOf(t, "300", "c-0")
		asked := f.asked(action)
		f.approve(asked, "ann")
		if got := f.verdict(f.check(1, with(asked, action))); got != "allow/approval_not_needed" {
			t.Errorf("what people approved is %s", got)
		}
		if got := f.verdict(f.check(0, refundOf(t, "90", "c-1"))); got != "allow/allow" {
			t.Errorf("300 and 90 of 500: %s", got)
		}
		r, err := f.nodes[1].DraftReport(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Report.Coverage; c.Compared != 2 || len(c.Skipped) != 1 || c.Skipped[0].Reason != "approval_not_needed" {
			t.Errorf("the report covers %+v", c)
		}
	})
}

// A promotion names the version in force, also when the draft is gone with another (S54), and a
// budget that it would empty (S63).
func TestPromotionsAreRefused(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "p", `[{"rule_id":"day","rule_type":"budget","parameters":{"limit":100,"currency":"USD","window":"lifetime"}}]`)
		promote := func(version int, drop ...string) error {
			_, err := f.nodes[0].PromoteDraft(t.Context(), hotpath.Access{}, audit.Actor{},
				hotpath.Promotion{PolicyID: "p", Version: version, Drop: drop})
			return err
		}
		inForce := func(err error) int {
			if other, ok := errors.AsType[*audit.VersionError](err); ok {
				return other.Version
			}
			return 0
		}
		if err := promote(2); !errors.Is(err, hotpath.ErrDraftNotFound) {
			t.Errorf("without a draft: %v", err)
		}
		if err := promote(1); inForce(err) != 2 {
			t.Errorf("without a draft, over another version: %v", err)
		}
		f.check(0, refundOf(t, "60", "c"))
		f.draft(0, "p", plainRules)
		if err := promote(1); inForce(err) != 2 {
			t.Errorf("over another version: %v", err)
		}
		if _, ok := errors.AsType[*hotpath.BudgetsInUseError](promote(2)); !ok {
			t.Error("a budget in use was emptied")
		}
		if err := promote(2, "day"); err != nil {
			t.Error(err)
		}
		if err := promote(3); !errors.Is(err, hotpath.ErrDraftNotFound) {
			t.Errorf("promoted twice: %v", err)
		}
		f.draft(0, "p", plainRules)
		var racing sync.WaitGroup
		var promoted, late atomic.Int32
		for range 8 {
			racing.Go(func() {
				if err := promote(3); err == nil {
					promoted.Add(1)
				} else if inForce(err) == 4 {
					late.Add(1)
				}
			})
		}
		if racing.Wait(); promoted.Load() != 1 || late.Load() != 7 {
			t.Errorf("of 8 at once %d were promoted, and %d heard of the version in force", promoted.Load(), late.Load())
		}
	})
}

// A draft that fails costs only its own verdict, and at most a moment in each second.
func TestDraftFails(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.draft(0, "p", `[{"rule_id":"day","rule_type":"budget","parameters":{"limit":150,"currency":"USD","window":"lifetime"}}]`)
		f.shadowTimeout = 0
		f.nodes = append(f.nodes, f.start(f.server, f.inProcess))
		var asked atomic.Int64
		f.nodes[1].faults.drafts = func(ctx context.Context) error { // a store that hangs
			asked.Add(1)
			<-ctx.Done()
			return audit.ErrUnavailable
		}
		began := time.Now()
		for i := range 5 {
			if got := f.verdict(f.check(1, refundOf(t, "60", fmt.Sprint("c-", i)))); got != "allow/counters_unavailable" {
				t.Errorf("check %d is %s", i, got)
			}
		}
		if took := time.Since(began); asked.Load() > 1+int64(took/time.Second) {
			t.Errorf("the store that hangs was asked %d times in %s", asked.Load(), took)
		}
		r, err := f.nodes[1].DraftReport(t.Context(), "p")
		if err != nil || r.Report.Coverage.Checks != 5 || r.Report.Coverage.Compared != 0 ||
			r.Report.Coverage.Skipped[0].Reason != "counters_unavailable" {
			t.Errorf("reported %+v, %v", r, err)
		}
	})
}

// A report has the checks that are found in time, and says from when on.
func TestDraftReportIsBounded(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		f.draft(0, "p", plainRules)
		for i := range 3 {
			time.Sleep(time.Millisecond) // each has a time of its own
			if o := f.check(0, refundOf(t, "60", fmt.Sprint("c-", i))); o.err != nil {
				t.Fatal(o.err)
			}
		}
		for pause, complete := range map[time.Duration]bool{0: true, 700 * time.Millisecond: false} { // the second page is late
			f.nodes[0].faults.listed = func(q *audit.CheckQuery) {
				time.Sleep(pause)
				q.Limit = 1
			}
			r, err := f.nodes[0].DraftReport(t.Context(), "p")
			if err != nil {
				t.Fatal(err)
			}
			late := time.Time(r.Report.Coverage.From).After(r.Draft.MadeAt)
			if r.Complete != complete || late == complete || (r.Report.Coverage.Compared == 3) != complete {
				t.Errorf("with pages that take %s, complete: %t, %s", pause, r.Complete, r.Report.JSON())
			}
		}
	})(t)
}
