package verify

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// paid is something recorded of a payment: a check of it, a step of the course of one of its checks, or its row.
type paid struct {
	Hash spend.Hash // of the payment

	Row     *paymentRow     `json:",omitempty"`
	Removal *paymentRemoval `json:",omitempty"`

	Of      spend.PaymentStep   // of a check: no more than the payment's name and the version
	Check   spend.ID            `json:",omitzero"`
	Says    *spend.CheckPayment `json:",omitempty"` // of a check
	Allowed bool                `json:",omitempty"`
	Blocked bool                `json:",omitempty"`
	Uses    spend.ID            `json:",omitzero"`  // the approval
	Claims  bool                `json:",omitempty"` // a fingerprint

	Step   spend.ID     `json:",omitzero"` // zero of a check
	Status spend.Status `json:",omitempty"`
	First  bool         `json:",omitempty"` // is the check's first report
	Frees  bool         `json:",omitempty"` // gives the check back
	Again  bool         `json:",omitempty"` // follows a report of the same check as executed
	Alone  bool         `json:",omitempty"` // changes no other payment
	Flags  []spend.Flag `json:",omitempty"`
	Nonce  spend.Hash   `json:",omitzero"`
	Omits  bool         `json:",omitempty"` // the step does not name the payment, to which its check belongs
}

// paymentRow is a row of the table of payments.
type paymentRow struct {
	Version int64
	First   spend.ID
	State   string
}

func (r *paid) id() spend.ID {
	if r.Step.IsZero() {
		return r.Check
	}
	return r.Step
}

func (r *paid) name() string { return entryName(r.id()) }

// compare orders what is recorded payment by payment and by versions; a payment's row comes first.
func (r *paid) compare(other *paid) int {
	return cmp.Or(bytes.Compare(r.Hash[:], other.Hash[:]), cmp.Compare(r.Of.Version, other.Of.Version), r.id().Compare(other.id()))
}

// payment notes that a check, which is the current row, is of a payment, and the first step of its course that does not say so.
func (s *slice) payment(c *course) error {
	says, err := spend.ParseCheckPayment(string(s.fields[chain.FieldPayment]))
	if err != nil || says == nil || !s.whole() {
		return nil //nolint:nilerr // then the payment lacks a version
	}
	namespace, decision := string(s.fields[chain.FieldNamespace]), string(s.fields[chain.FieldDecision])
	if o := c.silent(namespace, says.Key); o != nil {
		if err := s.omits(spend.PaymentStep{Namespace: namespace, Key: says.Key}, o); err != nil {
			return err
		}
	}
	return s.paid.add(&paid{
		Hash: spend.PaymentHash(namespace, says.Key), Of: spend.PaymentStep{Namespace: namespace, Key: says.Key, Version: says.Version},
		Check: spend.ID(s.fields[chain.FieldID]), Says: says, Allowed: decision == "a", Blocked: decision == "b",
		Uses: identifier(s.fields[chain.FieldApprovalID]), Claims: s.fields[chain.FieldClaimed] != nil,
	})
}

