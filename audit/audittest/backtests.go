package audittest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

func newBacktest(policyID string) *audit.Backtest {
	time.Sleep(time.Microsecond) // as newKey
	return &audit.Backtest{
		ID: spend.NewID(now()), PolicyID: policyID, Rules: `[{"rule_id":"r"}]`, From: epochStart, To: epochStart.Add(time.Hour), Recorded: true,
		KeyID: "key_1", Principal: "Kasse", Status: audit.BacktestQueued, CreatedAt: epochStart,
	}
}

// backtests: they run one at a time, at their holder, and are returned as they were created.
func backtests(t *testing.T, s Subject) {
	ctx, lease := t.Context(), time.Minute
	first, second := newBacktest("p"), newBacktest("q")
	must(t, s.CreateBacktest(ctx, first))
	must(t, s.CreateBacktest(ctx, second))
	if got, err := s.Backtest(ctx, first.ID); err != nil || *got != *first {
		t.Errorf("came back %+v, %v", got, err)
	}
	if page, more, err := s.ListBacktests(ctx, audit.BacktestQuery{Limit: 1}); err != nil || !more || page[0].ID != second.ID ||
		page[0].Rules != "" {
		t.Errorf("listed %+v, %t, %v", page, more, err)
	}
	if page, _, err := s.ListBacktests(ctx, audit.BacktestQuery{Limit: 9, PolicyIDs: []string{"p"}}); err != nil || len(page) != 1 ||
		page[0].ID != first.ID {
		t.Errorf("bound to p: %+v, %v", page, err)
	}
	node, other := spend.NewID(now()), spend.NewID(now().Add(time.Millisecond))
	held, err := s.LeaseBacktest(ctx, node, lease)
	if err != nil || held == nil || held.ID != first.ID || held.Status != audit.BacktestRunning || held.Attempts != 1 ||
		held.StartedAt.IsZero() {
		t.Fatalf("taken %+v, %v", held, err)
	}
	if busy, err := s.LeaseBacktest(ctx, other, lease); err != nil || busy != nil {
		t.Errorf("another runs beside it: %+v, %v", busy, err)
	}
	must(t, s.HoldBacktest(ctx, node, first.ID, audit.BacktestProgress{Checks: 5, Reached: epochStart, Flips: []string{"1", "2"}}, lease))
	must(t, s.HoldBacktest(ctx, node, first.ID, audit.BacktestProgress{Checks: 9, Reached: epochStart, Behind: 2, Flips: []string{"3"}},
		lease))
	if err := s.HoldBacktest(ctx, other, first.ID, audit.BacktestProgress{}, lease); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("held by another: %v", err)
	}
	if page, more, err := s.BacktestFlips(ctx, first.ID, 1, 1); err != nil || !more || !slices.Equal(page, []string{"2"}) {
		t.Errorf("flips %q, %t, %v", page, more, err)
	}
	// Another node restarts the backtest that a node has released.
	must(t, s.ReleaseBacktest(ctx, node))
	if again, err := s.LeaseBacktest(ctx, other, time.Millisecond); err != nil || again == nil || again.ID != first.ID || again.Attempts != 1 {
		t.Errorf("taken over: %+v, %v", again, err)
	}
	if page, _, err := s.BacktestFlips(ctx, first.ID, 0, 9); err != nil || len(page) != 0 {
		t.Errorf("flips of the attempt before: %q, %v", page, err)
	}
	time.Sleep(50 * time.Millisecond)
	if err := s.EndBacktest(ctx, other, first.ID, audit.BacktestEnd{Status: audit.BacktestSucceeded}); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("ended after its lease: %v", err)
	}
	if killed, err := s.LeaseBacktest(ctx, node, lease); err != nil || killed == nil || killed.Attempts != 2 {
		t.Errorf("after the lease of one that was killed: %+v, %v", killed, err)
	}
	must(t, s.EndBacktest(ctx, node, first.ID, audit.BacktestEnd{Status: audit.BacktestSucceeded, Report: `{"x":1}`, Checks: 9}))
	if got, err := s.Backtest(ctx, first.ID); err != nil || got.Status != audit.BacktestSucceeded || got.Report != `{"x":1}` ||
		got.Checks != 9 || got.EndedAt.IsZero() {
		t.Errorf("ended %+v, %v", got, err)
	}
	if got, err := s.CancelBacktest(ctx, first.ID); err != nil || got.Status != audit.BacktestSucceeded {
		t.Errorf("what has ended is canceled: %+v, %v", got, err)
	}
	if got, err := s.CancelBacktest(ctx, second.ID); err != nil || got.Status != audit.BacktestCanceled {
		t.Errorf("canceled %+v, %v", got, err)
	}
	if none, err := s.LeaseBacktest(ctx, node, lease); err != nil || none != nil {
		t.Errorf("nothing is left: %+v, %v", none, err)
	}
	for range audit.MaxBacktests {
		must(t, s.CreateBacktest(ctx, newBacktest("r")))
	}
	if err := s.CreateBacktest(ctx, newBacktest("r")); !errors.Is(err, audit.ErrBacktestsFull) {
		t.Errorf("one too many: %v", err)
	}
}

