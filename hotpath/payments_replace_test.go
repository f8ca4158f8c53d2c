package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// S84: what is replaced gives its budget back as the new action is recorded, in one commit; a redeemed check is not replaced.
func TestReplacedPayment(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		p.must("open", under(refundOf(t, "80", "c"), "days"), hotpath.PaymentRequest{}, audit.PaymentOpen, false)
		if _, err := p.pay(0, under(refundOf(t, "90", "c"), "days"), hotpath.PaymentRequest{}); !strings.Contains(fmt.Sprint(err), "amount") {
			t.Errorf("another action: %v", err)
		}
		replaces := nonce(1)
		replaces.Replace = true
		stillOpen := func(when string) {
			t.Helper()
			p.must(when, under(refundOf(t, "80", "c"), "days"), hotpath.PaymentRequest{}, audit.PaymentOpen, false)
			if used := f.used(t, "days", "all", "[]"); used != "80 1" {
				t.Errorf("%s: %s is used, want 80", when, used)
			}
		}
		held, release := f.nodes[0].holdCommit(nil)
		result := make(chan error, 1)
		go func() {
			_, err := p.pay(0, under(refundOf(t, "90", "c"), "days"), replaces)
			result <- err
		}()
		<-held
		frozen := f.freeze(0, audit.FreezePolicy, "days")
		release()
		if err := <-result; !isFrozen(err) {
			t.Errorf("a freeze came first: %v", err)
		}
		f.thaw(0, frozen)
		stillOpen("after a freeze")
		f.nodes[0].faults.onCommit(func(ctx context.Context, checks []*spend.Check, do realCommit) error {
			if len(checks) > 0 { // what comes before the check would be recorded
				return audit.ErrUnavailable
			}
			return do(ctx, checks)
		})
		if _, err := p.pay(0, under(refundOf(t, "90", "c"), "days"), replaces); !errors.Is(err, hotpath.ErrUnavailable) {
			t.Errorf("the store is away: %v", err)
		}
		f.nodes[0].faults.onCommit(nil)
		stillOpen("after a lost commit")
		if answer, err := p.pay(0, under(refundOf(t, "100.01", "d"), "days"), hotpath.PaymentRequest{Key: "other"}); err != nil ||
			!strings.Contains(answer.Check.Decision.Message, "80") {
			t.Errorf("another payment: %+v, %v", answer.Check, err)
		}
		p.must("replaced", under(refundOf(t, "90", "c"), "days"), replaces, audit.PaymentRedeemed, true)
		if used := f.used(t, "days", "all", "[]"); used != "90 1" {
			t.Errorf("%s is used, want 90", used)
		}
		if _, err := p.pay(0, under(refundOf(t, "80", "c"), "days"), replaces); err == nil {
			t.Error("a redeemed check was replaced")
		}
		replaces.Key = "blocked"
		p.must("open", under(refundOf(t, "10", "e"), "days"), hotpath.PaymentRequest{Key: "blocked"}, audit.PaymentOpen, false)
		answer := p.must("replaced by too much", under(refundOf(t, "10.01", "e"), "days"), replaces, audit.PaymentFree, false)
		if used := f.used(t, "days", "all", "[]"); used != "90 1" || !strings.Contains(answer.Check.Decision.Message, "90") {
			t.Errorf("%s is used, want 90: %s", used, answer.Check.Decision.Message)
		}
	})
}
