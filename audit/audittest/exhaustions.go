package audittest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// budgetsExhaust: a counter is exhausted once per window, when it is used up or first refuses.
func budgetsExhaust(t *testing.T, s Subject) {
	f := fence(t, s)
	var after int64
	news := func(when string, want ...spend.Charge) []audit.Event {
		t.Helper()
		events, next := feed(t, s, audit.EventQuery{After: after, Types: []audit.EventType{audit.EventBudgetExhausted}})
		if after = next; len(events) != len(want) {
			t.Fatalf("%s: %d budgets are exhausted, want %d", when, len(events), len(want))
		}
		for i := range want {
			if e := events[i].Exhaustion; e.Counter != want[i].Counter || e.RuleID != want[i].RuleID || e.Subject != want[i].Subject ||
				e.PolicyID != "refunds" {
				t.Errorf("%s: %+v, want %+v", when, e, want[i])
			}
		}
		return events
	}
	day := func(takes string) spend.Charge {
		c := charge("day", `["agent-1"]`, takes)
		c.AgentID = "agent-1"
		return c
	}
	mustCommit(t, s, charged(newCheck(f), day("600")), charged(escalated(newCheck(f)), day("400")))
	news("room is left")
	mustCommit(t, s, charged(newCheck(f), day("100")), charged(newCheck(f), day("300")))
	e := news("exactly the limit", day("0"))[0]
	want := audit.Exhaustion{
		ID: e.Exhaustion.ID, At: e.At, Counter: day("0").Counter, PolicyID: "refunds", RuleID: "day", Since: 1, AgentID: "agent-1",
		Subject: `["agent-1"]`, Limited: true, Limit: amount("1000").Total(), Counted: true, MaxCount: 20, Percent: spend.Exhausted,
		Usage: usage(day("0"), "1000", 3).Usage,
	}
	if !reflect.DeepEqual(*e.Exhaustion, want) || e.AgentID != "agent-1" || e.At.Sub(now()).Abs() > clockTolerance {
		t.Errorf("exhausted: %+v, want %+v", *e.Exhaustion, want)
	}
	refused := func(of ...spend.Charge) *spend.Check {
		c := blocked(newCheck(f))
		c.Refused = of
		return c
	}
	mustCommit(t, s, refused(day("1")))
	news("refused once it was used up")

	// Refusals for an amount with less room, by count, and in another window.
	all := charge("all", "[]", "1001")
	mustCommit(t, s, refused(all), refused(all), newCheck(f))
	if e := news("refused", all)[0].Exhaustion; e.Usage != (spend.Usage{}) || e.AgentID != "" {
		t.Errorf("refused: %+v", e)
	}
	mustCommit(t, s, refused(all))
	next := all
	next.Counter.StartMS += 1000
	mustCommit(t, s, refused(next))
	news("in the next window", next)
	often := charge("often", "[]", "0")
	often.Limited, often.MaxCount = false, 2
	mustCommit(t, s, charged(newCheck(f), often))
	news("once of two")
	mustCommit(t, s, charged(newCheck(f), often))
	if e := news("twice of two", often)[0].Exhaustion; e.Limited || e.MaxCount != 2 || e.Usage.Count != 2 {
		t.Errorf("used as often as may be: %+v", e)
	}

	// With outcomes in the commit; what these give back changes nothing.
	back := charge("back", "[]", "1000")
	taking := charged(newCheck(f), back)
	mustCommit(t, s, taking)
	news("taken", back)
	other := charge("other", "[]", "1000")
	must(t, RecordAll(t.Context(), s, []*spend.Check{charged(newCheck(f), other)}, report(f, taking, 1, spend.Voided, true)))
	news("taken beside an outcome", other)
	mustCommit(t, s, charged(newCheck(f), back))
	news("taken again")
	rollingExhaustion(t, s, f, news)
}

// budgetsExhaustAgain: a counter that was exhausted is so again after a grant, once.
func budgetsExhaustAgain(t *testing.T, s Subject) {
	f := fence(t, s)
	types := []audit.EventType{audit.EventBudgetExhausted}
	_, after := feed(t, s, audit.EventQuery{Types: types})
	for i, raised := range []int64{0, 7, 7, 9} {
		c := blocked(newCheck(f))
		c.Refused = []spend.Charge{charge("again", "[]", "1001")}
		c.Refused[0].Raised = raised
		mustCommit(t, s, c)
		events, next := feed(t, s, audit.EventQuery{After: after, Types: types})
		if after = next; len(events) != []int{1, 1, 0, 1}[i] {
			t.Errorf("by change %d: %d events", raised, len(events))
		}
	}
}

