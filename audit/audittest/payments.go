package audittest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
)

func paymentTests() []test {
	return []test{
		{"PaymentsComeBack", paymentsComeBack},
		{"PaymentsAreCompared", paymentsAreCompared},
		{"PaymentsRace", paymentsRace},
		{"PaymentWriters", paymentWriters},
		{"PaymentTexts", paymentTexts},
		{"PaymentRedeemed", paymentRedeemed},
		{"PaymentReplaced", paymentReplaced},
		{"PaymentLapses", paymentLapses},
		{"PaymentLapsesRace", paymentLapsesRace},
		{"TakeOvers", takeOvers},
		{"TakeOversRace", takeOversRace},
		{"Withdrawals", withdrawals},
		{"WithdrawalsRefused", withdrawalsRefused},
		{"WithdrawalsRace", withdrawalsRace},
		{"DenialsWithdraw", denialsWithdraw},
		{"DenialsEnd", denialsEnd},
		{"DenialsRace", denialsRace},
		{"PaymentListing", paymentListing},
		{"PaymentsLeave", paymentsLeave},
		{"PaymentsLeaveAmidCommits", paymentsLeaveAmidCommits},
	}
}

// newPayment returns a payment of which nothing is recorded.
func newPayment() *spend.Payment {
	return &spend.Payment{Namespace: "Kasse – ゼロ", Key: "order " + newKeyText()}
}

// of makes a check one of the payment, and changes the payment by the check's commit.
func of(p *spend.Payment, c *spend.Check) *spend.Check {
	seen := p.Version
	c.Namespace = p.Namespace
	*p, c.Payment = p.WithCheck(c, 24, spend.Hash{9})
	c.Payments = []spend.PaymentChange{{Seen: seen, To: *p}}
	return c
}

// moves changes the payment by the step's commit.
func moves(p *spend.Payment, o *spend.Outcome) *spend.Outcome {
	seen := p.Version
	after, said := p.WithStep(o, p.Round, o.Status == spend.Redeemed || o.Status == spend.TakenOver)
	*p = after
	o.Payment.Of = append(o.Payment.Of, said)
	o.Payments = append(o.Payments, spend.PaymentChange{Seen: seen, To: after})
	return o
}

// together makes one change of the payment of a check's and of a step's that follows, as one commit records it.
func together(c *spend.Check, o *spend.Outcome) {
	o.Payments[0].Seen = c.Payments[0].Seen
	c.Payments = nil
}

// mustBePayment demands that payments are recorded like this.
func mustBePayment(t *testing.T, s Subject, want ...*spend.Payment) {
	t.Helper()
	hashes := []spend.Hash{{1}} // there is none
	for _, p := range want {
		hashes = append(hashes, p.Hash())
	}
	found, err := s.Payments(t.Context(), hashes)
	if err != nil || len(found) != len(want) {
		t.Fatalf("%d payments, %v, want %d", len(found), err, len(want))
	}
	for _, p := range want {
		if got := found[p.Hash()]; !reflect.DeepEqual(got, p) {
			t.Errorf("the payment is\n%+v\nwant\n%+v", got, p)
		}
	}
}

// mustMove demands that a commit is refused, because exactly these payments have another version, and writes nothing.
func mustMove(t *testing.T, s Subject, checks []*spend.Check, outcomes []*spend.Outcome, want ...*spend.Payment) {
	t.Helper()
	before := reported(t, s, outcomes)
	var err error
	if len(outcomes) > 0 {
		err = RecordAll(t.Context(), s, checks, outcomes...)
	} else {
		err = Record(t.Context(), s, checks...)
	}
	moved, ok := errors.AsType[*audit.PaymentsMovedError](err)
	if !ok || len(moved.Hashes) != len(want) {
		t.Fatalf("got %v, want a refusal of %d payments", err, len(want))
	}
	for _, p := range want {
		if !slices.Contains(moved.Hashes, p.Hash()) {
			t.Errorf("%x does not name %s", moved.Hashes, p.Key)
		}
	}
	mustLack(t, s, checks...)
	if after := reported(t, s, outcomes); !reflect.DeepEqual(after, before) {
		t.Errorf("there are %v, and were %v", after, before)
	}
}

