package audittest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// charge returns a charge on a budget of 1,000 that may be used 20 times.
func charge(ruleID, subject, takes string) spend.Charge {
	return spend.Charge{
		Counter: spend.Counter{ID: spend.CounterID("refunds", ruleID, 1, subject), StartMS: epochStart.UnixMilli()},
		RuleID:  ruleID, Since: 1, Subject: subject, Amount: amount(takes),
		Limited: true, Limit: amount("1000").Total(), Counted: true, MaxCount: 20, EndMS: now().Add(time.Hour).UnixMilli(),
	}
}

func charged(c *spend.Check, charges ...spend.Charge) *spend.Check {
	c.Charges = charges
	return c
}

func mustUse(t *testing.T, s Subject, of spend.Charge, used string, count int64) {
	t.Helper()
	total := get(spend.ParseTotal(used))(t)
	got, err := s.CounterUsages(t.Context(), []spend.Counter{of.Counter})
	if err != nil || len(got) != 1 || got[0] != (spend.Usage{Used: total, Count: count}) {
		t.Errorf("%s of %s: got %+v, %v; want %s, %d times", of.RuleID, of.Subject, got, err, used, count)
	}
}

// mustExceed demands that nothing is recorded, because exactly these charges have no room.
func mustExceed(t *testing.T, s Subject, checks []*spend.Check, want ...audit.CounterUsage) {
	t.Helper()
	mustBeExceeded(t, s, Record(t.Context(), s, checks...), checks, want...)
}

