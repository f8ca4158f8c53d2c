package hotpath

import (
	"context"
	"errors"
	"slices"
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
	failed := a.giveBackStopped(ctx)
	tried := make(map[spend.ID]bool)
	for stuck := 0; ; { // stuck: checks that were tried and are still due
		due, err := a.store.Lapses(ctx, stuck+lapsesAtOnce)
		if err != nil {
			return err
		}
		all := len(due)
		due = slices.DeleteFunc(due, func(id spend.ID) bool { return tried[id] })
		if len(due) == 0 && all < stuck+lapsesAtOnce {
			return failed
		}
		stuck = all - len(due)
		for _, id := range due {
			tried[id] = true
		}
		err = a.giveBackAll(ctx, due, spend.FlagLapsed)
		if ctx.Err() != nil || errors.Is(err, ErrOverloaded) {
			return err
		}
		failed = errors.Join(failed, err)
	}
}

// giveBackAll gives checks back. It ends early only with the context, or where the node is at its capacity.
func (a *Authorizer) giveBackAll(ctx context.Context, due []spend.ID, why spend.Flag) (failed error) {
	if len(due) == 0 {
		return nil
	}
	checks, err := a.store.Checks(ctx, due)
	if err != nil {
		return err
	}
	for _, check := range checks {
		err := a.giveBack(ctx, check, why)
		if ctx.Err() != nil || errors.Is(err, ErrOverloaded) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
