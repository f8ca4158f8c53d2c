package spend

import (
	"cmp"
	"time"
)

// Outcome is what became of an allowed action, as it was reported: a row of the
// audit trail (S39, S41).
type Outcome struct {
	ID      ID // its millisecond is when it was reported
	CheckID ID
	// Number is 1 for the first report, and 2 for that of a key that may release,
	// after a first by one that may not (S40).
	Number    int
	Status    Status
	Amount    Amount // that was moved; 0 unless executed
	Reference string
	Note      string
	Release   Release
	Excess    Excess

	KeyID     string
	Principal string // who stands behind that key; empty when its record does not say
	RequestID string
	Fence     Fence // under which it is committed

	// Check is the allowed check, whose charges are corrected. A store that reads
	// outcomes leaves it out.
	Check *Check
}

// Status is what became of an action.
type Status string

// The statuses.
const (
	Executed Status = "executed"
	Failed   Status = "failed"
	Voided   Status = "voided"
)

// StatusForm says what Status.Known accepts, for messages.
const StatusForm = "must be executed, failed or voided"

// Known reports whether there is such a status.
func (s Status) Known() bool { return s == Executed || s == Failed || s == Voided }

// Release says whether the report gave something back (S40).
type Release string

// The releases.
const (
	ReleaseNone    Release = "none"    // there is nothing to give back
	ReleasePending Release = "pending" // the reporter may not release
	ReleaseDone    Release = "done"
)

// Excess says whether more was moved than was allowed (S40).
type Excess string

// The excesses; empty when there is none.
const (
	ExcessCounted Excess = "exceeded"
	ExcessPending Excess = "exceeded_pending" // not counted: the reporter may not
)

// What a report may hold, in characters.
const (
	MaxReference = 256
	MaxNote      = 4096
)

// NewOutcomeID makes the ID of an outcome: that of a check of the instant, but for
// its version, which is 8. So an entry of a batch tells which of the two it is.
func NewOutcomeID(now time.Time) ID {
	id := NewID(now)
	id[6] = id[6]&0x0f | 0x80
	return id
}

// OfOutcome reports whether the ID is one of an outcome.
func (id ID) OfOutcome() bool { return id[6]&0xf0 == 0x80 }

// SetRelease sets what the report does with what the check took, which depends on
// whether the reporter may release.
func (o *Outcome) SetRelease(mayRelease bool) {
	o.Release, o.Excess = ReleaseNone, ""
	moved := o.Amount.Cmp(o.Check.Action.Amount)
	switch {
	case o.Status == Executed && moved == 0:
	case o.Status == Executed && moved > 0 && mayRelease:
		o.Excess = ExcessCounted
	case o.Status == Executed && moved > 0:
		o.Excess = ExcessPending
	case mayRelease:
		o.Release = ReleaseDone
	default:
		o.Release = ReleasePending
	}
}

// Pending reports whether a key that may release can still report.
func (o *Outcome) Pending() bool {
	return o.Number == 1 && (o.Release == ReleasePending || o.Excess == ExcessPending)
}

// Reporter returns who reported: the principal behind the key.
func (o *Outcome) Reporter() string { return cmp.Or(o.Principal, o.KeyID) }

// Frees reports whether the check's fingerprint is free again.
func (o *Outcome) Frees() bool { return o.Release == ReleaseDone && o.Status != Executed }

// Same reports whether both reports say the same.
func (o *Outcome) Same(other *Outcome) bool {
	return o.Status == other.Status && o.Amount == other.Amount && o.Reference == other.Reference && o.Note == other.Note
}

// Correction is what a report changes of what was taken from a counter.
type Correction struct {
	Back  Total // given back
	Over  Total // moved beyond what was allowed
	Count int64 // given back
}

// Plus returns the sum of both.
func (c Correction) Plus(d Correction) Correction {
	return Correction{c.Back.Plus(d.Back), c.Over.Plus(d.Over), c.Count + d.Count}
}

// Correction returns what the report changes of a charge of its check. A budget
// without a currency counted no amount.
func (o *Outcome) Correction(charge *Charge) (c Correction) {
	switch {
	case o.Frees():
		return Correction{Back: charge.Amount.Total(), Count: 1}
	case charge.NoCurrency:
		return c
	case o.Release == ReleaseDone:
		c.Back, _ = charge.Amount.Total().Minus(o.Amount.Total())
	case o.Excess == ExcessCounted:
		c.Over, _ = o.Amount.Total().Minus(charge.Amount.Total())
	}
	return c
}
