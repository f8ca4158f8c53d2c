package hotpath_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
	"spendgate/hotpath/report"
)

func (f *fleet) draft(node int, policyID, rules string) *audit.Draft {
	f.t.Helper()
	d := &audit.Draft{PolicyID: policyID, Name: "next", Rules: rules}
	must.Do(f.t, f.nodes[node].PutDraft(f.t.Context(), hotpath.Access{}, audit.Actor{}, d, nil, nil))
	return d
}

// draftReport returns the report of a draft once it is known.
func (f *fleet) draftReport(node int, policyID string) (*hotpath.DraftReport, *report.Report) {
	f.t.Helper()
	r, err := f.nodes[node].DraftReport(f.t.Context(), hotpath.Access{}, policyID)
	must.Do(f.t, err)
	f.run(r.Backtest.ID)
	r, err = f.nodes[node].DraftReport(f.t.Context(), hotpath.Access{}, policyID)
	if err != nil || r.Backtest.Status != audit.BacktestSucceeded {
		f.t.Fatalf("%+v, %v", r, err)
	}
	known := must.Get(report.Parse(r.Backtest.Report))(f.t)
	return r, known
}

// S54: a draft decides nothing. Its report, from any node, tells what it would have made of each check since
// it was put, by what was recorded.
func TestDraftReport(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		const day = `[{"rule_id":"day","rule_type":"budget","parameters":{"limit":%d,"currency":"USD","window":"lifetime"}}]`
		f.post(0, "p", fmt.Sprintf(day, 200))
		f.check(0, refundOf(t, "60", "before"))
		time.Sleep(2 * time.Millisecond) // a period is of whole milliseconds
		f.draft(0, "p", fmt.Sprintf(day, 100))
		r, err := f.nodes[1].DraftReport(t.Context(), hotpath.Access{}, "p")
		if err != nil || r.Backtest.Report != "" || r.Backtest.Status != audit.BacktestQueued || r.Flips != nil {
			t.Errorf("before anything is known: %+v, %v", r, err)
		}
		f.run(r.Backtest.ID)
		var last outcome
		for i := range 3 { // of 200 there is room for two, of 100 for none: the draft's budget goes on with that in force
			last = f.check(i%2, refundOf(t, "60", fmt.Sprint("c-", i)))
		}
		if last.err != nil || last.answer.Check.Decision.Effect != spend.Block {
			t.Errorf("the third is %+v", last)
		}
		if usages, err := f.store.CounterUsages(t.Context(), []spend.Counter{{ID: spend.CounterID("p", "day", 2, "[]")}}); err != nil ||
			usages[0].Used.String() != "180" {
			t.Errorf("the budget in force has %+v, %v", usages, err)
		}
		must.Do(t, f.store.ContinueBacktest(t.Context(), r.Backtest.ID, time.Now().Add(time.Millisecond), time.Now(), 0))
		r, known := f.draftReport(1, "p")
		if c := known.Coverage; c.Checks != 3 || c.Compared != 3 || known.Flips.Total != 2 || known.Flips.Stricter != 2 || len(r.Flips) != 2 {
			t.Errorf("reported %s, %s", known.JSON(), r.Flips)
		}
		if !strings.Contains(r.Flips[0], `"c-1"`) || !strings.Contains(r.Flips[1], `"c-0"`) {
			t.Errorf("the newest is not first: %s", r.Flips)
		}
		if len(known.Budgets) != 1 || known.Budgets[0].Used == nil {
			t.Errorf("the peaks are %+v", known.Budgets)
		}
		must.Do(t, f.nodes[0].DeleteDraft(t.Context(), hotpath.Access{}, audit.Actor{}, "p", nil))
		if _, err := f.nodes[1].DraftReport(t.Context(), hotpath.Access{}, "p"); !errors.Is(err, hotpath.ErrDraftNotFound) {
			t.Errorf("the report of no draft: %v", err)
		}
	})
}

