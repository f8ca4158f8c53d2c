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
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// report says on a node what became of a check, with a key of that role, which did not
// ask for it.
func (f *fleet) report(node int, of outcome, role spend.Role, status spend.Status) (*spend.Outcome, bool, error) {
	return f.reportBy(node, of, &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: role}}, hotpath.Report{Status: status})
}

func (f *fleet) reportBy(node int, of outcome, key *audit.Key, report hotpath.Report) (*spend.Outcome, bool, error) {
	r := hotpath.Request{Access: hotpath.AccessOf(key), ID: "req_000000000000", Started: time.Now()}
	return f.nodes[node].Report(context.Background(), r, of.answer.Check, report)
}

// correct records that a check was carried out after all, beside that many reports.
func (f *fleet) correct(node int, of outcome, supersedes int) {
	f.t.Helper()
	key := &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Executor}}
	o, replayed, err := f.reportBy(node, of, key, hotpath.Report{Status: spend.Executed, Supersedes: supersedes})
	if err != nil || replayed || o.Number != supersedes+1 {
		f.t.Fatalf("executed after all: %+v, %v, %v", o, replayed, err)
	}
}

// refused reports whether a report was refused beside the last, of that number.
func refused(err error, number int) bool {
	reported, ok := errors.AsType[*hotpath.AlreadyReportedError](err)
	return ok && reported.Last != nil && reported.Last.Number == number
}

// release voids a check.
func (f *fleet) release(node int, of outcome) {
	f.t.Helper()
	if o, replayed, err := f.report(node, of, spend.Executor, spend.Voided); err != nil || replayed || o.Release != spend.ReleaseDone {
		f.t.Fatalf("voided: %+v, %v, %v", o, replayed, err)
	}
}

// S40: a voided or failed check frees its action at once on every node, whatever nodes remember,
// also while windows are being loaded into Redis; once (F69, F70).
func TestReleasedActionIsFree(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		for i, lost := range []string{"", "before", "between", "after"} {
			action := refundOf(t, "10", fmt.Sprint("c-", i))
			first := f.check(0, action)
			id := first.answer.Check.ID.Text("chk_")
			for node := range f.nodes { // they have found it recorded
				if o := f.check(node, action); !o.names(id) {
					t.Fatalf("before the report: %s", o)
				}
			}
			if o, _, err := f.report(0, first, spend.Agent, spend.Voided); err != nil || o.Release != spend.ReleasePending {
				t.Fatalf("by an agent: %+v, %v", o, err)
			}
			if o := f.check(1, action); !o.names(id) {
				t.Errorf("after an agent's own report: %s", o)
			}
			if lost == "before" {
				f.flush()
			}
			if lost == "between" {
				f.flush()
				if o := f.check(1, action); !o.names(id) {
					t.Errorf("after the flush: %s", o)
				}
			}
			f.release(0, first)
			if lost == "after" {
				f.flush()
			}
			outcomes := f.checkAll(repeat(action, 8)...)
			if second := onePass(t, f, outcomes); second == nil || second.ID == first.answer.Check.ID {
				t.Errorf("lost %s: %v", lost, outcomes)
			}
		}
	})
}

// F68: a released check had succeeded a pass that longer windows still see.
func TestReleasedSuccessorLeavesLongerWindows(t *testing.T) {
	for _, lost := range []bool{false, true} {
		f := newFleet(t, embeddedBackend(), 2)
		f.post(0, "long", guardRules(60))
		f.post(0, "short", guardRules(5))
		a := refundOf(t, "10", "c")
		first := f.check(0, under(a, "long"))
		f.mini.Advance(10 * time.Minute)
		second := f.check(0, under(a, "short"))
		if !second.passed() {
			t.Fatal(second)
		}
		f.release(1, second)
		if lost {
			f.flush()
		}
		if o := f.check(1, under(a, "long")); !o.names(first.answer.Check.ID.Text("chk_")) {
			t.Errorf("redis lost=%t, the longer window: %s", lost, o)
		}
		if o := f.check(0, under(a, "short")); !o.passed() {
			t.Errorf("redis lost=%t, the shorter window: %s", lost, o)
		}
	}
}

// An orphan that was released is nobody's answer.
func TestReleasedOrphanIsNotGiven(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		action := refundOf(t, "10", "c")
		held, release := f.nodes[0].holdCommit(nil)
		lost := f.check(0, action)
		<-held
		if !errors.Is(lost.err, hotpath.ErrUnavailable) {
			t.Fatalf("answered before its commit: %s", lost)
		}
		release()
		f.eventually("the orphan is marked", func() bool {
			names := f.claims()
			return len(names) == 1 && strings.HasPrefix(f.redis.Get(context.Background(), names[0]).Val(), "O")
		})
		var passes []audit.LivePass
		f.eventually("the orphan is recorded", func() bool {
			passes, _ = f.store.PagePasses(context.Background(), spend.ID{}, 0, 2)
			return len(passes) == 1
		})
		f.release(1, outcome{answer: hotpath.Answer{Check: f.recorded(passes[0].CheckID)}})
		if o := f.check(1, action); !o.passed() || o.answer.Check.ID == passes[0].CheckID {
			t.Errorf("the next equal request: %s", o)
		}
	})
}

