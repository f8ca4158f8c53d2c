package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// payer asks for payments with a key that redeems.
type payer struct {
	*fleet
	key hotpath.Caller
	own *audit.Key
}

func newPayer(f *fleet) payer {
	f.t.Helper()
	grants := spend.Grants{Role: spend.Gateway, Principal: "bot"}
	raw, k, err := f.nodes[0].CreateKey(f.t.Context(), audit.Actor{}, hotpath.NewKey{Name: "bot", RateLimitRPM: 10000, Grants: grants})
	must.Do(f.t, err)
	f.post(0, "days", `[{"rule_id":"all","rule_type":"budget","parameters":{"limit":100,"currency":"USD","window":"lifetime"}}]`)
	return payer{f, hotpath.KeyCaller([]byte(raw)), k}
}

// pay asks for the payment "order" unless the request names another one.
func (p payer) pay(node int, a spend.Action, asked hotpath.PaymentRequest) (hotpath.Answer, error) {
	if asked.Key == "" {
		asked.Key = "order"
	}
	r := hotpath.Request{Caller: p.key, ID: "req_000000000000", Started: time.Now(), Payment: &asked}
	answer, _, err := p.nodes[node].Check(context.Background(), r, &a)
	return answer, err
}

// must is pay of a request that is answered: with a state, and with proceed or without.
func (p payer) must(what string, a spend.Action, asked hotpath.PaymentRequest, status audit.PaymentStatus, proceed bool) hotpath.Answer {
	p.t.Helper()
	answer, err := p.pay(0, a, asked)
	if err != nil || answer.Payment.Status != status || answer.Payment.Proceed != proceed {
		p.t.Fatalf("%s: %+v, %v", what, answer.Payment, err)
	}
	return answer
}

func nonce(n int) hotpath.PaymentRequest {
	return hotpath.PaymentRequest{Nonce: fmt.Sprintf("nonce-%016d", n)}
}

// ended reports on the check of an answer by its redeemer, which may give back, or by the treasury.
func (p payer) ended(answer hotpath.Answer, role spend.Role, status spend.Status, supersedes int) error {
	o, key := outcome{answer: answer}, p.own
	if role != spend.Gateway {
		key = &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: role, Principal: "treasury"}}
	}
	report := hotpath.Report{Status: status, Supersedes: supersedes}
	if answer.Payment.Redemption != nil {
		report.RedemptionID = answer.Payment.Redemption.ID
	}
	_, _, err := p.reportBy(0, o, key, report)
	return err
}

// S84: of requests at once, with the same action or with others, one proceeds; its nonce gets the same again (G16).
func TestOnePaymentOfMany(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		for round := range 3 {
			key := fmt.Sprint("order ", round)
			answers, refusals := make([]hotpath.Answer, 12), make([]error, 12)
			var all sync.WaitGroup
			for i := range answers {
				asked, a := nonce(100*round+i), refundOf(t, fmt.Sprint(10+i%2), key)
				asked.Key = key
				all.Go(func() { answers[i], refusals[i] = p.pay(i%2, a, asked) })
			}
			all.Wait()
			proceeding := -1
			for i, answer := range answers {
				_, differs := errors.AsType[*hotpath.PaymentDiffersError](refusals[i])
				switch {
				case refusals[i] == nil && answer.Payment.Proceed && proceeding >= 0:
					t.Errorf("%d and %d proceed", proceeding, i)
				case refusals[i] == nil && answer.Payment.Proceed:
					proceeding = i
				case refusals[i] != nil && !differs:
					t.Error(refusals[i])
				}
			}
			if proceeding < 0 {
				t.Fatal("nobody proceeds")
			}
			f.flush()
			again := nonce(100*round + proceeding)
			again.Key = key
			first := answers[proceeding]
			answer, err := p.pay(1, refundOf(t, fmt.Sprint(10+proceeding%2), key), again)
			if err != nil || !answer.Payment.Proceed || answer.Payment.Redemption.ID != first.Payment.Redemption.ID ||
				answer.Payment.Redeemed.Payment.ExecutionID != first.Payment.Redeemed.Payment.ExecutionID {
				t.Errorf("the same nonce again: %+v, %v", answer.Payment, err)
			}
		}
	})
}

