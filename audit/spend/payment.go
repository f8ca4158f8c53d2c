package spend

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// The limits of what a request says about its payment (S84).
const (
	MaxPaymentKey    = 255 // code points
	MinNonce         = 16  // characters
	MaxNonce         = 64
	MaxAgainHours    = 8760
	MaxTakeOverHours = 168
	// TakeOverHours is how long after an attempt's first redemption another nonce may take it over, unless
	// the request says otherwise.
	TakeOverHours = 24
)

// PaymentKey returns a payment's key in the form in which keys are compared and recorded: in NFC, without
// white space around it. fault says why the key is refused; it is empty for a good one.
func PaymentKey(s string) (key, fault string) {
	if TooLong(s, MaxPaymentKey) {
		return "", LengthForm(MaxPaymentKey)
	}
	key = NFC(strings.TrimSpace(s))
	if fault = VisibleFault(strings.TrimSpace(s)); fault == "" {
		_, unseen := FirstUnseen(s) // also around it
		if unseen >= 0 {
			fault = VisibleFault(s)
		}
	}
	if fault == "" && TooLong(key, MaxPaymentKey) {
		fault = LengthForm(MaxPaymentKey)
	}
	return key, fault
}

// PaymentHash names a payment: by its key, in the form of PaymentKey, in a namespace (S59).
func PaymentHash(namespace, key string) Hash {
	return hashPair("spendgate payment 1\n", namespace, key)
}

// Payment is something that is carried out at most once, however often it is asked for (S84). It is the
// fold of what the record says of it: of its checks and of the steps of their courses, in the order of the
// versions that they carry. The store keeps it as one row, whose version a commit compares: so a decision about a
// payment is recorded only if nothing was recorded of the payment since it was read.
type Payment struct {
	Namespace string
	Key       string
	Version   int64 // counts what was recorded of it; 0 before the first check
	First     ID    // the check by which it began
	PaymentState
}

// PaymentState is what a payment's row has beside its name and version.
type PaymentState struct {
	Attempt    int         `json:"attempt"`
	Round      int         `json:"round,omitempty"`
	Hours      int         `json:"again_after_hours,omitempty"` // until an executed payment is free again; 0: never
	Current    ID          `json:"current"`
	Redeemed   int         `json:"redeemed,omitempty"`   // how many of its checks were ever redeemed
	Nonces     []Hash      `json:"nonces,omitempty"`     // that ever redeemed or took over
	Executions []Execution `json:"executions,omitempty"` // the checks that were ever executed, by their first reports
}

// Execution is a check of a payment that was reported executed.
type Execution struct {
	Check ID        `json:"check"`
	Round int       `json:"round,omitempty"`
	At    time.Time `json:"at"`             // of its first such report, again after one that says that it was not
	Back  bool      `json:"back,omitempty"` // a later report says that it was not
}

// PaymentsKept is the least time for which a payment that has ended is kept, if it is not kept for ever: much longer than
// approvals and duplicate windows last.
const PaymentsKept = 35 * 24 * time.Hour

// Has reports whether a check of the payment's key, or one that was redeemed under it, is of this payment, and not of one that was
// removed before this one began anew. Long after the end of that, so clocks need not agree.
func (p *Payment) Has(check ID) bool {
	return p.Version > 0 && !check.Time().Before(p.First.Time().Add(-PaymentsKept/2))
}

// Hash names the payment.
func (p *Payment) Hash() Hash { return PaymentHash(p.Namespace, p.Key) }

// Executed returns the first executed check of the present round; nil if there is none.
func (p *Payment) Executed() *Execution {
	for i := range p.Executions {
		if e := &p.Executions[i]; e.Round == p.Round && !e.Back {
			return e
		}
	}
	return nil
}

// Shown returns the check that the payment shows: the first executed one of the round, else the current one.
// It is zero for a payment without checks.
func (p *Payment) Shown() ID {
	if e := p.Executed(); e != nil {
		return e.Check
	}
	return p.Current
}