// A report that is continued is the one of the whole time, to the byte, whatever was asked, approved, given
// back and corrected before and after it was asked for; it is continued no sooner than it may have changed.
func TestDraftReportContinues(t *testing.T) {
	t.Run("long windows", draftReportContinues(mindfulRules, "many"))
	t.Run("short windows", draftReportContinues(strings.NewReplacer(`"window":"lifetime"`, `"rolling_minutes":5`,
		`"rolling_minutes":60`, `"rolling_minutes":4`, `"window_minutes":10`, `"window_minutes":3`).Replace(mindfulRules)))
}

func draftReportContinues(mindfulRules string, drop ...string) func(*testing.T) {
	return inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 2)
		seed := uint64(rand.Int64())
		h := history{fleet: f, rng: rand.New(rand.NewPCG(seed, 0)), reports: make(map[spend.ID]int), atOnce: 1}
		f.post(0, "q", foreignRules)
		f.post(0, "p", mindfulRules)
		steps := func(n int) {
			for range n {
				time.Sleep(20 * time.Second)
				h.step()
			}
		}
		steps(60)
		f.draft(0, "p", strings.NewReplacer(
			`"limit":400`, `"limit":250`, `"limit":900`, `"limit":1500`, `"window_minutes":10`, `"window_minutes":20`).
			Replace(otherRules.Replace(mindfulRules)))
		for part := range 4 {
			if part == 2 {
				f.post(0, "p", otherRules.Replace(mindfulRules), drop...)
			}
			steps(40)
			r, _ := f.draftReport(part%2, "p")
			whole := f.backtest(&audit.Backtest{PolicyID: "p", Rules: r.Draft.Rules, From: r.Backtest.From, To: r.Backtest.To, Recorded: true})
			if r.Backtest.Report != whole.Report {
				t.Errorf("seed %d, part %d: continued\n%s, whole\n%s", seed, part, r.Backtest.Report, whole.Report)
			}
			flips, _, err := f.store.BacktestFlips(t.Context(), r.Backtest.ID, 0, 1000)
			if of, _, again := f.store.BacktestFlips(t.Context(), whole.ID, 0, 1000); err != nil || again != nil || !slices.Equal(flips, of) {
				t.Errorf("seed %d, part %d: %d flips are listed, %d of the whole, %v", seed, part, len(flips), len(of), err)
			}
		}
	})
}

// A report is continued at the cost of what came since, and of the windows before.
func TestDraftReportReadsWhatCameSince(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		f.draft(0, "p", plainRules)
		for part := range 2 {
			for i := range 30 {
				time.Sleep(time.Minute)
				f.check(0, refundOf(t, "60", fmt.Sprint(part, i)))
			}
			r, known := f.draftReport(0, "p")
			if known.Coverage.Checks != int64(30+30*part) || r.Backtest.Checks > 40 {
				t.Errorf("part %d: a report on %d checks, for which %d were read", part, known.Coverage.Checks, r.Backtest.Checks)
			}
			for i, status := range []audit.BacktestStatus{audit.BacktestSucceeded, audit.BacktestQueued} {
				time.Sleep(time.Duration(i) * time.Minute)
				r, err := f.nodes[0].DraftReport(t.Context(), hotpath.Access{}, "p")
				if err != nil || r.Backtest.Status != status || r.Backtest.Report == "" {
					t.Errorf("%d minutes after it was made: %+v, %v", i, r, err)
				}
			}
			f.run(r.Backtest.ID)
		}
	})(t)
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
		must.Check(t, promote(2, "day"))
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

// S93: a draft is one's own also where it is that of one's key now.
func TestOwnDraftOfNow(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		ann, cleo := f.person("ann"), f.person("cleo")
		put := func(p person, name string) error {
			d := &audit.Draft{PolicyID: "p", Name: name, Rules: plainRules}
			return f.nodes[0].PutDraft(t.Context(), p.access, audit.Actor{}, d, nil, nil)
		}
		must.Do(t, put(ann, "first"))
		if err := put(cleo, "other"); !errors.Is(err, hotpath.ErrOthersDraft) {
			t.Errorf("another's: %v", err)
		}
		ann.patch(0, named(spend.Grants{Owner: "cleo"}, spend.MemberOwner))
		must.Do(t, put(cleo, "other"))
	})
}
