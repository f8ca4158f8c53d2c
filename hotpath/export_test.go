package hotpath

import (
	"context"

	"spendgate/audit/spend"
)

// GiveBack is what Lapses does with a check.
func (a *Authorizer) GiveBack(ctx context.Context, check *spend.Check) error {
	return a.giveBack(ctx, check, spend.FlagLapsed)
}
