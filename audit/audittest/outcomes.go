package audittest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
)

// report returns an outcome of the check, by a key that may or may not release.
func report(f spend.Fence, of *spend.Check, number int, status spend.Status, mayRelease bool) *spend.Outcome {
	o := &spend.Outcome{
		ID: spend.NewOutcomeID(now()), CheckID: of.ID, Step: number, Number: number, Status: status, KeyID: "key_0",
		RequestID: "req_0123456789ab", Fence: f, Check: of,
	}
	if status == spend.Executed {
		o.Amount = of.Action.Amount
	}
	o.SetRelease(mayRelease)
	return o
}

// moved changes a report to another amount.
func moved(o *spend.Outcome, text string, mayRelease bool) *spend.Outcome {
	if o.Amount = (spend.Amount{}); o.Status == spend.Executed {
		o.Amount = amount(text)
	}
	o.SetRelease(mayRelease)
	return o
}

func mustReport(t testing.TB, s audit.Store, outcomes ...*spend.Outcome) {
	t.Helper()
	must(t, RecordAll(t.Context(), s, nil, outcomes...))
}

// mustRefuseReport demands that nothing is recorded, because exactly these checks have outcomes.
func mustRefuseReport(t *testing.T, s Subject, checks []*spend.Check, outcomes []*spend.Outcome, want ...*spend.Check) {
	t.Helper()
	before := reported(t, s, outcomes)
	err := RecordAll(t.Context(), s, checks, outcomes...)
	refused, ok := errors.AsType[*audit.ReportedError](err)
	if !ok || len(refused.CheckIDs) != len(want) {
		t.Fatalf("got %v, want a refusal of %d", err, len(want))
	}
	for _, c := range want {
		if !slices.Contains(refused.CheckIDs, c.ID) {
			t.Errorf("%v does not name %s", refused.CheckIDs, c.ID.Text(spend.PrefixCheck))
		}
	}
	mustLack(t, s, checks...)
	if after := reported(t, s, outcomes); !reflect.DeepEqual(after, before) {
		t.Errorf("there are %v, and were %v", after, before)
	}
}

func reported(t *testing.T, s Subject, of []*spend.Outcome) []*spend.Outcome {
	t.Helper()
	var ids []spend.ID
	for _, o := range of {
		ids = append(ids, o.CheckID)
	}
	found := get(s.Outcomes(t.Context(), ids))(t)
	return found
}

// outcomesComeBack: every field is read back, and the reports of a check in their order.
func outcomesComeBack(t *testing.T, s Subject) {
	f := fence(t, s)
	checks := []*spend.Check{newCheck(f), newCheck(f), newCheck(f), newCheck(f)}
	mustCommit(t, s, checks...)
	pending := report(f, checks[0], 1, spend.Failed, false)
	pending.Reference, pending.Note, pending.Principal = "psp-1 – ゼロ", "declined\n", "Kasse"
	final := report(f, checks[0], 2, spend.Executed, true)
	want := []*spend.Outcome{
		pending, final, report(f, checks[1], 1, spend.Voided, true),
		moved(report(f, checks[2], 1, spend.Executed, true), "0.000000001", true),
		moved(report(f, checks[3], 1, spend.Executed, true), "999999999999999999", false),
	}
	mustReport(t, s, want[0], want[2], want[3], want[4])
	mustReport(t, s, final)
	got, err := s.Outcomes(t.Context(), append(idsOf(checks), spend.NewID(now())))
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d outcomes, %v", len(got), err)
	}
	slices.SortStableFunc(got, func(a, b *spend.Outcome) int { return slices.Compare(a.CheckID[:], b.CheckID[:]) })
	slices.SortStableFunc(want, func(a, b *spend.Outcome) int { return slices.Compare(a.CheckID[:], b.CheckID[:]) })
	for i, o := range want {
		o.Check, o.Follows = nil, nil
		if !reflect.DeepEqual(got[i], o) {
			t.Errorf("came back\n%+v\nwant\n%+v", got[i], o)
		}
	}
	if none, err := s.Outcomes(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("of no checks: %v, %v", none, err)
	}
}

