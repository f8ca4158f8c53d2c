package spend

import (
	"testing"
	"time"
)

// S84: nobody takes a check over for ever: its steps, and the payment's nonces, have a bound.
func TestTakeOversAreBounded(t *testing.T) {
	now := time.Now()
	redeemed := &Outcome{ID: NewOutcomeID(now), Status: Redeemed, Payment: OutcomePayment{Of: []PaymentStep{{Key: "k", ByNonce: true}}}}
	steps := []*Outcome{redeemed}
	passes := func() bool {
		course := CourseOf(steps)
		return course.Passes(&Payment{Key: "k"}, Hash{1}, time.Hour, now)
	}
	for len(steps) <= MaxTakeOvers {
		if steps = append(steps, &Outcome{Status: TakenOver}); len(steps) == MaxTakeOvers && !passes() {
			t.Error("the last take-over is refused")
		}
	}
	if passes() {
		t.Errorf("taken over after %d take-overs", len(steps)-1)
	}
}

// S84: the hours of a round count from the first report of its check as executed, also after corrections; and a check is executed
// twice only if another check of its round is, whatever the present round is.
func TestRounds(t *testing.T) {
	began := time.Now().Truncate(time.Millisecond)
	var p Payment
	at := func(after time.Duration) ID { return NewOutcomeID(began.Add(after)) }
	asks := func(hours int) *Check {
		c := &Check{ID: NewID(began)}
		p, c.Payment = p.WithCheck(c, hours, Hash{})
		return c
	}
	var last *Outcome
	says := func(c *Check, status Status, after time.Duration) (twice bool) {
		last = &Outcome{ID: at(after), CheckID: c.ID, Status: status, Follows: last}
		twice = p.PaidTwice(last, c.Payment.Round)
		p, _ = p.WithStep(last, c.Payment.Round, false)
		return twice
	}
	other := asks(2)
	says(other, Voided, 0)
	first := asks(0)
	says(first, Executed, time.Minute)
	says(first, Failed, time.Hour)
	if p.Shown() != first.ID || p.Over(began.Add(3*time.Hour)) {
		t.Error("a check that was not executed ends the round")
	}
	says(first, Executed, 90*time.Minute)
	if over := began.Add(2*time.Hour + 90*time.Minute); !p.Over(over) || p.Over(over.Add(-time.Second)) {
		t.Errorf("the round is over by %+v", p.Executions)
	}
	if next := asks(0); next.Payment.Round != 1 || p.Shown() != next.ID {
		t.Fatalf("the next round: %+v", p)
	}
	says(first, Failed, 3*time.Hour)
	for _, step := range []struct {
		of    *Check
		after time.Duration
		twice bool
	}{{first, 4 * time.Hour, false}, {other, 5 * time.Hour, true}} {
		last = nil
		if says(step.of, Executed, step.after) != step.twice {
			t.Errorf("after %s: paid twice is not %t", step.after, step.twice)
		}
	}
	if p.Executed() != nil {
		t.Error("the present round is executed by the one before")
	}
}