// Over reports whether the round is over: it was executed, and the payment is free again.
func (p *Payment) Over(now time.Time) bool {
	e := p.Executed()
	return e != nil && p.Hours > 0 && !now.Before(e.At.Add(time.Duration(p.Hours)*time.Hour))
}

// Used reports whether a nonce ever redeemed a check of the payment or took one over.
func (p *Payment) Used(nonce Hash) bool { return slices.Contains(p.Nonces, nonce) }

// ExecutionID returns what identifies an attempt to whoever moves the money (S84): the same for each caller and
// repetition, and another one after an attempt that was given back. earlier is how many checks of the payment
// were redeemed before that of the attempt.
func (p *Payment) ExecutionID(deployment ID, earlier int) string {
	b := append(make([]byte, 0, 512), "spendgate execution 1\n"...)
	b = append(b, deployment[:]...)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(p.Namespace))), p.Namespace...)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(p.Key))), p.Key...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(earlier)))
	return "exe_" + hex.EncodeToString(sum[:16])
}

// WithCheck returns the payment after a check of it, and what the check's row says of it. A payment whose round
// was executed must be Over.
func (p Payment) WithCheck(c *Check, hours int, nonce Hash) (Payment, *CheckPayment) {
	p.Version++
	if p.Version == 1 {
		p.Hours = hours
	}
	p = p.next(c.ID)
	if c.Action.ApprovalID.IsZero() {
		p.Attempt++
	}
	return p, &CheckPayment{Key: p.Key, Version: p.Version, Attempt: p.Attempt, Round: p.Round, Hours: p.Hours, Nonce: nonce}
}

// next returns the payment with another current check.
func (p Payment) next(check ID) Payment {
	if p.Executed() != nil {
		p.Round++
	}
	p.Current = check
	if p.First.IsZero() {
		p.First = check
	}
	return p
}

// WithStep returns the payment after a step of the course of one of its checks, and what the step's row says
// of it. round is that of the check; byNonce says that a nonce redeems the check under this payment, or takes it over.
func (p Payment) WithStep(o *Outcome, round int, byNonce bool) (Payment, PaymentStep) {
	p.Version++
	step := PaymentStep{Namespace: p.Namespace, Key: p.Key, Version: p.Version, Round: round, ByNonce: byNonce}
	if byNonce {
		p.Nonces = append(slices.Clip(p.Nonces), o.Replay)
	}
	p.Executions = slices.Clone(p.Executions)
	known := slices.IndexFunc(p.Executions, func(e Execution) bool { return e.Check == o.CheckID })
	switch o.Status {
	case Redeemed:
		if p.Current != o.CheckID { // of an executor's payment
			p = p.next(o.CheckID)
			p.Attempt++
			step.Round = p.Round
		}
		step.Earlier = p.Redeemed
		p.Redeemed++
	case Executed:
		if known < 0 {
			p.Executions = append(p.Executions, Execution{Check: o.CheckID, Round: round, At: o.ID.Time()})
		} else if e := &p.Executions[known]; e.Back {
			e.At, e.Back = o.ID.Time(), false
		}
	case Failed, Voided:
		if known >= 0 {
			p.Executions[known].Back = true
		}
	case TakenOver, InDoubt:
	}
	return p, step
}

// PaidTwice reports whether the report makes a second check of a round executed.
func (p *Payment) PaidTwice(o *Outcome, round int) bool {
	if o.Status != Executed || o.Follows != nil && o.Follows.Status == Executed {
		return false
	}
	return slices.ContainsFunc(p.Executions, func(e Execution) bool { return e.Round == round && !e.Back && e.Check != o.CheckID })
}

// PaymentChange is a payment as a commit makes it, from the version that was read.
type PaymentChange struct {
	Seen int64 // 0: it must not be recorded yet
	To   Payment
	hash Hash // once it was asked for
}

// Hash names the payment. A commit asks for it several times, in one goroutine after the other.
func (c *PaymentChange) Hash() Hash {
	if c.hash.IsZero() {
		c.hash = c.To.Hash()
	}
	return c.hash
}
