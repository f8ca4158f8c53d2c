package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// payer asks for payments.
type payer struct {
	caller hotpath.Caller
	key    *audit.Key
}

// paid is a request for a payment and the answer that its caller got.
type paid struct {
	nonce        string
	action       spend.Action
	began, ended time.Time
	answer       hotpath.Answer
	err          error
	lost         bool // the node died before it answered
}

// newPayer makes the key that pays.
func (f *simulation) newPayer() error {
	raw, k, err := f.nodes[0].CreateKey(context.Background(), audit.Actor{}, hotpath.NewKey{
		Name: "payer", RateLimitRPM: 10000, Grants: spend.Grants{Role: spend.Gateway, Principal: "shop"},
	})
	f.payer = payer{hotpath.KeyCaller([]byte(raw)), k}
	return err
}

// payOne asks for a payment from several sides at once, each time with a nonce of its own, or with one again; some take over.
// Whoever proceeds reports, or has died.
func (f *simulation) payOne(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
	order := fmt.Sprint("order ", r.IntN(3))
	late := fmt.Sprintf("nonce-%016d", r.Uint64N(1e15))
	f.several(r, 2+r.IntN(3), func(r *rand.Rand, _ int) {
		asked := hotpath.PaymentRequest{Key: order, Nonce: fmt.Sprintf("nonce-%016d", r.Uint64N(1e15))}
		if r.IntN(3) == 0 {
			asked.Nonce = late
		}
		if r.IntN(3) == 0 {
			asked.TakeOver = spend.TakeOverHours * time.Hour
		}
		if p := f.pay(r, asked); p.err == nil && !p.lost && p.answer.Payment.Proceed {
			f.endPayment(r, p)
		}
	})
	f.pay(r, hotpath.PaymentRequest{Key: order, Nonce: late}) // a request that was delivered late
}

// pay asks for a payment, and again if that fails.
func (f *simulation) pay(r *rand.Rand, asked hotpath.PaymentRequest) (p *paid) {
	for range 3 {
		n, again := f.nodes[r.IntN(len(f.nodes))], asked
		amount, _ := spend.ParseAmount("10")
		a := spend.Action{AgentID: "payer", PolicyID: "long", Type: spend.Refund, Amount: amount, Currency: "USD", Counterparty: asked.Key}
		request := hotpath.Request{Caller: f.payer.caller, ID: "req_000000000000", Started: time.Now(), Payment: &again}
		answer, _, err := n.Check(context.Background(), request, &a)
		p = &paid{asked.Nonce, a, request.Started, time.Now(), answer, err, n.store.isDead()}
		f.mu.Lock()
		f.paid = append(f.paid, p)
		f.mu.Unlock()
		if !p.lost && !errors.Is(err, hotpath.ErrUnavailable) {
			break
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
	return p
}

// endPayment reports what became of a payment that proceeds.
func (f *simulation) endPayment(r *rand.Rand, p *paid) {
	time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	ends := []spend.Status{spend.Failed, spend.Voided, spend.Failed, spend.Executed, ""}
	report := hotpath.Report{Status: ends[r.IntN(len(ends))], RedemptionID: p.answer.Payment.Redemption.ID}
	for range 3 {
		if report.Status == "" {
			return
		}
		n := f.nodes[r.IntN(len(f.nodes))]
		request := hotpath.Request{Access: hotpath.AccessOf(f.payer.key), ID: "req_000000000000", Started: time.Now()}
		if _, _, err := n.Report(context.Background(), request, p.answer.Check, report); !errors.Is(err, hotpath.ErrUnavailable) {
			return
		}
	}
}

// judgePayments checks what callers were told: only the nonce of a recorded redemption proceeds (G16). That at most one check of a
// payment is redeemed without having been given back, the verification of the file has shown.
func (f *simulation) judgePayments(fail func(string, ...any)) {
	for _, p := range f.paid {
		if p.lost {
			continue
		}
		if p.err != nil {
			if !allowedError(p.err) {
				fail("S84: a payment failed with %v", p.err)
			}
			continue
		}
		if !p.answer.Payment.Proceed {
			continue
		}
		id := p.answer.Payment.Redemption.ID
		o := f.record.redeemed[id]
		if o == nil || o.CheckID != p.answer.Check.ID || o.Replay != spend.NonceHash(f.payer.key.ID.Text(spend.PrefixKey), p.nonce) {
			fail("G16: %s proceeds by %s; recorded is %+v", p.nonce, id.Text(spend.PrefixRedemption), o)
		}
	}
}