// asRead returns the check as stores read it.
func asRead(c *spend.Check) *spend.Check {
	read := *c
	read.Payments, read.Withdrawn, read.RedeemBy = nil, nil, time.Time{}
	return &read
}

// paymentsComeBack: checks and steps of payments are read as they were, beside those of no payment.
func paymentsComeBack(t *testing.T, s Subject) {
	f := fence(t, s)
	wide := &spend.Payment{Namespace: strings.Repeat("\U0001f4b8", 255), Key: strings.Repeat("é\U0001f4b8", 127) + "x"}
	odd, shared, empty := &spend.Payment{Namespace: hostile, Key: hostile}, newPayment(), newPayment()
	shared.Namespace, empty.Namespace = "", ""
	checks := []*spend.Check{of(wide, newCheck(f)), of(odd, escalated(newCheck(f))), of(shared, blocked(newCheck(f))), newCheck(f)}
	checks[0].RedeemBy = now().Add(time.Minute)
	mustCommit(t, s, checks...)
	again := of(shared, newCheck(f))
	again.Payment.Nonce = spend.Hash{}
	mustCommit(t, s, again)
	checks = append(checks, again)
	for _, c := range checks {
		mustHave(t, s, asRead(c))
	}
	mustBePayment(t, s, wide, odd, shared)

	// An executor's own payment is changed beside the asker's.
	own := newPayment()
	redeemed := moves(own, moves(wide, redemption(f, checks[0])))
	mustReport(t, s, redeemed)
	executed := moves(own, moves(wide, step(f, checks[0], 2, spend.Executed)))
	executed.Payment.Flags = []spend.Flag{spend.FlagUnredeemed, spend.FlagPaidTwice}
	mustReport(t, s, executed)
	voided := step(f, again, 1, spend.Voided)
	voided.Payment.Flags = []spend.Flag{spend.FlagLapsed}
	mustReport(t, s, moves(shared, voided))
	mustBePayment(t, s, wide, own, odd, shared)
	steps := reported(t, s, []*spend.Outcome{redeemed, voided})
	slices.SortFunc(steps, func(a, b *spend.Outcome) int { return a.ID.Compare(b.ID) })
	for i, o := range []*spend.Outcome{redeemed, executed, voided} {
		o.Check, o.Payments, o.RedeemBy = nil, nil, time.Time{}
		if !reflect.DeepEqual(steps[i], o) {
			t.Errorf("a step came back\n%+v\nwant\n%+v", steps[i], o)
		}
	}
	if n, err := s.CountPayments(t.Context()); err != nil || n != 4 {
		t.Errorf("%d payments, %v", n, err)
	}
	if found, err := s.Payments(t.Context(), nil); err != nil || len(found) > 0 {
		t.Errorf("of no hashes: %v, %v", found, err)
	}
}

// paymentsAreCompared: a commit changes a payment only from the version that was seen, and is refused whole.
func paymentsAreCompared(t *testing.T, s Subject) {
	f := fence(t, s)
	absent := newPayment()
	absent.Version = 1
	mustMove(t, s, []*spend.Check{of(absent, newCheck(f))}, nil, absent)

	p, other := newPayment(), newPayment()
	first := of(p, newCheck(f))
	mustCommit(t, s, first)
	begins := *p // as if nothing was recorded
	begins.Version = 0
	again := begins
	mustMove(t, s, []*spend.Check{of(&again, newCheck(f))}, nil, p)
	seen := *p
	mustCommit(t, s, of(p, newCheck(f)))
	mustBePayment(t, s, p)

	// A commit of several payments names all that moved. The others can be recorded.
	late, ahead := seen, *p
	stale := moves(&seen, redemption(f, first))
	ahead.Version++
	ahead.Key = other.Key
	good := newPayment()
	fits := of(good, newCheck(f))
	mustMove(t, s, []*spend.Check{fits, of(&late, newCheck(f)), of(&ahead, newCheck(f))}, nil, p, other)
	mustMove(t, s, []*spend.Check{fits, of(&ahead, newCheck(f))}, []*spend.Outcome{stale}, p, &ahead)
	plain := newCheck(f)
	mustCommit(t, s, plain)
	mustMove(t, s, nil, []*spend.Outcome{redemption(f, plain), stale}, p)
	mustBePayment(t, s, p)
	one, two := *other, *other // not even within a commit
	mustMove(t, s, []*spend.Check{of(&one, newCheck(f)), of(&two, newCheck(f))}, nil, other)
	one, two = *p, *p
	mustMove(t, s, []*spend.Check{of(&one, newCheck(f)), of(&two, newCheck(f))}, nil, p)
	mustCommit(t, s, fits, of(other, newCheck(f)))
	mustBePayment(t, s, p, good, other)

	// Of the payments of one step, each is compared.
	own := newPayment()
	both := moves(own, moves(p, redemption(f, first)))
	both.Payments[0].Seen--
	mustMove(t, s, nil, []*spend.Outcome{both}, p)
	both.Payments[0].Seen++
	both.Payments[1].Seen++
	mustMove(t, s, nil, []*spend.Outcome{both}, own)
	both.Payments[1].Seen--
	mustReport(t, s, both)
	mustBePayment(t, s, p, own)
}