// budgetsNotify: each percentage of notify_at is noticed once for each window, by amount or number, whichever comes
// first; a rolling window notices it again after its usage fell below.
func budgetsNotify(t *testing.T, s Subject) {
	f := fence(t, s)
	types := []audit.EventType{audit.EventBudgetThreshold}
	_, after := feed(t, s, audit.EventQuery{Types: types})
	news := func(when string, want ...int) {
		t.Helper()
		events, next := feed(t, s, audit.EventQuery{After: after, Types: types})
		after = next
		var got []int
		for _, e := range events {
			got = append(got, e.Exhaustion.Percent)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v %% are noticed, want %v", when, got, want)
		}
	}
	const minute = 60_000
	for _, bucketMS := range []int64{0, minute} {
		at := func(bucket int64, takes string) spend.Charge {
			c := charge(fmt.Sprint("percent-", bucketMS), "[]", takes)
			c.NotifyAt, c.MaxCount = "50,80,95", 10
			if bucketMS > 0 {
				c.Counter.BucketMS, c.Counter.StartMS = bucketMS, epochStart.UnixMilli()/minute*minute+bucket*minute
			}
			return c
		}
		mustCommit(t, s, charged(newCheck(f), at(0, "499")))
		news("below")
		one, two := charged(newCheck(f), at(0, "1")), charged(newCheck(f), at(0, "10"))
		mustCommit(t, s, one, two)
		news("half", 50)
		mustCommit(t, s, charged(newCheck(f), at(0, "0")), charged(escalated(newCheck(f)), at(0, "400")))
		news("nothing more")
		mustCommit(t, s, charged(newCheck(f), at(0, "445")))
		news("two at once", 80, 95)
		big := charged(newCheck(f), at(1, "10"))
		mustCommit(t, s, big)
		news("of the number, which had been reached by the amount")
		last := charged(newCheck(f), at(1, "0"))
		must(t, RecordAll(t.Context(), s, []*spend.Check{last}, report(f, two, 1, spend.Voided, true), report(f, one, 1, spend.Voided, true)))
		mustCommit(t, s, charged(newCheck(f), at(1, "1"))) // 955 of 1,000, and the sixth
		news("what is given back in the same commit")
		for _, c := range []*spend.Check{big, last} {
			must(t, RecordAll(t.Context(), s, nil, report(f, c, 1, spend.Voided, true)))
		}
		// 945 of 1,000: below 95 % for the next check to see.
		mustCommit(t, s, charged(newCheck(f), at(1, "1")))
		news("below again")
		mustCommit(t, s, charged(newCheck(f), at(1, "10")))
		if bucketMS > 0 {
			news("reached again", 95)
		} else {
			news("once a window")
		}
	}
	// Another version has another limit and other percentages: each is noticed for itself.
	of := func(limit string, notify spend.Percentages) spend.Charge {
		c := charge("percents-of-two", "[]", "100")
		c.Limit, c.NotifyAt = amount(limit).Total(), notify
		return c
	}
	mustCommit(t, s, charged(newCheck(f), of("110", "80")))
	news("by a low limit", 80)
	compared := of("100", "70")
	compared.Lifted = true
	mustCommit(t, s, charged(escalated(newCheck(f)), compared))
	news("what only compares")
	mustCommit(t, s, charged(newCheck(f), of("800", "25,80")))
	news("by a higher limit", 25)
	zero := charge("percent-of-nothing", "[]", "0")
	zero.Limit, zero.MaxCount, zero.Counted, zero.NotifyAt = spend.Total{}, 0, false, "1"
	mustCommit(t, s, charged(newCheck(f), zero))
	news("of a limit of 0")
}

// rollingExhaustion: a rolling window is exhausted once as long as it stays so.
func rollingExhaustion(t *testing.T, s Subject, f spend.Fence, news func(string, ...spend.Charge) []audit.Event) {
	t.Helper()
	const minute = 60_000
	at := func(bucket int64, takes string) spend.Charge {
		c := charge("rolling", "[]", takes)
		c.Counter.BucketMS, c.Counter.StartMS = minute, epochStart.UnixMilli()/minute*minute+bucket*minute
		return c
	}
	mustCommit(t, s, charged(newCheck(f), at(0, "600")))
	mustCommit(t, s, charged(newCheck(f), at(5, "400")))
	if e := news("over two buckets", at(5, "0"))[0].Exhaustion; e.Usage != usage(at(0, "0"), "1000", 2).Usage {
		t.Errorf("exhausted at %+v", e.Usage)
	}
	refused := func(bucket int64) {
		t.Helper()
		c := blocked(newCheck(f))
		c.Refused = []spend.Charge{at(bucket, "1000")}
		mustCommit(t, s, c)
	}
	refused(6)
	refused(65)
	news("in the window that was told of")
	refused(66)
	news("after it", at(66, "0"))
}
