package audittest

import (
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// paymentReplaced: one commit gives an open check back and records the check in its place, which meets its budgets without what
// the open one took, and no more than that.
func paymentReplaced(t *testing.T, s Subject) {
	f := fence(t, s)
	all := func(takes string) spend.Charge { return charge("replaced", "[]", takes) }
	bucket := func(minutes int64, takes string) spend.Charge {
		c := charge("rolls", "[]", takes)
		c.Counter.StartMS, c.Counter.BucketMS = time.Now().Truncate(time.Hour).UnixMilli()+minutes*60_000, 60_000
		return c
	}
	p := newPayment()
	open := of(p, charged(newCheck(f), all("800"), bucket(0, "800")))
	mustCommit(t, s, open)

	// replacing returns a check in the place of an open one, with the void of that.
	replacing := func(p *spend.Payment, open *spend.Check, charges ...spend.Charge) (*spend.Check, *spend.Outcome) {
		void := moves(p, report(f, open, 1, spend.Voided, true))
		void.Payment.Flags = []spend.Flag{spend.FlagReplaced}
		c := of(p, charged(newCheck(f), charges...))
		c.Payments[0].Seen, void.Payments = void.Payments[0].Seen, nil
		for i := range c.Charges {
			c.Charges[i].Free(open.Charges)
		}
		return c, void
	}
	refused := func(want audit.CounterUsage, charges ...spend.Charge) {
		t.Helper()
		after := *p
		c, void := replacing(&after, open, charges...)
		mustBeExceeded(t, s, RecordAll(t.Context(), s, []*spend.Check{c}, void), []*spend.Check{c}, want)
	}
	refused(usage(all("0"), "800", 1), all("1000.01"), bucket(0, "1000"))
	refused(usage(bucket(1, "0"), "800", 1), all("1000"), bucket(1, "1000.01"))
	refused(usage(bucket(61, "0"), "0", 0), all("1000"), bucket(61, "1000.01")) // whose window lacks the bucket
	mustBePayment(t, s, p)
	mustUse(t, s, all("0"), "800", 1)

	c, void := replacing(p, open, all("990"), bucket(1, "990"))
	must(t, RecordAll(t.Context(), s, []*spend.Check{c}, void))
	mustBePayment(t, s, p)
	mustUse(t, s, all("0"), "990", 1)
	mustUse(t, s, bucket(0, "0"), "990", 1) // with the bucket after it
	if events, _ := feed(t, s, audit.EventQuery{Types: []audit.EventType{audit.EventBudgetExhausted}}); len(events) != 0 {
		t.Errorf("%d budgets are exhausted, and have room", len(events))
	}

	// Beside others, room is only for what replaces.
	beside := charged(newCheck(f), all("10.01"))
	after := *p
	next, void := replacing(&after, c, all("990"))
	checks := []*spend.Check{beside, next}
	mustBeExceeded(t, s, RecordAll(t.Context(), s, checks, void), checks, usage(all("0"), "990", 1))

	// Whoever redeemed first wins, and nothing is given back.
	redeemed := *p
	mustReport(t, s, moves(&redeemed, redemption(f, c)))
	mustMove(t, s, []*spend.Check{next}, []*spend.Outcome{void}, p)
	mustUse(t, s, all("0"), "990", 1)
}