// endedBacktests: the newest that have ended are kept, and all that have not.
func endedBacktests(t *testing.T, s Subject) {
	ctx := t.Context()
	open := newBacktest("kept")
	must(t, s.CreateBacktest(ctx, open))
	var ended []spend.ID
	for range audit.MaxEndedBacktests + 3 {
		b := newBacktest("kept")
		b.ID = spend.NewID(now())
		must(t, s.CreateBacktest(ctx, b))
		if got, err := s.CancelBacktest(ctx, b.ID); err != nil || got.Status != audit.BacktestCanceled {
			t.Fatalf("canceled %+v, %v", got, err)
		}
		ended = append(ended, b.ID)
	}
	slices.SortFunc(ended, spend.ID.Compare)
	must(t, s.Tidy(ctx, now()))
	for i, id := range append(ended, open.ID) {
		if _, err := s.Backtest(ctx, id); err != nil != (i < 3) || err != nil && !errors.Is(err, audit.ErrNotFound) {
			t.Errorf("the %dth of %d: %v", i+1, len(ended), err)
		}
	}
}

// continued: the backtest of a draft is queued again with what it keeps, behind what was asked for before; it stays
// as long as its draft does.
func continued(t *testing.T, s Subject) {
	ctx, lease, node := t.Context(), time.Minute, spend.NewID(now())
	must(t, s.CreatePolicy(ctx, actor(), newPolicy("refunds"), audit.NewBudgets{}, epochStart))
	d := newDraft("refunds", `[]`)
	must(t, s.PutDraft(ctx, actor(), d, epochStart))
	b := newBacktest("refunds")
	b.ID, b.Draft = d.BacktestID(), d.Generation
	must(t, s.CreateBacktest(ctx, b))
	must(t, s.CreateBacktest(ctx, b)) // by another node
	if d.BacktestID().Time() != epochStart {
		t.Errorf("its identifier is of %s", d.BacktestID().Time())
	}
	run := func(kept string, end audit.BacktestEnd, flips ...string) {
		t.Helper()
		held, err := s.LeaseBacktest(ctx, node, lease)
		if err != nil || held == nil || held.ID != b.ID || held.Draft != b.Draft || held.Kept != kept || held.Attempts != 1 {
			t.Fatalf("leased %+v, %v", held, err)
		}
		behind, _, err := s.BacktestFlips(ctx, b.ID, 0, 9)
		must(t, err)
		must(t, s.HoldBacktest(ctx, node, b.ID, audit.BacktestProgress{Checks: 1, Reached: epochStart, Behind: len(behind), Flips: flips}, lease))
		must(t, s.EndBacktest(ctx, node, b.ID, end))
	}
	listed := func(want ...string) {
		t.Helper()
		if flips, _, err := s.BacktestFlips(ctx, b.ID, 0, 9); err != nil || !slices.Equal(flips, want) {
			t.Errorf("flips %q, %v; want %q", flips, err, want)
		}
	}
	const first, second = `{"flips":{"listed":1}}`, `{"flips":{"listed":2}}`
	run("", audit.BacktestEnd{Status: audit.BacktestSucceeded, Report: "1", Kept: first}, "a", "b")
	listed("a", "b")
	must(t, s.ContinueBacktest(ctx, b.ID, epochStart.Add(9*time.Hour), epochStart.Add(time.Minute), time.Minute)) // it ended just now
	must(t, s.ContinueBacktest(ctx, b.ID, epochStart.Add(2*time.Hour), epochStart.Add(time.Minute), 0))
	must(t, s.ContinueBacktest(ctx, b.ID, epochStart.Add(9*time.Hour), epochStart.Add(time.Minute), 0)) // it is queued
	got, err := s.Backtest(ctx, b.ID)
	if err != nil || got.Status != audit.BacktestQueued || got.Report != "1" ||
		!got.To.Equal(epochStart.Add(2*time.Hour)) || !got.EndedAt.IsZero() {
		t.Errorf("continued %+v, %v", got, err)
	}
	before := newBacktest("refunds")
	must(t, s.CreateBacktest(ctx, before)) // which was created earlier than the other was continued
	if held, err := s.LeaseBacktest(ctx, node, lease); err != nil || held == nil || held.ID != before.ID {
		t.Errorf("leased %+v, %v", held, err)
	}
	must(t, s.EndBacktest(ctx, node, before.ID, audit.BacktestEnd{Status: audit.BacktestSucceeded, Report: "0"}))
	run(first, audit.BacktestEnd{Status: audit.BacktestSucceeded, Report: "2", Kept: second}, "c", "d")
	listed("a", "c", "d")
	must(t, s.ContinueBacktest(ctx, b.ID, epochStart, epochStart.Add(time.Minute), 0)) // by a clock that is behind
	run(second, audit.BacktestEnd{Status: audit.BacktestFailed, Error: "broken"})
	listed("a", "c")
	if got, err := s.Backtest(ctx, b.ID); err != nil || got.Report != "2" || got.Kept != second || got.Error != "broken" ||
		!got.To.Equal(epochStart.Add(2*time.Hour)) {
		t.Errorf("failed %+v, %v", got, err)
	}

	must(t, s.Tidy(ctx, now()))
	if _, err := s.Backtest(ctx, b.ID); err != nil {
		t.Errorf("the backtest of a draft, after %s: %v", now().Sub(epochStart), err)
	}
	must(t, s.DeleteDraft(ctx, actor(), "refunds", d.Generation, epochStart))
	must(t, s.Tidy(ctx, now()))
	if _, err := s.Backtest(ctx, b.ID); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("after the draft was deleted: %v", err)
	}
}

