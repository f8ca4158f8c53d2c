package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestCallOf has commits be by the call that does no more than they need.
func TestCallOf(t *testing.T) {
	plain, used := minimal(spend.Fence{}), minimal(spend.Fence{})
	asks, approved := minimal(spend.Fence{}), minimal(spend.Fence{})
	charge(used)
	asks.Approval = new(spend.ApprovalRequest)
	approved.Action.ApprovalID = spend.NewID(time.Now())
	day := audit.CounterChanges([]*spend.Check{used}, nil)
	rolling := audit.CounterChanges([]*spend.Check{used}, nil)
	rolling[0].BucketMS = 60_000
	none, takes := budgetChanges{}, budgetChanges{takes: day}
	redeemed := &spend.Outcome{Status: spend.Redeemed}
	pays := func(seen int64) *spend.Check {
		return &spend.Check{Payments: []spend.PaymentChange{{Seen: seen}}}
	}
	for name, test := range map[string]struct {
		check    *spend.Check
		outcomes []*spend.Outcome
		budgets  budgetChanges
		horizon  int64
		want     call
	}{
		"a check":         {check: plain, want: 0},
		"known counters":  {check: used, budgets: takes, want: callCalendar},
		"of a pooler":     {check: used, budgets: takes, want: callCalendar},
		"a new counter":   {check: used, budgets: budgetChanges{takes: day, rows: []counterRow{{&day[0], ""}}}, want: callRest},
		"a rolling one":   {check: used, budgets: budgetChanges{takes: rolling}, want: callRest},
		"a refusal":       {check: plain, budgets: budgetChanges{refused: day}, want: callRest},
		"a correction":    {check: used, budgets: budgetChanges{takes: day, corrected: day}, want: callRest},
		"an outcome":      {check: plain, outcomes: []*spend.Outcome{{}}, want: callRest},
		"outcomes alone":  {outcomes: []*spend.Outcome{redeemed, {Status: spend.Executed}}, want: callRest},
		"redemptions":     {outcomes: []*spend.Outcome{redeemed, redeemed}, want: callRedemptions},
		"beside a check":  {check: plain, outcomes: []*spend.Outcome{redeemed}, want: callRedemptions},
		"a payment":       {check: pays(0), want: callPayments},
		"redeemed":        {check: pays(0), outcomes: []*spend.Outcome{{Status: spend.Redeemed}}, want: callPayments | callRedemptions},
		"with a budget":   {check: pays(0), budgets: takes, want: callPayments | callCalendar},
		"a known payment": {check: pays(1), want: callRest},
		"of another node": {outcomes: []*spend.Outcome{{Status: spend.Redeemed, Payments: pays(0).Payments}}, want: callRest},
		"a horizon":       {check: plain, horizon: 1, want: callRest},
		"asks for people": {check: asks, budgets: none, want: callRest},
		"an approval":     {check: approved, want: callRest},
	} {
		s := &Store{statement: "commit_checks"}
		if name == "of a pooler" { // has not the settings of change_counters
			s.statement, test.want = "", callRest
		}
		var checks []*spend.Check
		if test.check != nil {
			checks = append(checks, test.check)
		}
		payments := paymentExtraOf(checks, test.outcomes)
		payments.horizonMS = test.horizon
		if got := s.callOf(checks, &payments, &test.budgets); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// calendar returns a function that makes checks whose commits are callCalendar, until the
// limit of their counter is reached. Some are recorded already.
func calendar(t *testing.T, s *Store, agent, limit string) func(spend.Fence) *spend.Check {
	t.Helper()
	one, _ := spend.ParseAmount("1")
	most := must.Get(spend.ParseTotal(limit))(t)
	check := func(f spend.Fence) *spend.Check {
		c := minimal(f)
		c.Action.AgentID, c.Action.Amount = agent, one
		charge(c)
		c.Charges[0].Limit = most
		return c
	}
	for range cap(s.writers.idle) + 1 { // the first commits of each connection forget what was prepared
		must.Do(t, audittest.Record(t.Context(), s, check(newFence(t, s))))
	}
	return check
}

// TestCalendar takes from a counter until it has no room, and is told so as by the call for
// all commits.
func TestCalendar(t *testing.T) {
	s := open(t, migrated(t), true)
	check := calendar(t, s, "a", "6") // three of which are taken
	for taken := 4; taken <= 7; taken++ {
		c := check(newFence(t, s))
		err := audittest.Record(t.Context(), s, c)
		exceeded, refused := errors.AsType[*audit.ExceededError](err)
		if refused != (taken == 7) || err != nil && !refused {
			t.Errorf("%d: %v", taken, err)
		}
		if refused && (len(exceeded.Usages) != 1 || exceeded.Usages[0].Count != 6) {
			t.Errorf("refused by %v", exceeded.Usages)
		}
		usages, err := s.CounterUsages(t.Context(), []spend.Counter{c.Charges[0].Counter})
		if want := int64(min(taken, 6)); err != nil || usages[0].Count != want || recorded(t, s, c) == refused {
			t.Errorf("%d: %d taken, %v", taken, usages[0].Count, err)
		}
		if n := count(t, s, "budget_exhaustions"); n != max(0, min(taken-5, 1)) {
			t.Errorf("%d: %d exhaustions", taken, n)
		}
	}
	prepared := false
	for range cap(s.writers.idle) {
		session := <-s.writers.idle
		prepared = prepared || session.prepared[callCalendar]
		s.writers.idle <- session
	}
	if !prepared {
		t.Error("no commit was by that call")
	}
}

// An escalated check takes nothing, but must have room (S35).
func TestCalendarEscalated(t *testing.T) {
	s := open(t, migrated(t), true)
	check := calendar(t, s, "a", "6") // three of which are taken
	for _, amount := range []string{"3", "4"} {
		c := check(newFence(t, s))
		c.Decision.Effect = spend.Escalate
		c.Charges[0].Amount, _ = spend.ParseAmount(amount)
		err := audittest.Record(t.Context(), s, c)
		if _, refused := errors.AsType[*audit.ExceededError](err); refused != (amount == "4") || err != nil && !refused {
			t.Errorf("%s of the 3 that are left: %v", amount, err)
		}
	}
}

// TestCalendarOrder has a commit wait for its first counter while its other one is not
// locked yet, whatever the order of their rows in the table: no two commits can deadlock.
func TestCalendarOrder(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	batch := []*spend.Check{calendar(t, s, "a", "1000")(spend.Fence{}), calendar(t, s, "b", "1000")(spend.Fence{})}
	f := newFence(t, s)
	ids := make([][16]byte, len(batch))
	for i, c := range batch {
		c.Fence, ids[i] = f, c.Charges[0].Counter.ID
	}
	if bytes.Compare(ids[0][:], ids[1][:]) > 0 {
		slices.Reverse(ids)
	}
	statement(t, url, fmt.Sprintf("UPDATE budget_counters SET used = used WHERE counter_id = '%x'", ids[0])) // is moved behind the other
	blocker := must.Get(connect(t, url).Begin(t.Context()))(t)
	const lock = "SELECT FROM budget_counters WHERE counter_id = $1 FOR UPDATE"
	must.Get(blocker.Exec(t.Context(), lock, ids[0]))(t)
	outcome := make(chan error, 1)
	go func() { outcome <- audittest.Record(t.Context(), s, batch...) }()
	waitFor(t, url, "a commit that waits", commitWaits)
	if _, err := connect(t, url).Exec(t.Context(), lock+" NOWAIT", ids[1]); err != nil {
		t.Errorf("the later counter is locked already: %v", err)
	}
	must.Check(t, errors.Join(blocker.Rollback(t.Context()), <-outcome))
}
