package hotpath

import (
	"context"
	"errors"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// lapsesAtOnce bounds how many checks lapse together.
const lapsesAtOnce = 100

// lapseIfOver gives an open check back if it can no longer be redeemed, and reports whether it was or somebody else
// has changed its course meanwhile.
func (a *Authorizer) lapseIfOver(ctx context.Context, f *audit.PaymentFacts) (bool, error) {
	if a.catalog.view().stopsCheck(f.Check) {
		return true, a.giveBack(ctx, f.Check, spend.FlagStopped)
	}
	terms, err := a.redeemTerms(ctx, f.Check)
	if err != nil || !a.now().After(f.Check.Timestamp().Add(terms.Within())) {
		return false, err
	}
	return true, a.giveBack(ctx, f.Check, spend.FlagLapsed)
}

// giveBack voids a check that nobody redeemed, unless a step of its course came first.
func (a *Authorizer) giveBack(ctx context.Context, check *spend.Check, why spend.Flag) error {
	_, _, err := a.take(ctx, Request{Started: time.Now()}, check, false, func(course *spend.Course, _ error) (*spend.Outcome, bool, error) {
		if course.Next() > 1 {
			return nil, true, nil
		}
		return voidOf(check, why), false, nil
	})
	return err
}

// Lapses gives back the checks that only a redemption carries out and that nobody redeemed in time (S84), or that were
// stopped with their keys. Any node may call it at any time, and some node must every few seconds. A check that cannot be
// given back delays no other.
func (a *Authorizer) Lapses(ctx context.Context) error {
	stopped := a.giveBackStopped(ctx)
	return errors.Join(stopped, a.eachDue(ctx, lapsesAtOnce, func(most int) ([]spend.ID, error) { return a.store.Lapses(ctx, most) },
		a.givingBack(spend.FlagLapsed)))
}

// givingBack is giveBack for one reason.
func (a *Authorizer) givingBack(why spend.Flag) func(context.Context, *spend.Check) error {
	return func(ctx context.Context, check *spend.Check) error { return a.giveBack(ctx, check, why) }
}
