package audit

import (
	"errors"
	"fmt"

	"spendgate/audit/spend"
)

// The errors of a Store or the Writer. Test with errors.Is.
var (
	// ErrNotFound: nothing is recorded by that name, and nothing was written.
	ErrNotFound = errors.New("not found")
	// ErrStaleEpoch: nothing was written. Claim again, in the epoch that is.
	ErrStaleEpoch = errors.New("epoch is over")
	// ErrFencedNode: nothing was written, nor will this incarnation ever write.
	// Claim again as a new one.
	ErrFencedNode = errors.New("node incarnation is fenced")
	// ErrUnknown: a write may have happened, or may yet. Fence the node, then
	// look its checks up.
	ErrUnknown = errors.New("outcome of the commit is unknown")
	// ErrForked: this commit wrote nothing, but an earlier try of it may have.
	// Fence the node, then look its checks up.
	ErrForked = errors.New("another batch has this place in the node's chain")
	// ErrPoliciesFull: nothing was written. All versions of all policies together would be larger than
	// the store's limit.
	ErrPoliciesFull = errors.New("no room for more policies")
	// ErrWebhooksFull: nothing was written. There are MaxWebhooks.
	ErrWebhooksFull = errors.New("no room for more webhooks")
	// ErrBacktestsFull: nothing was written. MaxBacktests have not ended.
	ErrBacktestsFull = errors.New("no room for more backtests")
	// ErrUnavailable: nothing was written. Try again later.
	ErrUnavailable = errors.New("store unavailable")
)

// KeysTakenError lists the idempotency keys of a batch that are recorded
// already, by another check. Nothing was written: commit the rest.
type KeysTakenError struct{ Hashes []spend.Hash }

func (e *KeysTakenError) Error() string {
	return fmt.Sprintf("%d idempotency keys are taken", len(e.Hashes))
}

// ReportedError lists checks of a batch that have an outcome already, of that
// number, or no pending one that a second may follow. Nothing was written: commit
// the rest.
type ReportedError struct {
	CheckIDs []spend.ID
	Late     []spend.ID // of CheckIDs, those that are too old to be redeemed
}

func (e *ReportedError) Error() string {
	return fmt.Sprintf("%d outcomes are reported already", len(e.CheckIDs))
}

// RowError is a refusal of a row's own data. Nothing was written, and another try
// would fail again.
type RowError struct{ Err error }

func (e *RowError) Error() string { return "row refused: " + e.Err.Error() }
func (e *RowError) Unwrap() error { return e.Err }
