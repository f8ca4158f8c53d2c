package hotpath_test

import (
	"testing"
	"time"

	"spendgate/audit"
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
