package spend

import (
	"cmp"
	"slices"
	"time"
)

// Outcome is one step of an allowed action's course, a row of the audit trail: that it was redeemed
// (S74), that it is in doubt since, or a report (S39, S41). Steps of a check have numbers without
// gaps, so of two concurrent steps one is recorded.
type Outcome struct {
	ID        ID // its millisecond is the time of the record
	CheckID   ID
	Step      int // counts the steps of a check, from 1
	Number    int // counts the reports of a check, from 1 to MaxReports; 0 of other steps
	Status    Status
	Amount    Amount // that was moved; 0 unless executed
	Reference string
	Note      string
	Release   Release
	Excess    Excess
	// MayRelease is whether the reporter may give back. A report by a reporter who may not is the
	// first or is refused, and can always be followed by another (S61).
	MayRelease bool

	KeyID     string
	Principal string // of the API key; empty if the key's record names none
	RequestID string
	Fence     Fence // under which the outcome is committed

	Replay Hash // of a redemption or a take-over: its API key and its nonce, or Idempotency-Key; zero without one
	// Payment says which payments the step changed, and what is unusual about the step (S84).
	Payment OutcomePayment
	// Payments are changed by the step's commit. Stores that read outcomes do not set them.
	Payments []PaymentChange
	// RedeemBy is until when a redemption may be recorded, by the store's clock. A store
	// that reads outcomes leaves it out.
	RedeemBy time.Time

	// Check is the allowed check, whose charges are corrected. Stores that read outcomes do not set
	// it.
	Check *Check
	// Unread marks a redemption whose Check has only what the request says of it. It is recorded only
	// if the recorded check Carries that and is of no payment; the commit then adds the recorded check's agent, key,
	// principal, reason, idempotency key and approval to Check, and sets Unread to false.
	Unread bool
	// Follows is the report before, which this one corrects; nil for the first report and for steps
	// that are not reports. Stores that read outcomes do not set it.
	Follows *Outcome
}

// Status is what became of an action.
type Status string

// The statuses of reports and of the other steps.
const (
	Executed Status = "executed"
	Failed   Status = "failed"
	Voided   Status = "voided"

	Redeemed Status = "redeemed"
	InDoubt  Status = "in_doubt" // redeemed, and nobody knows whether it was executed
	// TakenOver passes a redemption on to another nonce, which is the redeemer from then on (S84).
	TakenOver Status = "taken_over"
)

// StatusForm describes what Status.Known accepts, for messages.
const StatusForm = "must be executed, failed or voided"

// Known reports whether reports have such a status.
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

// The excesses; the empty one means none.
const (
	ExcessCounted Excess = "exceeded"
	ExcessPending Excess = "exceeded_pending" // not counted: the reporter may not
	// Unapproved was escalated and approved outside of spendgate, or not at all: it took
	// nothing from budgets.
	Unapproved Excess = "unapproved"
)

// MaxReports is how many reports a check may have.
const MaxReports = 100

// MaxTakeOvers is how often the redemption of a check may be taken over: numbers of steps, and rows of payments, have a bound.
const MaxTakeOvers = 100

// The limits of a report, in characters.
const (
	MaxReference = 256
	MaxNote      = 4096
)

// NewOutcomeID makes the ID of an outcome: like the ID of a check at that instant, but of UUID version
// 8, so that an entry of a batch shows which of the two it is.
func NewOutcomeID(now time.Time) ID {
	id := NewID(now)
	id[6] = id[6]&0x0f | 0x80
	return id
}

// OfOutcome reports whether the ID is one of an outcome.
func (id ID) OfOutcome() bool { return id[6]&0xf0 == 0x80 }