// S40: what several report at once, over two nodes and after a lost commit, is
// recorded and given back once (F3).
func TestOutcomeIsReportedOnce(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "b", budgetRules)
		action := func(counterparty string) spend.Action {
			a := refundOf(t, "60", counterparty)
			a.PolicyID, a.AgentID = "b", "agent-0"
			return a
		}
		kept := f.check(0, action("kept"))
		if !kept.passed() {
			t.Fatal(kept)
		}
		for i, lose := range []func(){
			func() {}, func() { f.nodes[0].loseAnswer(true) }, func() { f.nodes[0].loseAnswer(false) }, f.flush,
			func() { _ = f.store.Fence(t.Context(), f.nodes[0].guard.Node()) },
		} {
			first := f.check(0, action(fmt.Sprint("c-", i)))
			lose()
			var recorded atomic.Int64
			var wg sync.WaitGroup
			for n := range 6 {
				wg.Go(func() {
					o, replayed, err := f.report(n%2, first, spend.Executor, spend.Failed)
					if err != nil || o.Status != spend.Failed || o.Release != spend.ReleaseDone {
						t.Errorf("%d: %+v, %v", i, o, err)
					}
					if !replayed {
						recorded.Add(1)
					}
				})
			}
			wg.Wait()
			if recorded.Load() != 1 {
				t.Errorf("%d: answered as recorded %d times", i, recorded.Load())
			}
			if got := f.used(t, "b", "daily", `["agent-0"]`); got != "60 1" {
				t.Errorf("%d: used %s", i, got)
			}
			if _, _, err := f.report(1, first, spend.Executor, spend.Voided); !refused(err, 1) {
				t.Errorf("%d: another report: %v", i, err)
			}
		}
		f.nodes[0].faults.onCommit(func(context.Context, []*spend.Check, realCommit) error { return audit.ErrUnavailable })
		if _, _, err := f.report(0, kept, spend.Executor, spend.Failed); !errors.Is(err, hotpath.ErrUnavailable) {
			t.Errorf("without the store: %v", err)
		}
		f.nodes[0].faults.onCommit(nil)
		f.release(0, kept)
		if got := f.used(t, "b", "daily", `["agent-0"]`); got != "0 0" {
			t.Errorf("in the end %s", got)
		}
	})
}

// G12: a node that remembers a counter as exhausted notices what was given back (F63).
func TestReleaseMakesRoom(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "one", `[{"rule_id":"one","rule_type":"budget","parameters":{"max_count":1,"window":"lifetime"}}]`)
		action := func(counterparty string) spend.Action { return under(refundOf(t, "60", counterparty), "one") }
		first := f.check(0, action("a"))
		for node := range 2 {
			if o := f.check(node, action(fmt.Sprint("b-", node))); o.err != nil || o.answer.Check.Decision.Effect != spend.Block {
				t.Fatalf("beyond the budget: %s", o)
			}
		}
		f.release(1, first)
		var allowed int
		for _, o := range f.checkAll(action("c"), action("d"), action("e"), action("f")) {
			if o.err == nil && o.answer.Check.Decision.Effect == spend.Allow {
				allowed++
			}
		}
		if got := f.used(t, "one", "one", "[]"); allowed != 1 || got != "0 1" {
			t.Errorf("%d allowed, used %s", allowed, got)
		}
	})
}

