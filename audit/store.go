package audit

import (
	"context"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Store keeps the audit trail and the configuration. Every method reads and
// writes the primary, is safe for concurrent use, and respects its context's
// deadline.
//
// Methods fail with this package's errors, wrapped. ErrUnavailable: certainly
// nothing was written. ErrUnknown: a write may have happened.
type Store interface {
	Trail
	Passes
	Lists
	Fences
	Policies
	Drafts
	Keys
	Changes
	Budgets
	Approvals
	Redemptions
	Payments
	Webhooks
	Events
	Backtests
	Sessions
	History
	Zones
	Freezes
	BudgetGrants

	// ConfigChanges returns the changes after generation since; 0 returns all keys. It is one
	// consistent reading, so that everything up to Generation is in it.
	ConfigChanges(ctx context.Context, since int64) (ConfigChanges, error)

	// Ping fails when the store cannot be reached or its schema is not the
	// one that this build needs.
	Ping(ctx context.Context) error
	// Status returns the durability in force (G1) and the store's clock.
	Status(ctx context.Context) (Status, error)
	// Tidy removes data that no guarantee needs any more (expired idempotency keys) and makes
	// partitions ahead. Any node may call it at any time.
	Tidy(ctx context.Context, now time.Time) error
	// CountViolations updates the counts that keep Violations fast, unless another node does so.
	// Violations that are not in the counts yet are counted one by one by the listings, so totals are
	// always exact. Any node may call it at any time, and some node should every few seconds.
	CountViolations(ctx context.Context) error
	// CountChecks does the same for CheckCounts.
	CountChecks(ctx context.Context) error
	Close()
}

// Trail is the immutable audit trail: checks and their outcomes.
type Trail interface {
	// Commit writes the checks, their violations and their idempotency keys, the
	// outcomes, and their link of the node's chain (G8), and takes the charges from
	// the counters of budgets (G12) and corrects the counters of the outcomes' checks, in
	// one durable transaction, or nothing. All carry the same fence, their IDs are
	// distinct, and so are the checks that outcomes are of, and the payments that are changed. It fails with
	//
	//	ErrStaleEpoch    the fence's epoch is over: claim again
	//	ErrFencedNode    the fence's node was fenced: claim again as a new one
	//	ErrStaleStops    something was stopped since the fence's Stops: judge again
	//	ErrForked        the chain has another link of that number
	//	*KeysTakenError  these idempotency keys are recorded: commit the rest
	//	*PaymentsMovedError  these payments have another version: commit the rest
	//	*ApprovalsError  these checks may not use, or withdraw, their approvals: commit the rest
	//	*ReportedError   these checks have other outcomes, or may not be redeemed any
	//	                 more, or are not what an unread
	//	                 redemption says; others may be refused, too: commit the rest
	//	*ExceededError   these budgets have no room: commit what fits
	//	*RowError        a row's own data was refused; with several checks any
	//	                 of them may be it
	//	ErrUnavailable   certainly nothing was written
	//	ErrUnknown       the connection was lost while committing: only a
	//	                 look-up behind Fence can tell
	Commit(ctx context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error

	// Checks looks up by ID; the absent are missing from the answer, which
	// has no order.
	Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error)
	// CheckIDsByKey returns, per hash of an idempotency key, the check recorded
	// under it in the last 24 hours, by the store's clock (S18).
	CheckIDsByKey(ctx context.Context, keyHashes []spend.Hash) (map[spend.Hash]spend.ID, error)
	// Outcomes returns the outcomes of checks, of each in the order of their
	// steps.
	Outcomes(ctx context.Context, checkIDs []spend.ID) ([]*spend.Outcome, error)
}

// Fences decide which claims may still commit.
type Fences interface {
	// Deployment returns the random ID that names this deployment in Redis,
	// made with the schema.
	Deployment(ctx context.Context) (spend.ID, error)
	// Epoch is the current epoch of Redis' windows.
	Epoch(ctx context.Context) (spend.ID, error)
	// RotateEpoch makes next the epoch if seen still is, once every commit
	// proved under seen has ended; later ones fail with ErrStaleEpoch. It
	// returns the epoch now in force, which is not next if another node was
	// first.
	RotateEpoch(ctx context.Context, seen, next spend.ID) (current spend.ID, err error)
	// Fence returns once no commit of that node incarnation can succeed any
	// more: it waits for those in progress and refuses later ones.
	Fence(ctx context.Context, node spend.ID) error
}

// ConfigChanges are the changes that make a node as new as Generation.
type ConfigChanges struct {
	Generation int64
	Keys       []Key    // created or changed since
	Stopping   []Change // of freezes and grants, since; of 0 those of active freezes and of grants that are not over
	Stops      int64    // the last change that stops something
	PolicyIDs  []string // with a version or a draft, or the end of one, newer than since
}

// Status is what /readyz reports about a store.
type Status struct {
	Clock      time.Time
	Durability string // in words: "fsync on, synchronous_commit on, no synchronous standby"
	Safe       bool   // false when a setting lets a crash lose an answered check
	Breakable  bool   // not Safe, and a crash of the machine can damage the store as a whole
	// StandbysMissing is how many synchronous standbys commits wait for that are
	// not connected.
	StandbysMissing int
}
