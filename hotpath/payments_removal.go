package hotpath

import (
	"context"
	"errors"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/pause"
	"spendgate/audit/spend"
)

// removedAtOnce bounds how many payments are removed together: commits wait meanwhile. Between two removals they have removalPause.
const (
	removedAtOnce = 200
	removalPause  = 100 * time.Millisecond
)

// RemovePayments removes the payments that ended before a time, at least spend.PaymentsKept ago (S84). Any node may call it at any
// time. Payments that cannot be judged stay, and are in its error.
func (a *Authorizer) RemovePayments(ctx context.Context, before time.Time) (failed error) {
	err := a.store.UnchangedPayments(ctx, before, func(found []spend.Hash) error {
		for some := range slices.Chunk(found, removedAtOnce) {
			err := a.removeEnded(ctx, some, before)
			if errors.Is(err, audit.ErrUnavailable) { // or the locks are not to be had: commits would wait for each further one
				return err
			}
			failed = errors.Join(failed, err)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	})
	return errors.Join(failed, err)
}

// removeEnded removes those of the payments that ended before a time, without those that cannot be judged. Whatever becomes of one
// after it was read changes its version.
func (a *Authorizer) removeEnded(ctx context.Context, some []spend.Hash, before time.Time) error {
	facts, err := a.factsOfAll(ctx, some)
	if err == nil {
		err = a.noteOthers(ctx, facts)
	}
	if half := len(some) / 2; err != nil && half > 0 && !errors.Is(err, audit.ErrUnavailable) && ctx.Err() == nil {
		return errors.Join(a.removeEnded(ctx, some[:half], before), a.removeEnded(ctx, some[half:], before))
	}
	if err != nil {
		return err
	}
	var ended []*spend.Payment
	for _, f := range facts {
		if f.EndedBefore(before) {
			ended = append(ended, &f.Payment)
		}
	}
	if ended == nil {
		return nil
	}
	if _, err = a.store.RemovePayments(ctx, ended, before); err != nil {
		return err
	}
	_ = pause.For(ctx, removalPause)
	return nil
}