// paymentsRace: of the changes from one version, one is recorded.
func paymentsRace(t *testing.T, s Subject) {
	p := newPayment()
	for round := range 6 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var made []*spend.Payment
		for range 4 {
			f, after := fence(t, s), *p
			c := of(&after, newCheck(f))
			wg.Go(func() {
				err := Record(t.Context(), s, c)
				mu.Lock()
				defer mu.Unlock()
				if _, moved := errors.AsType[*audit.PaymentsMovedError](err); err == nil {
					made = append(made, &after)
				} else if !moved {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(made) != 1 {
			t.Fatalf("round %d: %d changes of one version", round, len(made))
		}
		p = made[0]
		mustBePayment(t, s, p)
	}
}

// paymentWriters: of the requests of a payment at several nodes, one is recorded, with its redemption, and listed in its
// node's chain. The checks that are committed beside them are all recorded.
func paymentWriters(t *testing.T, s Subject) {
	p := newPayment()
	var mu sync.Mutex
	var won, lost, plain []*spend.Check
	var step *spend.Outcome
	var wg sync.WaitGroup
	for range 2 {
		w, f := NewWriter(t, s), fence(t, s)
		for range 4 {
			after := *p
			c, beside := of(&after, newCheck(f)), newCheck(f)
			o := moves(&after, redemption(f, c))
			together(c, o)
			c.Payments, o.Payments = o.Payments, nil // as nodes do
			plain = append(plain, beside)
			wg.Go(func() {
				entry := w.Append(beside)
				err := w.Append(c, o).Wait(time.Now().Add(time.Minute))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won, step = append(won, c), o
				case errors.Is(err, commit.ErrPaymentMoved):
					lost = append(lost, c)
				default:
					t.Error(err)
				}
				if err := entry.Wait(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if len(won) != 1 || len(lost) != 7 {
		t.Fatalf("%d are recorded, and %d refused", len(won), len(lost))
	}
	mustHave(t, s, asRead(won[0]))
	mustHave(t, s, plain...)
	mustLack(t, s, lost...)
	var all []*spend.Outcome
	for _, c := range slices.Concat(won, lost) {
		all = append(all, &spend.Outcome{CheckID: c.ID})
	}
	if steps := reported(t, s, all); len(steps) != 1 || steps[0].ID != step.ID {
		t.Errorf("steps: %+v", steps)
	}
	if n := s.Count(t, "SELECT sum(length(entries)) / 48 FROM batches"); n != len(plain)+2 {
		t.Errorf("the chains list %d rows, want %d", n, len(plain)+2)
	}
}

// paymentTexts: what no text can be is refused as the row's own fault.
func paymentTexts(t *testing.T, s Subject) {
	f := fence(t, s)
	for _, bad := range []*spend.Payment{
		{Namespace: "n", Key: "a\x00"}, {Namespace: "n", Key: "a\xff"}, {Namespace: "a\x00", Key: "k"}, {Namespace: "a\xff", Key: "k"},
	} {
		c := of(bad, newCheck(f))
		if _, refused := errors.AsType[*audit.RowError](Record(t.Context(), s, c)); !refused {
			t.Errorf("%q is recorded", bad.Key+bad.Namespace)
		}
		mustLack(t, s, c)
	}
	mustBePayment(t, s)
}