// outcomesAreReportedOnce: each report follows the last; a report by a key that may not release
// must be the first; a refused commit writes nothing (F65).
func outcomesAreReportedOnce(t *testing.T, s Subject) {
	f := fence(t, s)
	checks := make([]*spend.Check, 6)
	for i := range checks {
		checks[i] = charged(newCheck(f), charge("day", fmt.Sprintf(`["%d"]`, i), "100"))
	}
	mustCommit(t, s, checks...)
	mustReport(t, s, report(f, checks[0], 1, spend.Voided, true), report(f, checks[1], 1, spend.Failed, false),
		moved(report(f, checks[2], 1, spend.Executed, false), "1000", false), report(f, checks[3], 1, spend.Executed, false))
	mustRefuseReport(t, s, []*spend.Check{charged(newCheck(f), charge("day", `["0"]`, "100"))},
		[]*spend.Outcome{
			report(f, checks[0], 1, spend.Voided, true), report(f, checks[4], 1, spend.Voided, true), report(f, checks[1], 1, spend.Voided, true),
		},
		checks[0], checks[1])
	for _, refused := range []*spend.Outcome{
		report(f, checks[0], 2, spend.Executed, false), report(f, checks[3], 2, spend.Voided, false), // by who may not release
		report(f, checks[0], 3, spend.Executed, true), report(f, checks[5], 2, spend.Voided, true), // beside no other
		report(f, checks[0], 1, spend.Executed, false),
	} {
		mustRefuseReport(t, s, nil, []*spend.Outcome{refused}, refused.Check)
	}
	mustUse(t, s, checks[0].Charges[0], "0", 0)
	mustUse(t, s, checks[4].Charges[0], "100", 1)
	mustReport(t, s, report(f, checks[1], 2, spend.Voided, true), report(f, checks[2], 2, spend.Executed, true))
	mustRefuseReport(t, s, nil, []*spend.Outcome{report(f, checks[1], 2, spend.Voided, true), report(f, checks[2], 3, spend.Voided, true)},
		checks[1])
	mustUse(t, s, checks[1].Charges[0], "0", 0)
	mustUse(t, s, checks[2].Charges[0], "100", 1)

	stale := f
	stale.Epoch = spend.NewID(now())
	if err := RecordAll(t.Context(), s, nil, report(stale, checks[4], 1, spend.Voided, true)); !errors.Is(err, audit.ErrStaleEpoch) {
		t.Errorf("of another epoch: %v", err)
	}
	must(t, s.Fence(t.Context(), f.Node))
	if err := RecordAll(t.Context(), s, nil, report(f, checks[4], 1, spend.Voided, true)); !errors.Is(err, audit.ErrFencedNode) {
		t.Errorf("of a node that is fenced: %v", err)
	}
	mustUse(t, s, checks[4].Charges[0], "100", 1)
}

// outcomesCorrectCounters: reports correct the window and the bucket in which the check counted, if
// these still exist.
func outcomesCorrectCounters(t *testing.T, s Subject) {
	f := fence(t, s)
	earlier(t, s, f)
	day, all := charge("day", `["agent-1"]`, "125.5"), charge("all", "[]", "125.5")
	times := charge("times", "[]", "0")
	times.Limited, times.NoCurrency = false, true
	rolling := charge("rolling", "[]", "125.5")
	rolling.Counter.StartMS, rolling.Counter.BucketMS = 6_000_000, 60_000
	ended := charge("ended", "[]", "125.5")
	ended.EndMS = now().Add(-audit.KeepCounters - time.Minute).UnixMilli()
	charges := []spend.Charge{day, all, times, rolling, ended}
	checks := make([]*spend.Check, 6)
	for i := range checks {
		checks[i] = charged(newCheck(f), charges...)
	}
	mustCommit(t, s, checks...)
	must(t, s.Tidy(t.Context(), now()))
	used := func(money string, count int64) {
		t.Helper()
		mustUse(t, s, day, money, count)
		mustUse(t, s, all, money, count)
		mustUse(t, s, rolling, money, count)
		mustUse(t, s, times, "0", count)
		mustUse(t, s, ended, "0", 0)
	}
	used("753", 6)
	later := rolling
	later.Counter.StartMS += 60_000
	// A commit cannot use the room that its own outcomes give back.
	full := day
	full.Amount = amount("300")
	err := RecordAll(t.Context(), s, []*spend.Check{charged(newCheck(f), full)}, report(f, checks[0], 1, spend.Voided, true))
	if exceeded, ok := errors.AsType[*audit.ExceededError](err); !ok || exceeded.Usages[0] != usage(day, "753", 6) {
		t.Fatalf("got %v", err)
	}
	used("753", 6)
	other := charge("other", "[]", "5")
	err = RecordAll(t.Context(), s, []*spend.Check{charged(newCheck(f), day, other)}, report(f, checks[0], 1, spend.Voided, true))
	if err != nil {
		t.Fatal(err)
	}
	mustUse(t, s, day, "753", 6)
	mustUse(t, s, other, "5", 1)
	mustUse(t, s, rolling, "627.5", 5)
	mustUse(t, s, later, "627.5", 5)
	mustCommit(t, s, charged(newCheck(f), all, times, rolling)) // as before
	used("753", 6)

	mustReport(t, s, report(f, checks[1], 1, spend.Failed, true), moved(report(f, checks[2], 1, spend.Executed, true), "125.4", true))
	used("627.4", 5)
	mustReport(t, s, report(f, checks[3], 1, spend.Executed, true), report(f, checks[4], 1, spend.Failed, false))
	used("627.4", 5)
	mustReport(t, s, moved(report(f, checks[4], 2, spend.Executed, true), "1125.5", true),
		moved(report(f, checks[5], 1, spend.Executed, false), "1000", false))
	used("1627.4", 5)
	mustExceed(t, s, []*spend.Check{charged(newCheck(f), charge("day", `["agent-1"]`, "0"))}, usage(day, "1627.4", 5))

	// More was moved than the amount of 0.
	free := charge("free", "[]", "0")
	check := charged(newCheck(f), free, times)
	check.Action.Amount = amount("0")
	mustCommit(t, s, check)
	mustReport(t, s, moved(report(f, check, 1, spend.Executed, true), "7", true))
	mustUse(t, s, free, "7", 1)
	mustUse(t, s, times, "0", 6)
}