// mustBeExceeded demands that a commit of checks had that error.
func mustBeExceeded(t *testing.T, s Subject, err error, checks []*spend.Check, want ...audit.CounterUsage) {
	t.Helper()
	exceeded, ok := errors.AsType[*audit.ExceededError](err)
	if !ok || len(exceeded.Usages) != len(want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	for _, u := range want {
		if !slices.Contains(exceeded.Usages, u) {
			t.Errorf("got %+v, want %+v", exceeded.Usages, u)
		}
	}
	found, err := s.Checks(t.Context(), idsOf(checks))
	if err != nil || len(found) > 0 {
		t.Errorf("recorded %v, %v", found, err)
	}
}

func idsOf(checks []*spend.Check) (ids []spend.ID) {
	for _, c := range checks {
		ids = append(ids, c.ID)
	}
	return ids
}

func usage(of spend.Charge, used string, count int64) audit.CounterUsage {
	return audit.CounterUsage{Counter: of.Counter, Usage: spend.Usage{Used: amount(used).Total(), Count: count}}
}

// budgetsAreTaken: allowed checks take; an amount may reach the limit exactly; and a commit that
// would exceed it writes nothing (F137).
func budgetsAreTaken(t *testing.T, s Subject) {
	f := fence(t, s)
	day := func(takes string) spend.Charge { return charge("day", `["agent-1"]`, takes) }
	all := func(takes string) spend.Charge { return charge("all", "[]", takes) }
	first := charged(newCheck(f), day("600"), all("600"))
	mustCommit(t, s, first, charged(blocked(newCheck(f)), day("999")), charged(escalated(newCheck(f)), day("400")))
	mustUse(t, s, day("0"), "600", 1)
	stored := lookUp(t, s, first)[first.ID]
	for i := range stored.Charges {
		want := first.Charges[i]
		want.Limited, want.Limit, want.Counted, want.MaxCount = false, spend.Total{}, false, 0
		if !reflect.DeepEqual(stored.Charges[i], want) {
			t.Errorf("stored %+v, want %+v", stored.Charges[i], want)
		}
	}

	// An escalated check only compares, and the checks of a batch are judged in order.
	mustExceed(t, s, []*spend.Check{charged(escalated(newCheck(f)), day("400.01"))}, usage(day("0"), "600", 1))
	mustExceed(t, s, []*spend.Check{charged(newCheck(f), day("200")), charged(newCheck(f), day("200.000000001"))}, usage(day("0"), "600", 1))
	mustCommit(t, s, charged(newCheck(f), day("200")), charged(escalated(newCheck(f)), day("200")), charged(newCheck(f), day("200")))
	mustUse(t, s, day("0"), "1000", 3)

	// All or nothing: the other budget keeps its use, and each charge without room is named.
	fresh := charge("fresh", `["x"]`, "1000.1")
	mustExceed(t, s, []*spend.Check{charged(newCheck(f), day("0.1"), all("0.1"), fresh)}, usage(day("0"), "1000", 3), usage(fresh, "0", 0))
	mustUse(t, s, all("0"), "600", 1)
	mustUse(t, s, fresh, "0", 0)

	// A lifted charge counts, even above the limit.
	lifted := day("50")
	lifted.Lifted = true
	mustCommit(t, s, charged(newCheck(f), lifted))
	mustUse(t, s, day("0"), "1050", 4)
	mustExceed(t, s, []*spend.Check{charged(newCheck(f), day("0"))}, usage(day("0"), "1050", 4))

	// Rules of the time zone that move the window open no other.
	moved := all("400.01")
	moved.OffsetMS, moved.EndMS = -7*3_600_000, moved.EndMS+3_600_000
	mustExceed(t, s, []*spend.Check{charged(newCheck(f), moved)}, usage(all("0"), "600", 1))
	moved.Amount = amount("400")
	last := charged(newCheck(f), moved)
	mustCommit(t, s, last)
	mustUse(t, s, all("0"), "1000", 2)
	if stored := lookUp(t, s, last)[last.ID].Charges[0]; stored.OffsetMS != moved.OffsetMS || stored.BeginMS() != moved.BeginMS() {
		t.Errorf("stored %+v, want %+v", stored, moved)
	}

	// A budget that allows no use.
	never := charge("never", "[]", "1")
	never.MaxCount = 0
	mustExceed(t, s, []*spend.Check{charged(newCheck(f), never)}, usage(never, "0", 0))
}

// budgetsRace lets nodes take 60 at a time from budgets of 1,000 and from one that all share.
func budgetsRace(t *testing.T, s Subject) {
	const nodes, each = 4, 12
	var allowed [nodes]atomic.Int64
	var wg sync.WaitGroup
	rolling := func(takes string) spend.Charge {
		c := charge("rolling", "[]", takes)
		c.Counter.BucketMS = 1000
		return c
	}
	for node := range nodes {
		w, f := NewWriter(t, s), fence(t, s)
		for i := range 2 * each {
			wg.Go(func() {
				own := charge("own", fmt.Sprintf(`["agent-%d"]`, i%2), "60")
				own.Counted = false
				shared := charge("shared", "[]", "60")
				shared.Counted = false
				shared.Limit = amount("1830").Total()
				c := charged(newCheck(f), own, shared, rolling("0.01"))
				c.Charges[2].MaxCount = 29
				err := w.Append(c).Wait(time.Now().Add(time.Minute))
				if _, exceeded := errors.AsType[*audit.ExceededError](err); err != nil && !exceeded {
					t.Error(err)
				}
				if err == nil {
					allowed[node].Add(1)
				}
			})
		}
	}
	wg.Wait()
	var sum int64
	for node := range nodes {
		sum += allowed[node].Load()
	}
	if sum != 29 { // of the 32 that two agents may have, and 30 in all
		t.Errorf("%d were allowed", sum)
	}
	mustUse(t, s, charge("shared", "[]", "0"), fmt.Sprint(60*sum), sum)
	mustUse(t, s, rolling("0"), "0.29", 29)
	if n := s.Count(t, "SELECT count(*) FROM checks"); n != int(sum) {
		t.Errorf("%d checks", n)
	}
}

// counterListing pages through the used counters by subject.
func counterListing(t *testing.T, s Subject) {
	ctx, f := t.Context(), fence(t, s)
	for i := range 5 {
		for range i {
			c := charged(newCheck(f), charge("day", fmt.Sprintf(`["agent-%d","c\"%d"]`, i, i%2), "10"))
			c.Principal = fmt.Sprint("team-", i%2)
			mustCommit(t, s, c)
		}
	}
	q := audit.CounterQuery{
		PolicyID: "refunds", RuleID: "day", Since: 1, StartMS: epochStart.UnixMilli(), Subject: make([][]string, 2), Limit: 3,
	}
	subjects := func(q audit.CounterQuery, wantMore bool) (got []string) {
		t.Helper()
		page, more, err := s.ListCounters(ctx, q)
		if err != nil || more != wantMore {
			t.Errorf("%+v: %v, more: %v", q, err, more)
		}
		for _, u := range page {
			got = append(got, fmt.Sprint(u.Subject, u.Used, u.Count))
		}
		return got
	}
	first := subjects(q, true)
	q.After = `["agent-3","c\"1"]`
	second := subjects(q, false)
	want := []string{`["agent-1","c\"1"]10 1`, `["agent-2","c\"0"]20 2`, `["agent-3","c\"1"]30 3`, `["agent-4","c\"0"]40 4`}
	if got := append(first, second...); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	q.After = ""
	bySubject, byPrincipal, byBoth, named := q, q, q, q
	bySubject.Subject = [][]string{nil, {"other", `c"1`}}
	byPrincipal.Principal = "team-1"
	named.Subject = [][]string{{"agent-3", "agent-1", "agent-2"}, {`c"1`, "other"}}
	byBoth.Subject, byBoth.Principal = [][]string{{"agent-1", "agent-2", "agent-3"}, {`c"0`, `c"1`}}, "team-1"
	for _, q := range []audit.CounterQuery{bySubject, byPrincipal, byBoth, named} {
		if got := subjects(q, false); !slices.Equal(got, []string{want[0], want[2]}) {
			t.Errorf("%+v: got %q", q, got)
		}
	}
	for _, change := range []func(*audit.CounterQuery){
		func(q *audit.CounterQuery) { q.StartMS++ }, func(q *audit.CounterQuery) { q.Since++ },
		func(q *audit.CounterQuery) { q.RuleID = "other" }, func(q *audit.CounterQuery) { q.PolicyID = "other" },
	} {
		for _, other := range []audit.CounterQuery{q, named} {
			if change(&other); subjects(other, false) != nil {
				t.Errorf("%+v has counters", other)
			}
		}
	}
}

// countersExpire: no counter that a check may still take from is removed.
func countersExpire(t *testing.T, s Subject) {
	f := fence(t, s)
	earlier(t, s, f)
	kept, ended, lifetime := charge("kept", "[]", "1"), charge("ended", "[]", "1"), charge("lifetime", "[]", "1")
	ended.EndMS = now().Add(-audit.KeepCounters - time.Minute).UnixMilli()
	lifetime.EndMS = 0
	mustCommit(t, s, charged(newCheck(f), kept, ended, lifetime))
	must(t, s.Tidy(t.Context(), now()))
	mustUse(t, s, kept, "1", 1)
	mustUse(t, s, lifetime, "1", 1)
	mustUse(t, s, ended, "0", 0)
}

// principalsExpire: a counter whose last window was removed has met nobody; a counter with another
// window still remembers whose checks it met in the removed ones (F86).
func principalsExpire(t *testing.T, s Subject) {
	const day, bucket = 24 * 60 * 60 * 1000, 60_000
	f, today := fence(t, s), now().UnixMilli()/day*day
	old := now().Add(-audit.KeepCounters - time.Minute).UnixMilli()
	earlier(t, s, f)
	commit := func(principal string, at, end int64) {
		t.Helper()
		calendar, rolling := charge("calendar", "[]", "1"), charge("rolling", "[]", "1")
		calendar.Counter.StartMS, rolling.Counter.StartMS, rolling.Counter.BucketMS = at, at, bucket
		calendar.EndMS, rolling.EndMS = end, end
		c := charged(newCheck(f), calendar, rolling)
		c.Principal = principal
		mustCommit(t, s, c)
	}
	mustMeet := func(principal string, want bool) {
		t.Helper()
		for rule, length := range map[string]int64{"calendar": 0, "rolling": bucket} {
			got, _, err := s.ListCounters(t.Context(), audit.CounterQuery{
				PolicyID: "refunds", RuleID: rule, Since: 1, StartMS: today, BucketMS: length, Principal: principal, Limit: 1,
			})
			if err != nil || (len(got) == 1) != want {
				t.Errorf("%s met %s: %v, %v; want %v", rule, principal, got, err, want)
			}
			id := spend.CounterID("refunds", rule, 1, "[]")
			if met, err := s.CountersMet(t.Context(), principal, []spend.ID{{1}, id}); err != nil || (len(met) == 1 && met[0] == id) != want ||
				len(met) > 1 {
				t.Errorf("%s met %s: %v, %v; want %v", rule, principal, met, err, want)
			}
		}
	}
	for _, principal := range []string{"ann", "bob"} {
		commit(principal, today-30*day, old)
		commit(principal, today-31*day, old)
	}
	must(t, s.Tidy(t.Context(), now()))
	commit("ann", today, today+day)
	mustMeet("ann", true)
	mustMeet("bob", false)
	commit("cleo", today-30*day, old)
	must(t, s.Tidy(t.Context(), now()))
	mustMeet("cleo", true)
}

// budgetsCountSince: an unchanged budget goes on counting.
func budgetsCountSince(t *testing.T, s Subject) {
	ctx := t.Context()
	type identities = map[string][]spend.Hash
	create := func(given identities, at time.Time) map[string]spend.BudgetSince {
		t.Helper()
		p := newPolicy("refunds")
		must(t, s.CreatePolicy(ctx, actor(), p, audit.NewBudgets{Identities: given}, at))
		read, err := s.Policy(ctx, "refunds", p.Version)
		if err != nil || !reflect.DeepEqual(read, p) {
			t.Errorf("read %+v, %v; created %+v", read, err, p)
		}
		return p.Budgets
	}
	day := func(version int, b byte) spend.BudgetSince {
		return spend.BudgetSince{Identity: spend.Hash{b}, Version: version, At: epochStart.Add(time.Duration(version) * time.Hour)}
	}
	for version, c := range []struct {
		given identities
		want  map[string]spend.BudgetSince
	}{
		{nil, nil},
		{identities{"a": {{1}}, `b"`: {{2}}}, map[string]spend.BudgetSince{"a": day(1, 1), `b"`: day(1, 2)}},
		{identities{"a": {{1}}, `b"`: {{3}}}, map[string]spend.BudgetSince{"a": day(1, 1), `b"`: day(2, 3)}},
		{identities{`b"`: {{3}}}, map[string]spend.BudgetSince{`b"`: day(2, 3)}},
		{identities{"a": {{1}}, `b"`: {{4}, {3}}}, map[string]spend.BudgetSince{"a": day(4, 1), `b"`: day(2, 3)}},
		{identities{"a": {{5}, {6}}, `b"`: {{3}, {4}}}, map[string]spend.BudgetSince{"a": day(5, 5), `b"`: day(2, 3)}},
	} {
		for id, want := range c.want { // versions begin at 1
			want.Version++
			c.want[id] = want
		}
		if got := create(c.given, epochStart.Add(time.Duration(version)*time.Hour)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("version %d: got %+v, want %+v", version+1, got, c.want)
		}
	}
}

// budgetsInUse: a version is refused if it ends a budget that has used open counters, unless the
// budget is dropped (S63).
func budgetsInUse(t *testing.T, s Subject) {
	ctx, f := t.Context(), fence(t, s)
	create := func(want string, rules, drop []string) {
		t.Helper()
		b := audit.NewBudgets{Identities: make(map[string][]spend.Hash), Drop: drop}
		for _, id := range rules {
			b.Identities[id] = []spend.Hash{{byte(len(id))}}
		}
		before, _ := s.Policy(ctx, "refunds", 0)
		err := s.CreatePolicy(ctx, actor(), newPolicy("refunds"), b, now())
		got := "stored"
		if inUse, ok := errors.AsType[*audit.BudgetsInUseError](err); ok {
			got = fmt.Sprint("in use ", inUse.RuleIDs)
		} else if notEnded, ok := errors.AsType[*audit.NotEndedError](err); ok {
			got = fmt.Sprint("not ended ", notEnded.RuleIDs)
		} else if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q, dropping %q: %s; want %s", rules, drop, got, want)
		}
		if after, err := s.Policy(ctx, "refunds", 0); err != nil || before != nil && got != "stored" && after.Version != before.Version {
			t.Errorf("refused, and version %d is there, %v", after.Version, err)
		}
	}
	all := []string{"all", "ended", "lifetime", "other", "over", "rolling", "unused"}
	create("stored", all, nil)
	lifetime, ended, over, rolling := charge("lifetime", "[]", "0"), charge("ended", "[]", "5"), charge("over", "[]", "5"),
		charge("rolling", "[]", "5")
	lifetime.EndMS, ended.EndMS = 0, now().Add(-time.Second).UnixMilli()
	rolling.Counter.StartMS, rolling.Counter.BucketMS = now().Add(-time.Hour).UnixMilli(), 60_000
	over.Since = 2 // of another version
	taken := charged(newCheck(f), charge("all", "[]", "5"), lifetime, ended, over, rolling)
	other := charged(newCheck(f), charge("other", `["a"]`, "5"))
	mustCommit(t, s, taken, other)
	elsewhere := charged(newCheck(f), charge("unused", "[]", "5"))
	elsewhere.Action.PolicyID = "another"
	mustCommit(t, s, elsewhere)

	create("in use [all lifetime other rolling]", nil, nil)
	create("in use [lifetime]", []string{"all", "other", "rolling"}, nil)
	create("in use [other rolling]", nil, []string{"lifetime", "all"})
	create(`not ended [nobody all]`, []string{"all"}, []string{"nobody", "lifetime", "all"})
	mustReport(t, s, report(f, other, 1, spend.Voided, true)) // nothing is used any more
	create("stored", []string{"all", "lifetime", "rolling"}, nil)
	create("not ended [other]", []string{"all", "lifetime", "rolling"}, []string{"other"})
	create("stored", []string{"all", "rolling"}, []string{"lifetime"})
	create("in use [all rolling]", nil, nil)
	create("stored", nil, []string{"rolling", "all"})
	create("stored", all, nil) // which count anew
	create("stored", nil, nil)
	changes := mustRecord(t, s, audit.ChangeQuery{PolicyID: "refunds"})
	if got := details(t, changes[3].Details); got != details(t, `{"name":"`+newPolicy("").Name+`","drop_budgets":["rolling","all"]}`) {
		t.Errorf("the record has %s", got)
	}
}
