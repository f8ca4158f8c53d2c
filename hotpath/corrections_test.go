package hotpath_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// S61: a check that was given back, and is executed after all, holds its action again on every
// node, whatever Redis remembers (F97), unless another check took the action meanwhile. It counts
// again, above the limit if need be (F98).
func TestCorrectedActionIsHeld(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "b", budgetRules)
		for i, lost := range []string{"", "void", "correction", "taken", "stale", "fenced"} {
			action := under(refundOf(t, "60", fmt.Sprint("c-", i)), "b")
			action.AgentID = fmt.Sprint("agent-", i)
			used := func(want string) {
				t.Helper()
				if got := f.used(t, "b", "daily", fmt.Sprintf("[%q]", action.AgentID)); got != want {
					t.Errorf("%s: used %s, want %s", lost, got, want)
				}
			}
			first := f.check(0, action)
			f.release(0, first)
			used("0 0")
			holder, want := first, "60 1"
			switch lost {
			case "void":
				f.flush()
			case "taken":
				if f.mini != nil {
					f.mini.Advance(time.Second)
				}
				holder, want = f.check(1, action), "120 2"
				if !holder.passed() {
					t.Fatal(holder)
				}
			case "stale":
				f.flush()
				f.check(1, under(refundOf(t, "1", "another"), "b")) // another epoch, which node 0 does not know
			case "fenced":
				must.Do(t, f.store.Fence(t.Context(), f.nodes[0].guard.Node()))
			}
			f.correct(0, first, 1)
			used(want)
			if lost == "correction" {
				f.flush()
			}
			for _, o := range f.checkAll(repeat(action, 4)...) {
				if !o.names(holder.answer.Check.ID.Text("chk_")) {
					t.Errorf("%s: after the correction: %s", lost, o)
				}
			}
			if _, _, err := f.reportBy(1, first, &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Executor}},
				hotpath.Report{Status: spend.Voided, Supersedes: 1}); !refused(err, 2) {
				t.Errorf("%s: a stale number: %v", lost, err)
			}
		}
	})
}

// A check that was carried out after all is not forgotten with a later pass that kept the
// name, whose window is shorter (F97).
func TestCorrectedActionOutlivesAShorterWindow(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 2)
	guarded := func(minutes int, more string) string {
		return fmt.Sprintf(`[{"rule_id":"g","rule_type":"duplicate_guard","parameters":{"window_minutes":%d}}%s]`, minutes, more)
	}
	f.post(0, "long", guarded(60, ""))
	f.post(0, "short", guarded(1, ""))
	f.post(0, "full", guarded(60, `,{"rule_id":"b","rule_type":"budget","parameters":{"limit":1,"currency":"USD","window":"lifetime"}}`))
	action := refundOf(t, "60", "c")
	first := f.check(0, under(action, "long"))
	f.release(0, first)
	if o := f.check(0, under(action, "full")); o.err != nil || o.answer.Check.Decision.Reason != spend.ReasonBudgetExceeded {
		t.Fatal(o) // it leaves no name
	}
	f.mini.Advance(time.Second)
	between := f.check(1, under(action, "short"))
	if !between.passed() {
		t.Fatal(between)
	}
	f.correct(0, first, 1)
	f.mini.Advance(62 * time.Second)
	for n := range 2 {
		if o := f.check(n, under(action, "long")); !o.names(between.answer.Check.ID.Text("chk_")) {
			t.Errorf("what was carried out passes again: %s", o)
		}
	}
}

// S61: reports of many keys, at once: reports of one number follow once, and the counter
// is what the last says.
func TestCorrectionsFollowOneAnother(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "b", budgetRules)
		action := under(refundOf(t, "60", "c"), "b")
		check := f.check(0, action)
		executor := &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Executor, Principal: "psp"}}
		for number := range 6 {
			var recorded atomic.Int64
			var last atomic.Pointer[spend.Outcome]
			var wg sync.WaitGroup
			for n := range 4 {
				wg.Go(func() {
					report := hotpath.Report{Status: []spend.Status{spend.Voided, spend.Executed}[(n+number)%2], Supersedes: number, Note: fmt.Sprint(n)}
					if report.Status == spend.Executed {
						moved := refundOf(t, fmt.Sprint(10*n+number), "").Amount
						report.Amount = &moved
					}
					switch o, replayed, err := f.reportBy(n%2, check, executor, report); {
					case err == nil && !replayed:
						recorded.Add(1)
						last.Store(o)
					case !refused(err, number+1):
						t.Errorf("beside %d: %+v, %v, %v", number, o, replayed, err)
					}
				})
			}
			wg.Wait()
			o, want := last.Load(), "0 0"
			if recorded.Load() != 1 {
				t.Fatalf("%d reports of number %d", recorded.Load(), number+1)
			}
			if o.Status == spend.Executed {
				want = o.Amount.String() + " 1"
			}
			if got := f.used(t, "b", "daily", fmt.Sprintf("[%q]", action.AgentID)); got != want {
				t.Errorf("after report %d: used %s, want %s", number+1, got, want)
			}
		}
		for number := 6; number <= spend.MaxReports; number++ { // the number of reports has a maximum
			moved := refundOf(t, fmt.Sprint(number), "").Amount
			_, _, err := f.reportBy(0, check, executor, hotpath.Report{Status: spend.Executed, Amount: &moved, Supersedes: number})
			if number == spend.MaxReports && (!refused(err, number) || !strings.Contains(err.Error(), "which is the most")) ||
				number < spend.MaxReports && err != nil {
				t.Fatalf("beside %d: %v", number, err)
			}
		}
	})
}