// SetRelease sets what the report gives back, which depends on whether the reporter may release.
func (o *Outcome) SetRelease(mayRelease bool) {
	o.Release, o.Excess, o.MayRelease = ReleaseNone, "", mayRelease
	moved := o.Amount.Cmp(o.Check.Action.Amount)
	switch {
	case o.Check.Decision.Effect != Allow && o.Status != Executed:
	case o.Check.Decision.Effect != Allow:
		o.Excess = Unapproved
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

// Reporter returns who reported: the principal behind the key.
func (o *Outcome) Reporter() string { return cmp.Or(o.Principal, o.KeyID) }

// Frees reports whether the check's fingerprint is free again; nil is no report.
func (o *Outcome) Frees() bool { return o != nil && o.Release == ReleaseDone && o.Status != Executed }

// Moved returns how much the budgets count as moved by the check as it is after the
// report; nil is no report.
func (o *Outcome) Moved(c *Check) Amount {
	switch {
	case o == nil:
	case o.Frees():
		return Amount{}
	case o.Release == ReleaseDone || o.Excess == ExcessCounted:
		return o.Amount
	}
	return c.Action.Amount
}

// GivesBack reports whether the check takes less from budgets after the report than
// before it, or frees its fingerprint.
func (o *Outcome) GivesBack() bool {
	return o.Frees() && !o.Follows.Frees() || o.Moved(o.Check).Cmp(o.Follows.Moved(o.Check)) < 0
}

// Restores reports whether the report reverses a check's release: the action was carried out after
// all, and the check holds its fingerprint again (S61).
func (o *Outcome) Restores() bool { return o.Follows.Frees() && !o.Frees() }

// Course is what became of an allowed check so far.
type Course struct {
	Redeemed *Outcome   // nil unless it was
	Taken    *Outcome   // the last take-over; nil without one
	Former   []*Outcome // the redemption and take-overs before it
	Doubt    *Outcome   // since the redemption or the last take-over; nil without one
	Reports  []*Outcome
	steps    int
}

// CourseOf returns the course that the steps of a check, in their order, amount to.
func CourseOf(steps []*Outcome) (c Course) {
	for _, o := range steps {
		c = c.With(o)
	}
	return c
}

// With returns the course after another step.
func (c *Course) With(o *Outcome) Course {
	next := *c
	next.steps++
	switch o.Status {
	case Redeemed:
		next.Redeemed = o
	case TakenOver:
		next.Former = append(slices.Clip(c.Former), c.Holder())
		next.Taken, next.Doubt = o, nil
	case InDoubt:
		next.Doubt = o
	default:
		next.Reports = append(slices.Clip(c.Reports), o)
	}
	return next
}

// HeldBy returns the redemption, or the take-over, with that ID; nil without one.
func (c *Course) HeldBy(id ID) *Outcome {
	for _, o := range append(slices.Clip(c.Former), c.Holder()) {
		if o != nil && o.ID == id {
			return o
		}
	}
	return nil
}

// Held reports whether the check was redeemed, or taken over, under that ID.
func (c *Course) Held(id ID) bool { return c.HeldBy(id) != nil }

// Last returns the last report; nil before there is one.
func (c *Course) Last() *Outcome {
	if len(c.Reports) == 0 {
		return nil
	}
	return c.Reports[len(c.Reports)-1]
}

// Next returns the number of the step that follows.
func (c *Course) Next() int { return c.steps + 1 }

// Holder returns the step by which the check is redeemed now: the last take-over, else the redemption; nil
// if it was not redeemed.
func (c *Course) Holder() *Outcome {
	if c.Taken != nil {
		return c.Taken
	}
	return c.Redeemed
}

// Passes reports whether a nonce takes over what was redeemed under a payment, at most that long ago (S84).
func (c *Course) Passes(p *Payment, nonce Hash, within time.Duration, now time.Time) bool {
	under := c.Redeemed.Payment.Step(p.Namespace, p.Key)
	return within > 0 && !p.Used(nonce) && under != nil && under.ByNonce && len(c.Former) < MaxTakeOvers &&
		!now.After(c.Redeemed.ID.Time().Add(within))
}

// Same reports whether both reports say the same.
func (o *Outcome) Same(other *Outcome) bool {
	return o.Status == other.Status && o.Amount == other.Amount && o.Reference == other.Reference && o.Note == other.Note
}

// Correction is the change that reports make to a counter. At most one of the totals is above zero.
type Correction struct {
	Back  Total // given back
	Over  Total // moved beyond the allowed amount
	Count int64 // given back; below zero when the amount counts again
}

// Plus returns the sum of both.
func (c Correction) Plus(d Correction) Correction {
	sum := Correction{Count: c.Count + d.Count}
	back, over := c.Back.Plus(d.Back), c.Over.Plus(d.Over)
	if more, ok := over.Minus(back); ok {
		sum.Over = more
	} else {
		sum.Back, _ = back.Minus(over)
	}
	return sum
}

// Correction returns the change that the report makes to a charge of its check, in addition to the
// report before.
func (o *Outcome) Correction(charge *Charge) Correction {
	before := o.Follows.Corrected(charge)
	return o.Corrected(charge).Plus(Correction{Back: before.Over, Over: before.Back, Count: -before.Count})
}

// Corrected returns how much less, or more, than the charge the check and its reports up to this one
// took. A budget without a currency counts no amount; nil is no report.
func (o *Outcome) Corrected(charge *Charge) (c Correction) {
	switch {
	case o == nil:
		return c
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
