package audit

import (
	"context"

	"spendgate/audit/spend"
)

// Passes are the checks that left fingerprints, for the duplicate guard.
type Passes interface {
	// PassStates looks checks up by ID as holders of fingerprints; the absent are
	// missing from the answer.
	PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]PassState, error)
	// LivePasses returns, per fingerprint, the latest pass whose UntilMS is after nowMS, that was not
	// released (PassReleased), and whose effect is at most upTo: with Allow the allowed ones, with
	// Block all. Of checks with smaller IDs than before; zero is all.
	LivePasses(
		ctx context.Context, fingerprints []spend.Hash, before spend.ID, nowMS int64, upTo spend.Effect,
	) (map[spend.Hash]LivePass, error)
	// PagePasses walks all passes whose UntilMS is after nowMS and that were not
	// released, newest ID first, beginning below the ID before (zero begins at the
	// newest).
	PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) ([]LivePass, error)
}

// LivePass is a fingerprint still in force and the check that left it.
type LivePass struct {
	Fingerprint spend.Hash
	CheckID     spend.ID
	Effect      spend.Effect
	spend.Pass
}

// PassState is the state of a recorded check as the holder of a fingerprint.
type PassState int

// The states of a recorded check.
const (
	PassFinal      PassState = iota + 1 // there is nothing to release
	PassReleasable                      // was allowed
	PassAsking                          // asks for an approval
	PassExpiring                        // the same, and the approval has expired, which is not recorded yet
	// PassReleased is the state of a check that is not a pass: it left no fingerprint, it failed or
	// was voided, or the use of its approval was, or the expiry or withdrawal of its approval is recorded.
	PassReleased
)

// PassFacts are the facts that determine the state of a recorded check.
type PassFacts struct {
	Allowed  bool
	Asks     bool // for an approval
	Released bool // see PassReleased
	Overdue  bool // its approval has expired
}

// State returns the state of a recorded check.
func (f PassFacts) State() PassState {
	switch {
	case f.Released:
		return PassReleased
	case f.Overdue:
		return PassExpiring
	case f.Asks:
		return PassAsking
	case f.Allowed:
		return PassReleasable
	}
	return PassFinal
}