// outcomesRace lets nodes void the same checks while others take from the same counters: each check
// is given back once.
func outcomesRace(t *testing.T, s Subject) {
	const nodes, checks = 3, 24
	budgets := func(i int) []spend.Charge {
		own, shared, rolling := charge("own", fmt.Sprintf(`["%d"]`, i%3), "1"), charge("shared", "[]", "1"),
			charge("rolling", fmt.Sprintf(`["%d"]`, i%2), "1")
		rolling.Counter.BucketMS = 1000
		charges := []spend.Charge{own, shared, rolling}
		for n := range charges {
			charges[n].Counted = false
		}
		return charges
	}
	f := fence(t, s)
	taken := make([]*spend.Check, checks)
	for i := range taken {
		taken[i] = charged(newCheck(f), budgets(i)...)
	}
	mustCommit(t, s, taken...)
	var released, more atomic.Int64
	var wg sync.WaitGroup
	for range nodes {
		w, f := NewWriter(t, s), fence(t, s)
		for i, c := range taken {
			wg.Go(func() {
				switch err := w.AppendOutcome(report(f, c, 1, spend.Voided, true)).Wait(time.Now().Add(time.Minute)); {
				case err == nil:
					released.Add(1)
				case !errors.Is(err, commit.ErrReported):
					t.Error(err)
				}
			})
			wg.Go(func() {
				if err := w.Append(charged(newCheck(f), budgets(i+1)...)).Wait(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
				more.Add(1)
			})
		}
	}
	wg.Wait()
	if released.Load() != checks || more.Load() != nodes*checks {
		t.Errorf("%d of %d were released, %d taken", released.Load(), checks, more.Load())
	}
	mustUse(t, s, charge("shared", "[]", "0"), fmt.Sprint(more.Load()), more.Load())
}

// releasedPasses: a voided or failed check is no longer a pass (F70, F83).
func releasedPasses(t *testing.T, s Subject) {
	f := fence(t, s)
	older, latest, blocks := newCheck(f), newCheck(f), blocked(newCheck(f))
	latest.Fingerprint = older.Fingerprint
	pending, less, gone, none := newCheck(f), newCheck(f), newCheck(f), blocked(newCheck(f))
	none.Pass = spend.Pass{} // blocked as exceeded
	mustCommit(t, s, older)
	mustCommit(t, s, latest, blocks, pending, less, gone, none)
	mustReport(t, s, report(f, latest, 1, spend.Voided, true), report(f, pending, 1, spend.Failed, false),
		moved(report(f, less, 1, spend.Executed, true), "1", true), report(f, gone, 1, spend.Failed, true))

	// The use of an approval is given back, and with it the pass of the check that asked.
	asked := asking(f, 1)
	mustCommit(t, s, asked)
	mustDecide(t, s, decision(asked, "bob", true), audit.DecisionRecorded)
	use := using(f, asked)
	use.Fingerprint = asked.Fingerprint
	mustCommit(t, s, use)
	if states, err := s.PassStates(t.Context(), []spend.ID{asked.ID}); err != nil || states[asked.ID] != audit.PassAsking {
		t.Errorf("before the use is given back: %v, %v", states, err)
	}
	mustReport(t, s, report(f, use, 1, spend.Voided, true))

	all := []*spend.Check{older, latest, blocks, pending, less, gone, none, asked, use}
	states, err := s.PassStates(t.Context(), append(idsOf(all), spend.NewID(now())))
	if want := map[spend.ID]audit.PassState{
		older.ID: audit.PassReleasable, latest.ID: audit.PassReleased, blocks.ID: audit.PassFinal, pending.ID: audit.PassReleasable,
		less.ID: audit.PassReleasable, gone.ID: audit.PassReleased, none.ID: audit.PassReleased,
		asked.ID: audit.PassReleased, use.ID: audit.PassReleased,
	}; err != nil || !maps.Equal(states, want) {
		t.Errorf("states %v, %v; want %v", states, err, want)
	}
	at := now().UnixMilli()
	live, err := s.LivePasses(t.Context(), []spend.Hash{
		older.Fingerprint, blocks.Fingerprint, pending.Fingerprint, less.Fingerprint, gone.Fingerprint, use.Fingerprint,
	}, spend.ID{}, at, spend.Block)
	page, pageErr := s.PagePasses(t.Context(), spend.ID{}, at, 100)
	if err = errors.Join(err, pageErr); err != nil || len(live) != 4 || len(page) != 4 {
		t.Errorf("live %v, in pages %v, %v", live, page, err)
	}
	for _, c := range []*spend.Check{older, blocks, pending, less} {
		if live[c.Fingerprint] != livePass(c) || !slices.Contains(page, livePass(c)) {
			t.Errorf("%+v is missing of %v, or of %v", livePass(c), live, page)
		}
	}
}
