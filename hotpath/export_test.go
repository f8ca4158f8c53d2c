package hotpath

import (
	"context"

	"spendgate/audit/spend"
)

// GiveBack is what Lapses does with a check.
func (a *Authorizer) GiveBack(ctx context.Context, check *spend.Check) error {
	return a.giveBack(ctx, check, spend.FlagLapsed)
}

// Waiting returns how many requests wait for people.
func (a *Authorizer) Waiting() (n int) {
	a.waiters.mu.Lock()
	defer a.waiters.mu.Unlock()
	for _, of := range a.waiters.waiting {
		n += len(of)
	}
	return n
}
