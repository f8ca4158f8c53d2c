package hotpath

import (
	"context"
	"errors"
	"slices"

	"spendgate/audit/spend"
)

// eachDue does what is due of checks, atOnce at a time. A check of which it fails, or that the store lacks, stays due and delays
// no other. It ends early only with the context, at the node's capacity, or if look fails.
func (a *Authorizer) eachDue(
	ctx context.Context, atOnce int, look func(most int) ([]spend.ID, error), do func(context.Context, *spend.Check) error,
) (failed error) {
	tried := make(map[spend.ID]bool)
	for stuck := 0; ; { // stuck: checks that were tried and are still due
		due, err := look(stuck + atOnce)
		if err != nil {
			return err
		}
		all := len(due)
		due = slices.DeleteFunc(due, func(id spend.ID) bool { return tried[id] })
		if len(due) == 0 && all < stuck+atOnce {
			return failed
		}
		stuck = all - len(due)
		for _, id := range due {
			tried[id] = true
		}
		err = a.eachCheck(ctx, due, do)
		if ctx.Err() != nil || errors.Is(err, ErrOverloaded) {
			return err
		}
		failed = errors.Join(failed, err)
	}
}

// eachCheck does something to each of the checks. It ends early as eachDue does.
func (a *Authorizer) eachCheck(ctx context.Context, ids []spend.ID, do func(context.Context, *spend.Check) error) (failed error) {
	if len(ids) == 0 {
		return nil
	}
	checks, err := a.store.Checks(ctx, ids)
	if err != nil {
		return err
	}
	for _, check := range checks {
		err := do(ctx, check)
		if ctx.Err() != nil || errors.Is(err, ErrOverloaded) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
