package verify

import (
	"cmp"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// paymentRemoval is a removal of a payment.
type paymentRemoval struct {
	Seq     int64 // of the change
	At      time.Time
	Before  time.Time // it ended
	Version int64     // that it had
}

// paymentsRemoved notes what a change says was removed (S84).
func (w *changeWalk) paymentsRemoved(c Change) error {
	removal, unread := audit.ParsePaymentsRemoval(c.Details)
	if unread != nil || c.Subject != audit.PaymentsSubject || len(removal.Versions) == 0 ||
		removal.Before.After(c.At.Add(lateCommit-spend.PaymentsKept)) {
		w.tally.find(Inserted, changeName(c.Seq), "it says that payments were removed which are kept longer")
		return nil //nolint:nilerr // it is a finding
	}
	if !w.whole() {
		return nil
	}
	for hash, version := range removal.Versions {
		if err := w.paid.add(&paid{Hash: hash, Removal: &paymentRemoval{c.Seq, c.At, removal.Before, version}}); err != nil {
			return err
		}
	}
	return nil
}

// lives are what is recorded of a payment, from one removal to the next.
type lives struct {
	row      *paid // nil without one
	removals []*paymentRemoval
	all      [][]*paid // one more than removals
	omitting []*paid   // steps that do not name the payment
}

// livesOf divides what is recorded. What was recorded before a removal is much older than that, so clocks need not agree.
func livesOf(all []*paid) (l lives) {
	for _, r := range all {
		switch {
		case r.Row != nil:
			l.row = r
		case r.Removal != nil:
			l.removals = append(l.removals, r.Removal)
		case r.Omits:
			l.omitting = append(l.omitting, r)
		}
	}
	slices.SortFunc(l.removals, func(a, b *paymentRemoval) int { return cmp.Compare(a.Seq, b.Seq) })
	l.all = make([][]*paid, len(l.removals)+1)
	for _, r := range all {
		if r.Row == nil && r.Removal == nil && !r.Omits {
			i := l.before(r.id())
			l.all[i] = append(l.all[i], r)
		}
	}
	return l
}

// before returns the number of the first removal behind something that is recorded.
func (l *lives) before(id spend.ID) int {
	i := 0
	for i < len(l.removals) && !id.Time().Before(l.removals[i].At.Add(-spend.PaymentsKept/2)) {
		i++
	}
	return i
}

// removalOf returns the removal of a check's payment; nil if there is none.
func (l *lives) removalOf(check spend.ID) *paymentRemoval {
	if i := l.before(check); i < len(l.removals) {
		return l.removals[i]
	}
	return nil
}

// unended says why the payment could not be removed; empty if it could.
func (p *replayed) unended(all []*paid, r *paymentRemoval) string {
	before := r.Before.Add(lateCommit)
	c := p.checks[p.Current]
	switch {
	case p.Version != r.Version:
		return "had another version"
	case slices.ContainsFunc(all, func(one *paid) bool { return one.id().Time().After(before) }):
		return "something was recorded of it since " + stamp(r.Before)
	case p.Executed() != nil && p.Hours > 0 && !p.Over(before):
		return "it was executed, and not free again yet"
	case p.Executed() == nil && c != nil && c.open:
		return checkName(p.Current) + " was current, and not given back"
	}
	return ""
}

// silent returns the first step of a check of a payment that does not name the payment, though no redemption does; nil if none is.
func (c *course) silent(namespace, key string) *spend.Outcome {
	switch {
	case c.redeemed != nil && c.redeemed.Payment.Step(namespace, key) == nil:
		return c.redeemed
	case c.redeemed == nil && c.unnamed != nil:
		return c.unnamed
	}
	return nil
}

// omits notes that a step does not name a payment of its check.
func (s *slice) omits(of spend.PaymentStep, o *spend.Outcome) error {
	of = spend.PaymentStep{Namespace: of.Namespace, Key: of.Key}
	return s.paid.add(&paid{Hash: spend.PaymentHash(of.Namespace, of.Key), Of: of, Check: o.CheckID, Step: o.ID, Omits: true})
}