// A new payment is not looked up. One that only Redis has forgotten costs a single commit.
func TestPaymentIsLookedUpOnce(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		looked, commits := 0, 0
		p.nodes[0].faults.looked = func() { looked++ }
		p.nodes[0].faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
			commits++
			return commit(ctx, checks)
		})
		a := refundOf(t, "10", "c")
		for i, want := range [][2]int{{0, 1}, {1, 1}, {2, 2}, {3, 2}} {
			if i == 2 {
				f.flush()
			}
			p.must(fmt.Sprint("request ", i), a, nonce(i+1), audit.PaymentRedeemed, i == 0)
			if got := [2]int{looked, commits}; got != want {
				t.Errorf("request %d: %v look-ups and commits, want %v", i, got, want)
			}
		}
	})
}

// S84: a commit whose answer is lost is found by the same nonce, and another nonce gets nothing (G16).
func TestPaymentAfterALostCommit(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		for _, committed := range []bool{true, false} {
			key := fmt.Sprint("lost ", committed)
			asked, other := nonce(1), nonce(2)
			asked.Key, other.Key = key, key
			f.nodes[0].loseAnswer(committed)
			a := refundOf(t, "10", key)
			_, err := p.pay(0, a, asked)
			first := committed || err == nil // the node has found out what became of it
			answer, err := p.pay(1, a, other)
			if err != nil || answer.Payment.Proceed == first {
				t.Fatalf("committed %t, another nonce: %+v, %v", committed, answer.Payment, err)
			}
			if answer, err = p.pay(1, a, asked); err != nil || answer.Payment.Proceed != first {
				t.Errorf("committed %t, the same nonce: %+v, %v", committed, answer.Payment, err)
			}
		}
	})
}

// S84: a payment that was given back is paid again, by another nonce and under another execution_id; one that was executed is not.
// (G16.)
func TestPaymentRuns(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		a := refundOf(t, "10", "c")
		first := p.must("the first", a, nonce(1), audit.PaymentRedeemed, true)
		p.must("another nonce", a, nonce(2), audit.PaymentRedeemed, false)
		must.Do(t, p.ended(first, spend.Gateway, spend.Failed, 0))
		p.must("a late repetition", a, nonce(1), audit.PaymentFree, false)
		second := p.must("the next attempt", a, nonce(2), audit.PaymentRedeemed, true)
		if second.Payment.Attempt != 2 || second.Payment.Redeemed.Payment.ExecutionID == first.Payment.Redeemed.Payment.ExecutionID {
			t.Errorf("attempt %d has the execution_id of the first", second.Payment.Attempt)
		}
		must.Do(t, p.ended(second, spend.Gateway, spend.Executed, 0))
		p.must("its own nonce", a, nonce(2), audit.PaymentExecuted, false)
		if answer := p.must("a new nonce", a, nonce(3), audit.PaymentExecuted, false); answer.Check.ID != second.Check.ID {
			t.Error("another check is shown")
		}
		if err := p.ended(first, spend.Executor, spend.Executed, 1); err != nil { // after all
			t.Fatal(err)
		}
		steps, err := f.store.Outcomes(t.Context(), []spend.ID{first.Check.ID})
		if err != nil || !slices.Contains(steps[len(steps)-1].Payment.Flags, spend.FlagPaidTwice) {
			t.Errorf("the payment was executed twice: %v", err)
		}
		if n := f.metric("spendgate_payments_paid_twice_total"); n != 1 {
			t.Errorf("%v payments are counted as paid twice", n)
		}
	})
}

// S84: a redemption passes on with its execution_id, and not back; the former redeemer says only that it was executed.
// (G16.)
func TestTakeOver(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		a := refundOf(t, "10", "c")
		first := p.must("the first", a, nonce(1), audit.PaymentRedeemed, true)
		take := func(n int) hotpath.PaymentRequest {
			asked := nonce(n)
			asked.TakeOver = time.Hour
			return asked
		}
		second := p.must("taken over", a, take(2), audit.PaymentRedeemed, true)
		if second.Payment.Redeemed.Payment.ExecutionID != first.Payment.Redeemed.Payment.ExecutionID ||
			second.Payment.Redemption.ID == first.Payment.Redemption.ID {
			t.Error("the execution_id is another one, or the redemption_id the same")
		}
		p.must("the former", a, take(1), audit.PaymentRedeemed, false)
		p.must("the taker again", a, take(2), audit.PaymentRedeemed, true)
		for _, status := range []spend.Status{spend.Failed, spend.Voided} {
			if err := p.ended(first, spend.Gateway, status, 0); !errors.Is(err, hotpath.ErrCheckTakenOver) {
				t.Errorf("the former redeemer reports %s: %v", status, err)
			}
		}
		if err := p.ended(first, spend.Gateway, spend.Executed, 0); err != nil {
			t.Errorf("the former redeemer executed: %v", err)
		}
		p.must("after it", a, take(3), audit.PaymentExecuted, false)
	})
}

