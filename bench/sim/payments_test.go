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

const (
	// paying is the policy of payments, with one version.
	paying = "paying"
	// lapseAfter is how long an allow of it is redeemed.
	lapseAfter = time.Minute
	// repeated is the payment that is free again after some hours.
	repeated, repeatedHours = "order 2", 1
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

// newPayer makes the key that pays, and its policy.
func (f *simulation) newPayer() error {
	raw, k, err := f.nodes[0].CreateKey(context.Background(), audit.Actor{}, hotpath.NewKey{
		Name: "payer", RateLimitRPM: 10000, Grants: spend.Grants{Role: spend.Gateway, Principal: asker, Owner: owner},
	})
	f.payer = payer{hotpath.KeyCaller([]byte(raw)), k}
	p := &audit.Policy{
		PolicyID: paying, Name: paying, Redeem: spend.RedeemTerms{WithinMinutes: int(lapseAfter / time.Minute)},
		Rules: `[{"rule_id":"all","rule_type":"budget","parameters":{"limit":70,"currency":"USD","window":"lifetime"}},
			{"rule_id":"large","rule_type":"escalate_if","parameters":{"amount_above":15,"approval":{"required":1,"use_within_minutes":1}}}]`,
	}
	return errors.Join(err, f.nodes[0].CreatePolicy(context.Background(), hotpath.Access{}, audit.Actor{}, hotpath.NewVersion{Policy: p}))
}

// payOne asks for a payment from several sides at once, each time with a nonce of its own, or with one again; some take over, some
// redeem nothing, some replace its action by one that asks people, or back. Whoever proceeds reports, or has died. Sometimes the
// time of an open check is over meanwhile.
func (f *simulation) payOne(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
	order := fmt.Sprint("order ", r.IntN(3))
	late := fmt.Sprintf("nonce-%016d", r.Uint64N(1e15))
	if r.IntN(2) == 0 && !f.lossless { // else all checks must be in one rate window
		if p := f.pay(r, "10", hotpath.PaymentRequest{Key: order}); p.err == nil && !p.lost {
			time.Sleep(lapseAfter - time.Duration(r.Int64N(int64(time.Second)))) // then it is redeemed, or lapses
		}
	}
	amount := []string{"10", "10", "20"}[r.IntN(3)]
	f.several(r, 2+r.IntN(3), func(r *rand.Rand, node int) {
		amount, asked := amount, hotpath.PaymentRequest{Key: order, Nonce: fmt.Sprintf("nonce-%016d", r.Uint64N(1e15))}
		if r.IntN(3) == 0 {
			amount, asked.Replace = []string{"10", "20"}[r.IntN(2)], r.IntN(3) > 0
		}
		switch r.IntN(6) {
		case 0, 1:
			asked.Nonce = late
		case 2:
			asked.Nonce = ""
		case 3:
			_ = f.nodes[node].Lapses(context.Background()) // the record shows the effect
		}
		if asked.Nonce != "" && r.IntN(3) == 0 {
			asked.TakeOver = spend.TakeOverHours * time.Hour
		}
		f.payAndEnd(r, amount, asked)
	})
	f.pay(r, amount, hotpath.PaymentRequest{Key: order, Nonce: late}) // a request that was delivered late
	f.correctOne(r)
}

// payAndEnd asks for a payment, has people decide about it and asks again, and reports where it proceeds.
func (f *simulation) payAndEnd(r *rand.Rand, amount string, asked hotpath.PaymentRequest) {
	p := f.pay(r, amount, asked)
	if p.err == nil && !p.lost && p.answer.Payment.Status == audit.PaymentWaiting && p.answer.Check.Approval != nil {
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
		f.decideAll(r, p.answer.Check)
		p = f.pay(r, amount, asked)
	}
	switch {
	case p.err != nil || p.lost:
	case p.answer.Payment.Proceed:
		f.endPayment(r, p.answer.Check, p.answer.Payment.Redemption.ID)
	case r.IntN(4) == 0:
		f.redeemByID(r, p.answer.Check)
	}
}

// pay asks for a payment, and again if that fails.
func (f *simulation) pay(r *rand.Rand, text string, asked hotpath.PaymentRequest) (p *paid) {
	if asked.Key == repeated {
		asked.Hours = repeatedHours
	}
	for range 3 {
		n, again := f.nodes[r.IntN(len(f.nodes))], asked
		amount, _ := spend.ParseAmount(text)
		a := spend.Action{AgentID: "payer", PolicyID: paying, Type: spend.Refund, Amount: amount, Currency: "USD", Counterparty: asked.Key}
		request := hotpath.Request{Caller: f.payer.caller, ID: "req_000000000000", Started: time.Now(), Payment: &again}
		answer, _, err := n.Check(context.Background(), request, &a)
		a.ApprovalID = spend.ID{} // which the service found
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
func (f *simulation) endPayment(r *rand.Rand, c *spend.Check, redemption spend.ID) {
	time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	ends := []spend.Status{spend.Failed, spend.Voided, spend.Failed, spend.Executed, ""}
	if status := ends[r.IntN(len(ends))]; status != "" {
		f.reportPayment(r, hotpath.AccessOf(f.payer.key), c, hotpath.Report{Status: status, RedemptionID: redemption})
	}
}

// redeemByID redeems a payment's check as executors do: one that has lapsed, too. The record shows the effect.
func (f *simulation) redeemByID(r *rand.Rand, c *spend.Check) {
	hash := spend.ActionHash(c)
	asked := hotpath.Request{Access: gateway(gateways[0]), ID: "req_000000000000", Started: time.Now()}
	_, _, _ = f.redeemAt(f.nodes[r.IntN(len(f.nodes))], asked, c, hotpath.Redemption{ActionHash: &hash})
}

// correctOne corrects what was said of some check of a payment, or says it, by who may release.
func (f *simulation) correctOne(r *rand.Rand) {
	f.mu.Lock()
	var all []*spend.Check
	for _, p := range f.paid {
		if p.err == nil && !p.lost && p.answer.Check.Decision.Effect == spend.Allow {
			all = append(all, p.answer.Check)
		}
	}
	f.mu.Unlock()
	if len(all) == 0 {
		return
	}
	c := all[r.IntN(len(all))]
	steps, err := f.store.Outcomes(context.Background(), []spend.ID{c.ID})
	if err != nil {
		return
	}
	treasury := &audit.Key{ID: spend.ID{6: 0x70, 15: 't'}, Grants: spend.Grants{Role: spend.Executor, Principal: "treasury"}}
	report := hotpath.Report{
		Status: []spend.Status{spend.Executed, spend.Executed, spend.Failed}[r.IntN(3)], Supersedes: len(spend.CourseOf(steps).Reports),
	}
	f.reportPayment(r, hotpath.AccessOf(treasury), c, report)
}

// reportPayment reports, and again if that fails. The record shows the effect.
func (f *simulation) reportPayment(r *rand.Rand, by hotpath.Access, c *spend.Check, report hotpath.Report) {
	for range 3 {
		request := hotpath.Request{Access: by, ID: "req_000000000000", Started: time.Now()}
		if _, _, err := f.nodes[r.IntN(len(f.nodes))].Report(context.Background(), request, c, report); !errors.Is(err, hotpath.ErrUnavailable) {
			return
		}
	}
}

// endPayments has all open checks lapse. In some schedules a payment begins another round before, in others those that ended are
// removed, while they are asked for and corrected.
func (f *simulation) endPayments() {
	r := f.source()
	payAny := func(r *rand.Rand, key string) {
		order := hotpath.PaymentRequest{Key: key, Nonce: fmt.Sprintf("nonce-%016d", r.Uint64N(1e15))}
		f.payAndEnd(r, []string{"10", "20"}[r.IntN(2)], order)
	}
	switch f.seed % 3 {
	case 0:
		f.goOnAfter(repeatedHours*time.Hour + time.Duration(r.Int64N(int64(time.Minute))))
		for range 2 {
			f.several(r, 3, func(r *rand.Rand, node int) {
				if payAny(r, repeated); r.IntN(2) == 0 {
					f.correctOne(r)
				}
			})
		}
	case 1:
		f.pay(r, "10", hotpath.PaymentRequest{Key: fmt.Sprint("order ", r.IntN(3))}) // which is mostly open then, and stays
		f.goOnAfter(spend.PaymentsKept + 24*time.Hour)
		f.several(r, 6, func(r *rand.Rand, node int) {
			switch r.IntN(4) {
			case 0, 1:
				_ = f.nodes[node].RemovePayments(context.Background(), time.Now().Add(-spend.PaymentsKept))
			case 2:
				f.correctOne(r)
			default:
				payAny(r, fmt.Sprint("order ", r.IntN(3)))
			}
		})
		f.correctOne(r)
	}
	time.Sleep(lapseAfter + time.Second)
	for range 12 {
		if err := f.nodes[0].Lapses(context.Background()); err == nil {
			return
		}
		time.Sleep(200 * time.Millisecond) // as in retry
	}
	f.note("nothing lapses")
	f.unrecovered = true
}

// goOnAfter has a long time pass without nodes, which would look for changes all the time, and goes on with new ones.
func (f *simulation) goOnAfter(pause time.Duration) {
	for _, n := range f.nodes {
		n.close()
	}
	time.Sleep(pause)
	f.nodes = []*simNode{f.newNode(len(f.nodes)), f.newNode(len(f.nodes) + 1)}
}

func (s *store) RemovePayments(ctx context.Context, ended []*spend.Payment, before time.Time) (removed int, err error) {
	err = s.stop(ctx, func() (err error) {
		removed, err = s.Store.RemovePayments(ctx, ended, before)
		return err
	})
	return removed, err
}

func (s *flaky) RemovePayments(ctx context.Context, ended []*spend.Payment, before time.Time) (int, error) {
	return changed(ctx, s, func() (int, error) { return s.store.RemovePayments(ctx, ended, before) })
}
