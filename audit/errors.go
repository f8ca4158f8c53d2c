package audit

import (
	"errors"
	"fmt"

	"spendgate/hotpath/spend"
)

// What a Store or the Writer may answer. Test with errors.Is.
var (
	ErrNotFound    = errors.New("not found")
	ErrStaleEpoch  = errors.New("epoch is over")
	ErrFencedNode  = errors.New("node incarnation is fenced")
	ErrUnknown     = errors.New("outcome of the commit is unknown")
	ErrForked      = errors.New("another batch has this place in the node's chain")
	ErrUnavailable = errors.New("store unavailable")
)

// KeysTakenError lists the idempotency keys of a batch that are recorded
// already, by another check.
type KeysTakenError struct{ Hashes []spend.Hash }

func (e *KeysTakenError) Error() string {
	return fmt.Sprintf("%d idempotency keys are taken", len(e.Hashes))
}

// RowError is a refusal of a row's own data. Another try would fail again.
type RowError struct{ Err error }

func (e *RowError) Error() string { return "row refused: " + e.Err.Error() }
func (e *RowError) Unwrap() error { return e.Err }
