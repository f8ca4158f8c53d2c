package hotpath_test

import (
	"errors"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// S84: of one request that comes twice, at once and through two nodes, only one takes over: the other read the payment before it,
// and the course of its check after.
func TestTakeOverOnce(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		a := refundOf(t, "10", "c")
		p.must("the first", a, nonce(1), audit.PaymentRedeemed, true)
		take := nonce(2)
		take.TakeOver = time.Hour
		var taken hotpath.Answer
		p.nodes[1].faults.read = func() {
			p.nodes[1].faults.read = nil
			taken = p.must("taken over", a, take, audit.PaymentRedeemed, true)
		}
		again, err := p.pay(1, a, take)
		if err != nil || !again.Payment.Proceed || again.Payment.Redemption.ID != taken.Payment.Redemption.ID {
			t.Errorf("the same request: %+v, %v, not the redemption %+v", again.Payment, err, taken.Payment)
		}
	})
}

// S84: whoever may not give back, and is not the asker's principal, reports nothing of what nobody redeemed: the payment would wait for
// somebody else, and never lapse.
func TestStrangersReportNothingUnredeemed(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		open := p.must("open", refundOf(t, "10", "c"), hotpath.PaymentRequest{Key: "order"}, audit.PaymentOpen, false)
		for _, status := range []spend.Status{spend.Voided, spend.Failed, spend.Executed} {
			if err := p.ended(open, spend.Full, status, 0); !errors.Is(err, hotpath.ErrCheckNotRedeemed) {
				t.Errorf("%s: %v", status, err)
			}
		}
		p.must("redeemed", refundOf(t, "10", "c"), nonce(1), audit.PaymentRedeemed, true)
	})
}