// payStep notes the payments that a step behind a course changes, and those that it should.
func (s *slice) payStep(c *course, o *spend.Outcome) error {
	if !s.whole() {
		return nil
	}
	if o.Status == spend.InDoubt {
		return nil
	}
	if len(o.Payment.Of) == 0 && c.unnamed == nil {
		c.unnamed = o
	}
	if c.redeemed != nil {
		for _, of := range c.redeemed.Payment.Of {
			if o.Payment.Step(of.Namespace, of.Key) == nil {
				if err := s.omits(of, o); err != nil {
					return err
				}
			}
		}
	}
	before := c.report
	for _, of := range o.Payment.Of {
		err := s.paid.add(&paid{
			Hash: spend.PaymentHash(of.Namespace, of.Key), Of: of, Check: o.CheckID, Step: o.ID, Status: o.Status,
			First: o.Number == 1, Frees: o.Frees(),
			Again: before != nil && before.Status == spend.Executed, Alone: len(o.Payment.Of) == 1, Flags: o.Payment.Flags, Nonce: o.Replay,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// payments makes every payment again from what is recorded of it, and compares it with its row (S84, G16).
func (v *verifier) payments(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	err := walkFields(ctx, v.o.Evidence, Walk{Table: chain.Payments(), Order: "payment_hash"}, func(f [][]byte, _ []byte) error {
		v.tally.payments++
		of := spend.PaymentStep{Namespace: string(f[1]), Key: string(f[2])}
		return v.paid.add(&paid{Hash: hashIn(f[0]), Of: of, Row: &paymentRow{chain.Integer(f[3]), identifier(f[4]), string(f[5])}})
	})
	if err != nil {
		return err
	}
	var one []*paid
	for r, err := range v.paid.all() {
		if err != nil {
			return err
		}
		if len(one) > 0 && r.Hash != one[0].Hash {
			v.paymentOf(one)
			one = one[:0]
		}
		one = append(one, r)
	}
	if len(one) > 0 {
		v.paymentOf(one)
	}
	return nil
}

// replayed is a payment as what is recorded of it makes it.
type replayed struct {
	*verifier
	spend.Payment
	checks map[spend.ID]*paidCheck
	held   spend.ID // the check of the round that was redeemed and not given back
}

// paidCheck is what a payment's record says of a check.
type paidCheck struct {
	asked    bool // as a check of the payment, and not as one that was redeemed under it
	round    int
	allowed  bool // else a report that it was not executed gives back whatever it was reported to have moved
	open     bool // allowed, or executed, and not given back
	redeemed bool
	byNonce  bool
}

// paymentOf compares what is recorded of one payment. Where a row of it has a finding of its own, or is in an archive that is not
// at hand, nothing is said that this might explain.
func (v *verifier) paymentOf(all []*paid) {
	p := v.replay(all[len(all)-1].Of) // its row, if it has one, and its removals come first
	name := "payment " + spend.ID(all[0].Hash[:16]).Text("")
	find := func(kind Kind, format string, args ...any) {
		v.tally.find(kind, name, "%q of %q: %s", p.Key, p.Namespace, fmt.Sprintf(format, args...))
	}
	if slices.ContainsFunc(all, func(r *paid) bool { return v.lostOf(r.Check) }) {
		return
	}
	explained := len(v.tally.unread) > 0 || len(v.tally.gone) > 0
	lives := livesOf(all)
	for i, one := range lives.all {
		for _, r := range one {
			switch {
			case r.Of.Version > p.Version+1 && explained:
				return
			case r.Of.Version > p.Version+1:
				find(Removed, "nothing that is recorded made its version %d", p.Version+1)
				return
			case r.Of.Version <= p.Version:
				p.stray(r, "another row made that version of the payment")
			case r.Step.IsZero():
				p.check(r)
			default:
				p.step(r)
			}
		}
		if i == len(lives.removals) {
			break // it is the last
		}
		removal := lives.removals[i]
		if p.Version < removal.Version && explained {
			return
		}
		if why := p.unended(one, removal); why != "" {
			find(Removed, "%s removed it, and %s", changeName(removal.Seq), why)
			return
		}
		p = v.replay(all[len(all)-1].Of)
	}
	for _, r := range lives.omitting {
		if at := lives.removalOf(r.Check); at == nil || r.Step.Time().Before(at.At.Add(-lateCommit)) {
			p.stray(r, "it does not name that payment, to which %s belongs", checkName(r.Check))
		}
	}
	state := string(p.Append(nil))
	switch row := lives.row; {
	case row == nil && p.Version > 0:
		find(Removed, "the record makes its version %d", p.Version)
	case row == nil, row.Row.Version > p.Version && explained:
	case p.Version == 0:
		find(Inserted, "nothing is recorded of it")
	case row.Of.Namespace != p.Namespace || row.Of.Key != p.Key || row.Row.Version != p.Version || row.Row.First != p.First ||
		row.Row.State != state:
		find(Altered, "its row is of %q of %q, version %d from %s on, %s; the record makes version %d from %s on, %s",
			row.Of.Key, row.Of.Namespace, row.Row.Version, checkName(row.Row.First), row.Row.State, p.Version, checkName(p.First), state)
	}
}

func (v *verifier) replay(of spend.PaymentStep) *replayed {
	return &replayed{verifier: v, checks: make(map[spend.ID]*paidCheck), Payment: spend.Payment{Namespace: of.Namespace, Key: of.Key}}
}

// lostOf reports whether a check, or one of its steps, differs from its record.
func (v *verifier) lostOf(check spend.ID) bool {
	_, lost := v.keys.lost[check]
	_, astray := v.courses.lost[check]
	return lost || astray
}

// stray names a row that no node would record.
func (p *replayed) stray(r *paid, format string, args ...any) {
	p.courses.suspect(r.Check, Inserted, r.name(), "of payment %q of %q: %s", p.Key, p.Namespace, fmt.Sprintf(format, args...))
}

// taken says why nothing may begin under the payment at a time; empty if it is free.
func (p *replayed) taken(at time.Time) string {
	if p.Executed() != nil {
		if !p.Over(at.Add(lateCommit)) {
			return "it was executed by " + checkName(p.Shown())
		}
		return ""
	}
	if c := p.checks[p.Current]; c != nil && c.open {
		return checkName(p.Current) + " is current, and was not given back"
	}
	return ""
}

// check adds a check of the payment.
func (p *replayed) check(r *paid) {
	if why := p.taken(r.Check.Time()); why != "" {
		p.stray(r, "%s", why)
	}
	if r.Blocked && r.Claims {
		p.stray(r, "it was blocked, and left a fingerprint")
	}
	c := &spend.Check{ID: r.Check, Action: spend.Action{ApprovalID: r.Uses}}
	round := p.Round
	var says *spend.CheckPayment
	if p.Payment, says = p.WithCheck(c, r.Says.Hours, r.Says.Nonce); *says != *r.Says {
		p.stray(r, "its row says %s, and the record before it makes %s", r.Says.Append(nil), says.Append(nil))
	}
	if p.Round > round {
		p.held = spend.ID{}
	}
	if asked := p.checks[r.Uses]; asked != nil && asked.round != p.Round {
		p.stray(r, "people approved %s, of a round before", checkName(r.Uses))
	}
	p.checks[r.Check] = &paidCheck{asked: true, round: p.Round, allowed: r.Allowed, open: r.Allowed}
}

// step adds a step of the course of a check.
func (p *replayed) step(r *paid) {
	c := p.checks[r.Check]
	if c == nil {
		if c = (&paidCheck{round: r.Of.Round, allowed: true}); r.Status != spend.Redeemed {
			p.stray(r, "the check is not of the payment, and was not redeemed under it")
		}
		p.checks[r.Check] = c
	}
	if why := p.refuses(r, c); why != "" {
		p.stray(r, "%s", why)
	}
	o := &spend.Outcome{ID: r.Step, CheckID: r.Check, Status: r.Status, Replay: r.Nonce}
	if r.Again {
		o.Follows = &spend.Outcome{Status: spend.Executed}
	}
	if twice, says := p.PaidTwice(o, c.round), slices.Contains(r.Flags, spend.FlagPaidTwice); twice && !says || says && !twice && r.Alone {
		p.stray(r, "whether it is paid twice is not as the record before it has it")
	}
	round := p.Round
	var says spend.PaymentStep
	if p.Payment, says = p.WithStep(o, c.round, r.Of.ByNonce); says != r.Of {
		p.stray(r, "its row says %+v, and the record before it makes %+v", r.Of, says)
	}
	if p.Round > round {
		p.held = spend.ID{}
	}
	c.follow(r, says.Round)
	switch {
	case r.Status == spend.Redeemed:
		p.held = r.Check
	case p.held == r.Check && !c.open:
		p.held = spend.ID{}
	}
}

// follow adds a step to what is said of its check.
func (c *paidCheck) follow(r *paid, round int) {
	switch r.Status {
	case spend.Redeemed:
		c.open, c.redeemed, c.byNonce, c.round = true, true, r.Of.ByNonce, round
	case spend.Executed, spend.Failed, spend.Voided:
		c.open = r.Status == spend.Executed || c.allowed && !r.Frees
	case spend.TakenOver, spend.InDoubt:
	}
}

// refuses says why no node would record the step; empty if one would.
func (p *replayed) refuses(r *paid, c *paidCheck) string {
	switch shown := p.Shown(); {
	case r.Of.ByNonce && p.Used(r.Nonce):
		return "its nonce redeemed a check of the payment before, or took one over"
	case r.Status == spend.Redeemed && !c.asked:
		return p.taken(r.Step.Time())
	case (r.Status == spend.Redeemed || r.Status == spend.TakenOver) && shown != r.Check:
		return checkName(shown) + " is current, or was executed"
	case r.Status == spend.Redeemed && !p.held.IsZero():
		return checkName(p.held) + " was redeemed, and not given back"
	case r.Status == spend.TakenOver && r.Of.ByNonce != c.byNonce:
		return "the check was not redeemed under it"
	case r.Status == spend.Executed && r.First && c.asked && !c.redeemed && !slices.Contains(r.Flags, spend.FlagUnredeemed):
		return "the check was not redeemed"
	}
	return ""
}
