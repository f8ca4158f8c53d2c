package audittest

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// takeOver returns a step that passes a redemption on to another nonce.
func takeOver(f spend.Fence, of *spend.Check, number int, nonce string) *spend.Outcome {
	o := redemption(f, of)
	o.Status, o.Step, o.RedeemBy, o.Replay = spend.TakenOver, number, time.Time{}, spend.RedemptionReplay("key_1", nonce)
	return o
}

// paymentRedeemed: one commit records a check and its redemption, or neither (S84).
func paymentRedeemed(t *testing.T, s Subject) {
	f := fence(t, s)
	p := newPayment()
	open := of(p, newCheck(f))
	open.RedeemBy = now().Add(-time.Minute)
	mustCommit(t, s, open)
	mustLapse(t, s, 10, open)

	// The open check is voided, and another one is judged and redeemed.
	seen := *p
	_, latest := feed(t, s, audit.EventQuery{Limit: 100})
	voided := step(f, open, 1, spend.Voided)
	voided.Payment.Flags = []spend.Flag{spend.FlagReplaced}
	moves(p, voided)
	voided.Payments = nil
	c := of(p, newCheck(f))
	c.RedeemBy = open.RedeemBy
	o := moves(p, redemption(f, c))
	together(c, o)
	o.Payments[0].Seen = seen.Version
	o.RedeemBy = now().Add(-time.Minute)
	err := RecordAll(t.Context(), s, []*spend.Check{c}, o, voided)
	refused, ok := errors.AsType[*audit.ReportedError](err)
	if want := []spend.ID{c.ID}; !ok || !slices.Equal(refused.CheckIDs, want) || !slices.Equal(refused.Late, want) {
		t.Errorf("a late redemption: %+v, %v", refused, err)
	}
	mustLack(t, s, c)
	mustBePayment(t, s, &seen)
	if steps := reported(t, s, []*spend.Outcome{o, voided}); len(steps) > 0 {
		t.Errorf("recorded are %+v", steps)
	}
	o.RedeemBy = now().Add(time.Minute)
	must(t, RecordAll(t.Context(), s, []*spend.Check{c}, o, voided))
	mustHave(t, s, asRead(c))
	mustBePayment(t, s, p)
	mustRefuseReport(t, s, nil, []*spend.Outcome{redemption(f, c)}, c)
	o.Check, o.Payments, o.RedeemBy = nil, nil, time.Time{}
	if steps := reported(t, s, []*spend.Outcome{o}); len(steps) != 1 || !reflect.DeepEqual(steps[0], o) {
		t.Errorf("steps: %+v, want %+v", steps, o)
	}
	if n := s.Count(t, "SELECT count(*) FROM redemptions_open"); n != 1 {
		t.Errorf("%d are noted to be without an outcome, want 1", n)
	}
	mustLapse(t, s, 10)
	events, _ := feed(t, s, audit.EventQuery{After: latest, Limit: 100})
	types := typesOf(events)
	slices.Sort(types)
	if want := []string{string(audit.EventCheckRedeemed), string(audit.EventOutcomeReported)}; !slices.Equal(types, want) {
		t.Errorf("events %q, want %q", types, want)
	}
}

// mustLapse demands that exactly these checks lapse, the oldest first.
func mustLapse(t *testing.T, s Subject, limit int, want ...*spend.Check) {
	t.Helper()
	got, err := s.Lapses(t.Context(), limit)
	if err != nil || !slices.Equal(got, idsOf(want)) {
		t.Errorf("%v lapse, %v; want %v", got, err, idsOf(want))
	}
}

