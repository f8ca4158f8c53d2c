package audit

import (
	"context"

	"spendgate/audit/spend"
)

// Redemptions are what is known of redeemed checks beside their outcomes. They are made
// by Commit.
type Redemptions interface {
	// Untouched returns the checks among these of which no outcome is recorded, neither a
	// redemption nor a report, in no order. A store may answer from memory: then there may
	// be one that others recorded, or no such check any more, which Commit refuses.
	Untouched(ctx context.Context, ids []spend.ID) ([]*spend.Check, error)
	// RedeemedUnder returns the check that was redeemed under a lasting key, or
	// ErrNotFound.
	RedeemedUnder(ctx context.Context, once spend.Hash) (spend.ID, error)
	// Doubts looks for redeemed checks of which nothing was reported.
	Doubts(ctx context.Context, limit int) (Doubts, error)
}

// Doubts are the redeemed checks of which nothing was reported.
type Doubts struct {
	Due     []spend.ID // redeemed spend.DoubtAfter ago, by the store's clock, and not said to be in doubt; up to the limit
	InDoubt int64      // how many are said to be
}
