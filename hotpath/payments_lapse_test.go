package hotpath_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// S84: what nobody redeemed in time is given back, by the next request or by the service, and only one of lapse and
// redemption is recorded (G16).
func TestLapse(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		a := under(refundOf(t, "80", "c"), "days")
		open := p.must("open", a, hotpath.PaymentRequest{}, audit.PaymentOpen, false)
		must.Do(t, f.nodes[0].Lapses(t.Context()))
		p.must("too early", a, hotpath.PaymentRequest{}, audit.PaymentOpen, false)
		var all sync.WaitGroup
		var answer hotpath.Answer
		var paid, lapsed error
		all.Go(func() { answer, paid = p.pay(0, a, nonce(1)) })
		all.Go(func() { lapsed = f.nodes[1].GiveBack(t.Context(), open.Check) })
		all.Wait()
		if paid != nil || lapsed != nil {
			t.Fatal(paid, lapsed)
		}
		if !answer.Payment.Proceed {
			t.Fatalf("%+v", answer.Payment)
		}
		if used := f.used(t, "days", "all", "[]"); used != "80 1" {
			t.Errorf("%s is used, want 80", used)
		}
	})
}

// unreadable is a store that cannot say what became of some checks.
type unreadable struct {
	audit.Store
	checks []spend.ID
}

func (s *unreadable) Outcomes(ctx context.Context, ids []spend.ID) ([]*spend.Outcome, error) {
	if slices.Contains(s.checks, ids[0]) {
		return nil, audit.ErrUnavailable
	}
	return s.Store.Outcomes(ctx, ids)
}

// S84: checks that cannot be given back keep no other from being given back, however many they are.
func TestLapsesAreNotStarved(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		lost := &unreadable{Store: f.store}
		for i := range 201 {
			f.nodes[0].faults.onCommit(func(ctx context.Context, checks []*spend.Check, do realCommit) error {
				checks[0].RedeemBy = time.Now().Add(time.Duration(i)*time.Millisecond - time.Second) // the last is due last
				return do(ctx, checks)
			})
			key := fmt.Sprint("order ", i)
			open := p.must("open", under(refundOf(t, "0.1", key), "days"), hotpath.PaymentRequest{Key: key}, audit.PaymentOpen, false)
			if i < 200 {
				lost.checks = append(lost.checks, open.Check.ID)
			}
		}
		f.nodes[0].faults.onCommit(nil)
		f.nodes[0].faults.Store = lost
		if err := f.nodes[0].Lapses(t.Context()); err == nil {
			t.Error("no error")
		}
		if used := f.used(t, "days", "all", "[]"); used != "20 200" {
			t.Errorf("%s is used, want 20 by 200: the last check is not given back", used)
		}
	})
}

// S84: what a fleet was allowed that was killed before it redeemed anything is given back by another node.
func TestKilledFleetGivesBack(t *testing.T) {
	const allows = 1000
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		f.nodes[0].faults.onCommit(func(ctx context.Context, checks []*spend.Check, do realCommit) error {
			for _, c := range checks { // as long ago as they could be redeemed
				c.RedeemBy = time.Now().Add(-time.Second)
			}
			return do(ctx, checks)
		})
		var all sync.WaitGroup
		for caller := range 20 {
			all.Go(func() {
				for i := range allows / 20 {
					key := fmt.Sprint("order ", caller, " ", i)
					if _, err := p.pay(0, under(refundOf(t, "0.1", key), "days"), hotpath.PaymentRequest{Key: key}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if used := f.used(t, "days", "all", "[]"); used != "100 1000" {
			t.Fatalf("%s is used, want all", used)
		}
		f.nodes[0].close()
		must.Do(t, f.nodes[1].Lapses(t.Context()))
		if used := f.used(t, "days", "all", "[]"); used != "0 0" {
			t.Errorf("%s is used, want nothing", used)
		}
		answer, err := p.pay(1, under(refundOf(t, "80", "c"), "days"), nonce(1))
		if err != nil || !answer.Payment.Proceed {
			t.Errorf("%+v, %v", answer.Payment, err)
		}
	})
}