// S61: who asked, by API key, principal or owner, as of the check and as of now, gives
// nothing back, and corrects nothing so.
func TestAskerGivesNothingBack(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "b", budgetRules)
		stored := func(g spend.Grants) (hotpath.Caller, *audit.Key) {
			raw, k, err := f.nodes[0].CreateKey(t.Context(), audit.Actor{}, hotpath.NewKey{Name: "test", RateLimitRPM: 10000, Grants: g})
			must.Do(t, err)
			return hotpath.KeyCaller([]byte(raw)), k
		}
		patch := func(k *audit.Key, g spend.Grants) {
			change := audit.KeyChange{Grants: spend.GrantsChange{Grants: g, Named: []string{"principal", "owner"}}}
			must.Get(f.store.UpdateKey(t.Context(), audit.Actor{}, k.ID, change))(t)
		}
		executor := func(principal, owner string) *audit.Key {
			return &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Executor, Principal: principal, Owner: owner}}
		}
		asked := spend.Grants{Role: spend.Agent, Principal: "Shop", Owner: "Till"}
		caller, asker := stored(asked)
		sameKey := executor("", "")
		sameKey.ID = asker.ID
		_, patched := stored(spend.Grants{Role: spend.Executor})
		less := refundOf(t, "1", "").Amount
		for i, c := range []struct {
			name string
			by   *audit.Key
			then func()
		}{
			{"key", sameKey, nil},
			{"principal", executor("shop", ""), nil},
			{"owner", executor("", "TILL"), nil},
			{"owner as principal", executor("till", "bank"), nil},
			{"before a patch", executor("shop", ""), func() { patch(asker, spend.Grants{Principal: "elsewhere"}) }},
			{"after a patch", executor("Elsewhere", ""), func() { patch(asker, spend.Grants{Principal: "elsewhere"}) }},
			{"patched as well", patched, func() { patch(patched, asked) }},
			{"", executor("psp", "bank"), nil},
		} {
			patch(asker, asked)
			action := under(refundOf(t, "60", fmt.Sprint("c-", i)), "b")
			action.AgentID = fmt.Sprint("agent-", i)
			check := f.checkBy(caller, 0, action)
			if c.then != nil {
				c.then()
			}
			want, used := spend.ReleasePending, "60 1"
			if c.name == "" {
				want, used = spend.ReleaseDone, "1 1"
			}
			if o, _, err := f.reportBy(0, check, c.by, hotpath.Report{Status: spend.Executed, Amount: &less}); err != nil || o.Release != want {
				t.Errorf("%s: of less: %+v, %v", c.name, o, err)
			}
			if got := f.used(t, "b", "daily", fmt.Sprintf("[%q]", action.AgentID)); got != used {
				t.Errorf("%s: used %s", c.name, got)
			}
			if _, _, err := f.reportBy(0, check, c.by, hotpath.Report{Status: spend.Voided}); !refused(err, 1) {
				t.Errorf("%s: beside its own: %v", c.name, err)
			}
			if c.name == "" {
				continue
			}
			f.release(0, check) // by somebody else, who names no report
			for n, said := range []hotpath.Report{{Status: spend.Executed, Supersedes: 2}, {Status: spend.Voided, Supersedes: 3}} {
				o, _, err := f.reportBy(0, check, c.by, said)
				if n == 0 && (err != nil || o.Number != 3) {
					t.Errorf("%s: it was executed: %+v, %v", c.name, o, err)
				}
				if n == 1 && !refused(err, 3) {
					t.Errorf("%s: it was not: %+v, %v", c.name, o, err)
				}
			}
			if got := f.used(t, "b", "daily", fmt.Sprintf("[%q]", action.AgentID)); got != "60 1" {
				t.Errorf("%s: in the end %s", c.name, got)
			}
		}
	})
}

// S39: an escalated check that was approved outside may be reported as executed by a key that may
// release. It took nothing from budgets and gives nothing back.
func TestUnapprovedOutcome(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "ask", `[{"rule_id":"people","rule_type":"escalate_if","parameters":{"amount_above":10}},
			{"rule_id":"one","rule_type":"budget","parameters":{"limit":1000,"currency":"USD","window":"lifetime"}}]`)
		check := f.check(0, under(refundOf(t, "60", "c"), "ask"))
		for _, no := range []struct {
			role   spend.Role
			status spend.Status
		}{{spend.Agent, spend.Executed}, {spend.Executor, spend.Voided}, {spend.Executor, spend.Failed}} {
			if _, _, err := f.report(0, check, no.role, no.status); !errors.Is(err, hotpath.ErrNotAllowed) {
				t.Errorf("%s by %s: %v", no.status, no.role, err)
			}
		}
		o, _, err := f.report(0, check, spend.Executor, spend.Executed)
		if err != nil || o.Excess != spend.Unapproved || o.Release != spend.ReleaseNone {
			t.Errorf("%+v, %v", o, err)
		}
		if _, _, err := f.report(0, check, spend.Agent, spend.Executed); !errors.Is(err, hotpath.ErrNotAllowed) {
			t.Errorf("beside it, by an agent: %v", err)
		}
		o, _, err = f.reportBy(0, check, &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Executor}},
			hotpath.Report{Status: spend.Voided, Supersedes: 1})
		if err != nil || o.Release != spend.ReleaseNone || o.Excess != "" {
			t.Errorf("corrected: %+v, %v", o, err)
		}
		if got := f.used(t, "ask", "one", "[]"); got != "0 0" {
			t.Errorf("used %s", got)
		}
	})
}