// S84: what the former redeemer says was executed is recorded also after the taker's report, and the taker, who asked, does
// not take it back.
func TestTruthAfterATakeOver(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		a := refundOf(t, "10", "c")
		first := p.must("the first", a, nonce(1), audit.PaymentRedeemed, true)
		take := nonce(2)
		take.TakeOver = time.Hour
		second := p.must("taken over", a, take, audit.PaymentRedeemed, true)
		must.Do(t, p.ended(second, spend.Gateway, spend.Failed, 0))
		if err := p.ended(first, spend.Gateway, spend.Executed, 0); err != nil {
			t.Fatalf("the former redeemer executed: %v", err)
		}
		if err := p.ended(second, spend.Gateway, spend.Failed, 2); err == nil {
			t.Error("the taker takes it back")
		}
		p.must("after it", a, nonce(3), audit.PaymentExecuted, false)
	})
}

// S84: an approval is used by the payment's next request, and a denial ends all of them.
func TestPaymentAsksPeople(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		f.post(0, "p", fmt.Sprintf(askRules, 1000))
		a := refundOf(t, "200", "c")
		asked := p.must("asked", a, nonce(1), audit.PaymentWaiting, false)
		if again := p.must("polled", a, nonce(1), audit.PaymentWaiting, false); again.Check.ID != asked.Check.ID {
			t.Error("a poll asked people again")
		}
		f.approve(asked.Payment.Approval, "ann")
		if answer := p.must("approved", a, nonce(1), audit.PaymentRedeemed, true); answer.Payment.Attempt != 1 {
			t.Errorf("attempt %d", answer.Payment.Attempt)
		}
		other := hotpath.PaymentRequest{Key: "denied"}
		b := refundOf(t, "300", "d")
		asked = p.must("asked", b, other, audit.PaymentWaiting, false)
		must.Do(t, f.decide(asked.Payment.Approval, "ann", false))
		p.must("denied", b, other, audit.PaymentDenied, false)
		b.Amount = refundOf(t, "50", "d").Amount
		p.must("another action", b, other, audit.PaymentOpen, false)
	})
}

// S84: a correction of a round before voids nothing of the present one.
func TestRoundBefore(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		f.now = func() time.Time { return time.Now().Add(2 * time.Hour) } // when the first round is over
		f.nodes = append(f.nodes, f.start(f.server, f.inProcess))
		a, asked := refundOf(t, "10", "c"), nonce(1)
		asked.Hours = 1
		first := p.must("the first round", a, asked, audit.PaymentRedeemed, true)
		must.Do(t, p.ended(first, spend.Gateway, spend.Executed, 0))
		next, err := p.pay(1, a, hotpath.PaymentRequest{})
		if err != nil || next.Check.ID == first.Check.ID || next.Check.Payment.Round != 1 {
			t.Fatalf("the next round: %+v, %v", next.Payment, err)
		}
		for number, status := range []spend.Status{spend.Failed, spend.Executed} {
			must.Do(t, p.ended(first, spend.Executor, status, number+1))
		}
		p.must("the present round", a, hotpath.PaymentRequest{}, audit.PaymentOpen, false)
	})
}

// S84: a payment's check that only the store finds too old is given back, and the action is judged again.
func TestPaymentLateByTheStoresClock(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		f.now = func() time.Time { return time.Now().Add(-20 * time.Minute) }
		f.nodes = append(f.nodes, f.start(f.server, f.inProcess))
		a := refundOf(t, "10", "c")
		old := *p.must("a check", a, hotpath.PaymentRequest{Key: "another"}, audit.PaymentOpen, false).Check
		old.ID, old.Pass = spend.NewID(f.now()), spend.Pass{}
		old.Fence.Node = spend.NewID(time.Now()) // with a chain of its own
		payment := spend.Payment{Namespace: old.Namespace, Key: "order"}
		payment, old.Payment = payment.WithCheck(&old, 0, spend.Hash{})
		old.Payments = []spend.PaymentChange{{To: payment}}
		must.Do(t, audittest.Record(t.Context(), f.store, &old))
		answer, err := p.pay(1, old.Action, nonce(1))
		if err != nil || answer.Check.ID == old.ID || answer.Payment.Attempt != 2 {
			t.Errorf("%+v, %v", answer.Payment, err)
		}
		steps, err := f.store.Outcomes(t.Context(), []spend.ID{old.ID})
		if err != nil || len(steps) != 1 || !slices.Contains(steps[0].Payment.Flags, spend.FlagLapsed) {
			t.Errorf("%+v, %v", steps, err)
		}
	})
}