// paymentLapses: an allowed check that only a redemption carries out lapses after its time, unless it was
// redeemed or reported; its redemption and its lapse exclude each other (S84).
func paymentLapses(t *testing.T, s Subject) {
	f := fence(t, s)
	by := func(c *spend.Check, after time.Duration) *spend.Check {
		c.RedeemBy = now().Add(after)
		return c
	}
	p := newPayment()
	older, younger := by(newCheck(f), -time.Minute), by(of(p, newCheck(f)), -time.Second)
	mustCommit(t, s, younger)
	mustCommit(t, s, older, by(newCheck(f), time.Hour), newCheck(f), by(escalated(newCheck(f)), -time.Minute),
		by(blocked(newCheck(f)), -time.Minute))
	redeemed, failed, soon := by(newCheck(f), -time.Minute), by(newCheck(f), -time.Minute), by(newCheck(f), 500*time.Millisecond)
	mustCommit(t, s, redeemed, failed, soon)
	mustReport(t, s, redemption(f, redeemed), report(f, failed, 1, spend.Failed, true))
	atOnce, voided := by(newCheck(f), -time.Minute), by(newCheck(f), -time.Minute)
	must(t, RecordAll(t.Context(), s, []*spend.Check{atOnce, voided}, redemption(f, atOnce), report(f, voided, 1, spend.Voided, true)))
	mustLapse(t, s, 10, older, younger)
	mustLapse(t, s, 1, older)
	time.Sleep(600 * time.Millisecond)
	mustLapse(t, s, 10, older, younger, soon)

	// Whoever is second has another version, or is not the first step.
	read := *p
	lapse := step(f, younger, 1, spend.Voided)
	lapse.Payment.Flags = []spend.Flag{spend.FlagLapsed}
	mustReport(t, s, moves(p, lapse))
	mustLapse(t, s, 10, older, soon)
	stale := read
	if err := RecordAll(t.Context(), s, nil, moves(&stale, redemption(f, younger))); !lost(err) {
		t.Errorf("got %v, want a refusal", err)
	}
	fresh := *p
	mustRefuseReport(t, s, nil, []*spend.Outcome{moves(&fresh, redemption(f, younger))}, younger)
	mustBePayment(t, s, p)
}

// lost reports whether a step came second: its payment was changed, or another step has its number.
func lost(err error) bool {
	_, moved := errors.AsType[*audit.PaymentsMovedError](err)
	_, reported := errors.AsType[*audit.ReportedError](err)
	return moved || reported
}

// paymentLapsesRace: of a redemption and a lapse, one is recorded, and the payment says which.
func paymentLapsesRace(t *testing.T, s Subject) {
	f := fence(t, s)
	for range 10 {
		p := newPayment()
		c := of(p, newCheck(f))
		c.RedeemBy = now()
		mustCommit(t, s, c)
		var after [2]spend.Payment
		var errs [2]error
		var wg sync.WaitGroup
		for i := range after {
			after[i] = *p
			f := fence(t, s)
			o := redemption(f, c)
			if i == 1 {
				o = step(f, c, 1, spend.Voided)
			}
			moves(&after[i], o)
			wg.Go(func() { errs[i] = RecordAll(t.Context(), s, nil, o) })
		}
		wg.Wait()
		second := 0
		if errs[0] == nil {
			second = 1
		}
		if !lost(errs[second]) || errs[1-second] != nil {
			t.Fatalf("got %v", errs)
		}
		mustBePayment(t, s, &after[1-second])
		mustLapse(t, s, 10)
	}
}

// takeOvers: a take-over follows a redemption, a take-over or a doubt, and nothing else. It ends the doubt, and
// the time until the next one begins again (S84).
func takeOvers(t *testing.T, s Subject) {
	f := fence(t, s)
	p := newPayment()
	c, later, ended, untouched := of(p, newCheck(f)), newCheck(f), newCheck(f), newCheck(f)
	mustCommit(t, s, c, later, ended, untouched)
	mustReport(t, s, moves(p, redemption(f, c)), redemption(f, ended))
	mustReport(t, s, redemption(f, later), step(f, ended, 2, spend.Failed))
	const after = `SELECT count(*) FROM redemptions_open AS a, redemptions_open AS b
		WHERE a.check_id < b.check_id AND a.redeemed_at > b.redeemed_at`
	for _, refused := range []*spend.Outcome{
		takeOver(f, untouched, 1, "b"), takeOver(f, untouched, 2, "b"), takeOver(f, ended, 3, "b"), takeOver(f, c, 1, "b"),
		takeOver(f, c, 3, "b"),
	} {
		mustRefuseReport(t, s, nil, []*spend.Outcome{refused}, refused.Check)
	}
	mustRefuseReport(t, s, nil, []*spend.Outcome{takeOver(f, c, 3, "b")}, c)
	mustBeNoted := func(inDoubt int64, longer int) {
		t.Helper()
		d, err := s.Doubts(t.Context(), 10)
		if n := s.Count(t, after); err != nil || d.InDoubt != inDoubt || len(d.Due) != 0 || n != longer {
			t.Errorf("doubts: %+v, %v; %d were redeemed after a later check", d, err, n)
		}
	}
	mustBeNoted(0, 0)
	time.Sleep(5 * time.Millisecond)
	all := []*spend.Outcome{moves(p, takeOver(f, c, 2, "b"))}
	mustReport(t, s, all[0])
	mustBePayment(t, s, p)
	mustBeNoted(0, 1)
	mustRefuseReport(t, s, nil, []*spend.Outcome{takeOver(f, c, 2, "c")}, c)
	for i, next := range []*spend.Outcome{
		takeOver(f, c, 3, "c"), step(f, c, 4, spend.InDoubt), takeOver(f, c, 5, "d"), step(f, c, 6, spend.InDoubt),
	} {
		all = append(all, moves(p, next))
		mustReport(t, s, next)
		mustBeNoted(int64(i%2), 1)
	}
	mustRefuseReport(t, s, nil, []*spend.Outcome{step(f, c, 7, spend.InDoubt)}, c)
	mustRefuseReport(t, s, nil, []*spend.Outcome{step(f, c, 7, spend.Redeemed)}, c)
	all = append(all, moves(p, step(f, c, 7, spend.Executed)))
	mustReport(t, s, all[len(all)-1])
	mustBeNoted(0, 0)
	for _, refused := range []*spend.Outcome{takeOver(f, c, 8, "e"), step(f, c, 8, spend.InDoubt)} {
		mustRefuseReport(t, s, nil, []*spend.Outcome{refused}, c)
	}
	mustBePayment(t, s, p)
	steps, err := s.Outcomes(t.Context(), []spend.ID{c.ID})
	if err != nil || len(steps) != 7 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	for i, o := range all {
		o.Check, o.Payments, o.RedeemBy = nil, nil, time.Time{}
		if !reflect.DeepEqual(steps[i+1], o) {
			t.Errorf("step %d came back\n%+v\nwant\n%+v", i+2, steps[i+1], o)
		}
	}
	course := spend.CourseOf(steps)
	if course.Holder().ID != all[3].ID || course.Doubt == nil || course.Last().Number != 1 {
		t.Errorf("the course is %+v", course)
	}
}

