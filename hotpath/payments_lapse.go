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

// lapseIfLate gives an open check back if it can no longer be redeemed, and reports whether it was or somebody else
// has changed its course meanwhile.
func (a *Authorizer) lapseIfLate(ctx context.Context, f *audit.PaymentFacts) (bool, error) {
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

// Lapses gives back the checks that only a redemption carries out and that nobody redeemed in time (S84). Any node may
// call it at any time, and some node must every few seconds.
func (a *Authorizer) Lapses(ctx context.Context) error {
	for {
		due, err := a.store.Lapses(ctx, lapsesAtOnce)
		if err != nil || len(due) == 0 {
			return err
		}
		checks, err := a.store.Checks(ctx, due)
		if err != nil {
			return err
		}
		var failed error
		for _, check := range checks {
			failed = errors.Join(failed, a.giveBack(ctx, check, spend.FlagLapsed))
		}
		if failed != nil || len(due) < lapsesAtOnce || len(checks) == 0 {
			return failed
		}
	}
}