// checkHistory: a history comes in pages, in the order of identifiers, with the passes of other
// policies and the outcomes that may change something.
func checkHistory(t *testing.T, s Subject) {
	f := fence(t, s)
	own, foreign, last := newCheck(f), escalated(newCheck(f)), asking(f, 1) // checks that are not allowed use no approval
	foreign.Action.PolicyID, foreign.Action.ApprovalID = "elsewhere", spend.NewID(now())
	own.Action.PolicyID, last.Action.PolicyID = "refunds", "refunds"
	of(newPayment(), last)
	all := []*spend.Check{own, foreign, last}
	slices.SortFunc(all, func(a, b *spend.Check) int { return a.ID.Compare(b.ID) })
	mustCommit(t, s, all...)
	mustReport(t, s, report(f, own, 1, spend.Voided, true))
	var got []audit.HistoryCheck
	var outcomes []*spend.Outcome
	q := audit.HistoryQuery{
		PolicyID: "refunds", After: audit.FirstID(now().Add(-40 * 24 * time.Hour).UnixMilli()),
		End: audit.FirstID(now().Add(time.Minute).UnixMilli()), Limit: 2,
	}
	for {
		page := get(s.PageHistory(t.Context(), q))(t)
		if len(page.Checks) == 0 {
			break
		}
		got, outcomes = append(got, page.Checks...), append(outcomes, page.Outcomes...)
		q.After = page.Checks[len(page.Checks)-1].ID
	}
	if len(got) != 3 || len(outcomes) != 1 || outcomes[0].CheckID != own.ID {
		t.Fatalf("%d checks, %d outcomes", len(got), len(outcomes))
	}
	for i, h := range got {
		want := all[i]
		if h.ID != want.ID || h.Foreign != (want == foreign) || h.Pass != want.Pass || h.Decision.Effect != want.Decision.Effect ||
			h.Fingerprint != want.Fingerprint || h.Action.ApprovalID != want.Action.ApprovalID || h.PaymentHash() != want.PaymentHash() {
			t.Errorf("%d came back %+v", i, h)
		}
		if h.Foreign {
			continue
		}
		a, w := &h.Action, &want.Action
		if a.AgentID != w.AgentID || a.Amount != w.Amount || a.Counterparty != w.Counterparty || a.Metadata != w.Metadata ||
			h.KeyID != want.KeyID ||
			h.Decision.RuleID != want.Decision.RuleID || h.Decision.Reason != want.Decision.Reason ||
			h.Decision.PolicyVersion != want.Decision.PolicyVersion || h.Approval.Text() != want.Approval.Text() || h.ActionType != want.ActionType {
			t.Errorf("%d came back %+v, want %+v", i, h.Check, want)
		}
	}
}

// mustBeHistory compares an approval with what a backtest reads of it.
func mustBeHistory(t *testing.T, s Subject, want *audit.Approval) {
	t.Helper()
	found, err := s.HistoryApprovals(t.Context(), []spend.ID{want.Check.ID, spend.NewID(now())})
	if err != nil || len(found) != 1 {
		t.Fatalf("got %+v, %v", found, err)
	}
	denied := func(a *audit.Approval) (at time.Time) {
		for i := range a.Decisions {
			if d := &a.Decisions[i]; !d.Approves {
				at = d.At
			}
		}
		return at
	}
	got, asked, terms := found[0], found[0].Check.Approval, want.Check.Approval
	moved := !want.ExpiresAt.Equal(want.CreatedAt.Add(terms.Expires)) // by a test
	if got.Check.ID != want.Check.ID || got.Status != want.Status || !got.CreatedAt.Equal(want.CreatedAt) || got.UsedBy != want.UsedBy ||
		!got.ApprovedAt.Equal(want.ApprovedAt) || !denied(got).Equal(denied(want)) ||
		asked.Expires != terms.Expires && !moved || asked.UseWithin != terms.UseWithin {
		t.Errorf("a backtest reads %+v of %+v", got, want)
	}
}