// takeOversRace: of a take-over and other steps that could follow, one is recorded.
func takeOversRace(t *testing.T, s Subject) {
	first := fence(t, s)
	for range 8 {
		p := newPayment()
		c := of(p, newCheck(first))
		o := moves(p, redemption(first, c))
		together(c, o)
		must(t, RecordAll(t.Context(), s, []*spend.Check{c}, o))
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			f, after := fence(t, s), *p
			o := [...]*spend.Outcome{takeOver(f, c, 2, "b"), takeOver(f, c, 2, "c"), step(f, c, 2, spend.InDoubt), step(f, c, 2, spend.Executed)}[i]
			if moves(&after, o); i%2 == 1 { // as those who do not compare
				o.Payments = nil
			}
			wg.Go(func() { errs[i] = RecordAll(t.Context(), s, nil, o) })
		}
		wg.Wait()
		recorded := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err != nil })
		if steps := reported(t, s, []*spend.Outcome{o}); len(recorded) != 1 || len(steps) != 2 {
			t.Fatalf("%v, and %d steps", errs, len(steps))
		}
	}
}

// paymentEvents: a take-over, a second execution and a withdrawal are told of.
func paymentEvents(t *testing.T, s Subject, f spend.Fence, news func(string, ...audit.EventType) []audit.Event) {
	t.Helper()
	p := newPayment()
	c, asked := of(p, newCheck(f)), of(p, asking(f, 1))
	mustCommit(t, s, c)
	mustReport(t, s, redemption(f, c))
	mustReport(t, s, takeOver(f, c, 2, "b"))
	taken := news("a take-over", audit.EventCheckRedeemed, audit.EventCheckTakenOver)[1]
	if o := taken.Outcome; o.CheckID != c.ID || o.Status != spend.TakenOver || taken.PolicyID != "refunds" || taken.AgentID != "agent-1" {
		t.Errorf("taken over: %+v", taken)
	}
	twice := step(f, c, 3, spend.Executed)
	twice.Payment.Flags = []spend.Flag{spend.FlagUnredeemed, spend.FlagPaidTwice}
	mustReport(t, s, twice)
	if e := news("a second execution", audit.EventOutcomeReported, audit.EventPaymentPaidTwice)[1]; e.Outcome.ID != twice.ID {
		t.Errorf("paid twice: %+v", e)
	}
	mustCommit(t, s, asked)
	mustCommit(t, s, withdrawing(p, f, asked))
	withdrawn := news("a withdrawal", audit.EventViolationRecorded, audit.EventApprovalRequested, audit.EventApprovalWithdrawn)[2]
	if a := withdrawn.Approval; a.ID != asked.ID || a.Decision != nil || withdrawn.PolicyID != "refunds" || withdrawn.At.IsZero() {
		t.Errorf("withdrawn: %+v", withdrawn)
	}
}
