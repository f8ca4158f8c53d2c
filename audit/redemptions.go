package audit

import (
	"context"

	"spendgate/audit/spend"
)

// Redemptions are the records about redeemed checks beside their outcomes. Commit makes them.
type Redemptions interface {
	// Untouched returns, in no order, those of the checks that have no recorded outcome, neither a
	// redemption nor a report. A store may answer from memory: then another node may have recorded
	// one, or the check may no longer exist, which Commit refuses.
	Untouched(ctx context.Context, ids []spend.ID) ([]*spend.Check, error)
	// Unread reports whether a redemption of the check is better committed as spend.Outcome.Unread than
	// behind Untouched, which would have to read the check.
	Unread(check spend.ID) bool
	// Doubts looks for redeemed checks about which nothing was reported.
	Doubts(ctx context.Context, limit int) (Doubts, error)
}

// Doubts are the redeemed checks about which nothing was reported.
type Doubts struct {
	Due     []spend.ID // redeemed, or taken over, spend.DoubtAfter ago, by the store's clock, and not said to be in doubt; up to the limit
	InDoubt int64      // how many are said to be
}
