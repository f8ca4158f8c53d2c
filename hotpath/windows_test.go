package hotpath_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

func guardRules(minutes int) string {
	return fmt.Sprintf(`[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":500}},
		{"rule_id":"repeats","rule_type":"duplicate_guard","parameters":{"window_minutes":%d}}]`, minutes)
}

// under makes the same action under another policy: one fingerprint.
func under(a spend.Action, policyID string) spend.Action {
	a.PolicyID = policyID
	return a
}

// S17: a hit does not extend the window, a shorter window is exact, and a
// longer one sees the fingerprint while it lives. Redis is lost at every step
// in one of the runs: the store must know as much as Redis did.
func TestWindowsOfDifferentLength(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("redis lost=", lost), func(t *testing.T) {
			f := newFleet(t, embeddedBackend(), 2)
			f.post(0, "long", guardRules(60))
			f.post(0, "short", guardRules(5))
			a := refundOf(t, "10", "c")
			step := 0
			expect := func(policyID string, pass bool) {
				t.Helper()
				if lost {
					f.flush()
				}
				o := f.check(step%2, under(a, policyID))
				if step++; o.err != nil || o.passed() != pass {
					t.Errorf("step %d: want pass=%t: %s", step, pass, o)
				}
			}
			expect("long", true)
			f.mini.Advance(4 * time.Minute)
			expect("short", false)
			f.mini.Advance(59 * time.Second)
			expect("short", false)
			f.mini.Advance(2 * time.Second)
			expect("short", true) // 5:01 after the first pass; it now is the latest
			f.mini.Advance(10 * time.Minute)
			expect("long", false) // the latest pass is 10 minutes old
			f.mini.Advance(51 * time.Minute)
			expect("long", true)
		})
	}
}

// S17: a check takes over an aged-out fingerprint and then fails. Longer windows of other policies
// must still see the earlier pass (F21).
func TestFailedSuccessorLeavesLongerWindows(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 2)
		f.post(0, "long", guardRules(60))
		f.post(0, "short", guardRules(5))
		a := refundOf(t, "10", "c")
		first := f.check(0, under(a, "long"))
		f.mini.Advance(10 * time.Minute)
		f.nodes[0].faults.onCommit(func(context.Context, []*spend.Check, realCommit) error { return errTest })
		if o := f.check(0, under(a, "short")); o.err == nil {
			t.Fatalf("recorded by a store that fails: %s", o)
		}
		f.nodes[0].faults.onCommit(nil)
		time.Sleep(50 * time.Millisecond) // the release goes with the next batch
		if o := f.check(1, under(a, "long")); !o.names(first.answer.Check.ID.Text("chk_")) {
			t.Errorf("after the failed successor: %s", o)
		}
		if o := f.check(1, under(a, "short")); !o.passed() {
			t.Errorf("the retry of the successor: %s", o)
		}
	})(t)
}

// The rule is judged at the check's timestamp (S5, S12), whenever that is done:
// else a record could contradict its decision.
func TestHoursAreThoseOfTheTimestamp(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		// As if every check had been judged six hours after its claim.
		f.now = func() time.Time { return time.Now().Add(6 * time.Hour) }
		f.nodes = append(f.nodes, f.start(f.server, f.inProcess))
		hour := time.Now().UTC().Hour()
		f.post(0, "hours", fmt.Sprintf(`[{"rule_id":"open","rule_type":"time_restriction","parameters":{"allowed_hours_utc":"%02d:00-%02d:00"}}]`,
			(hour+22)%24, (hour+2)%24))
		a := refundOf(t, "10", "c")
		a.PolicyID = "hours"
		if o := f.check(1, a); !o.passed() || o.answer.Check.Decision.Effect != spend.Allow {
			t.Errorf("recorded within the hours, yet: %s", o)
		}
	})
}

// S26: the window opens with a key's first request, ends 60 s later, and then
// admits the whole limit again, also to a node that remembered a refusal (G6).
func TestRateWindowEnds(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 2)
	for round := range 3 {
		admitted := 0
		for i := range 15 {
			_, q, err := f.nodes[i%2].Admit(context.Background(), hotpath.DemoCaller("192.0.2.1"), 0, false)
			if err == nil {
				admitted++
				if q.Limit != 10 || q.Remaining != 10-admitted {
					t.Errorf("quota %+v after %d", q, admitted)
				}
			}
		}
		if admitted != 10 {
			t.Errorf("round %d: admitted %d of 10", round, admitted)
		}
		f.mini.Advance(61 * time.Second)
	}
}

// A retry after Redis has forgotten the key is a replay by the store's row, and
// the retries after that one find it without another commit (S18).
func TestLateRetriesAreReplays(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 2)
	action := keyed(refundOf(t, "10", "c"), "k")
	first := f.check(0, action)
	f.mini.Advance(2 * time.Hour)
	var commits atomic.Int64
	for _, n := range f.nodes {
		n.faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
			commits.Add(1)
			return commit(ctx, checks)
		})
	}
	for i := range 4 {
		again := f.check(i%2, action)
		if again.err != nil || !again.answer.Replayed || again.answer.Check.ID != first.answer.Check.ID {
			t.Fatalf("first %s, retry %d %s", first, i, again)
		}
	}
	if n := commits.Load(); n != 1 {
		t.Errorf("four retries tried %d commits", n)
	}
	for _, n := range f.nodes {
		const replays = "spendgate_replays_total"
		want := "# HELP " + replays + " Answers given again under an idempotency key, or after a lost answer.\n# TYPE " + replays + " counter\n" +
			replays + " 2\n"
		must.Check(t, testutil.GatherAndCompare(n.metrics, strings.NewReader(want), replays))
	}
}
