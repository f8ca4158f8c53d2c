package hotpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/pause"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// PaymentTakenError refuses the redemption of a check whose payment is carried out by another check.
type PaymentTakenError struct {
	Check   spend.ID // that the payment shows
	Status  audit.PaymentStatus
	Payment *PaymentView
}

func (e *PaymentTakenError) Error() string {
	return "check " + e.Check.Text(spend.PrefixCheck) + " has this payment, which is " + string(e.Status) +
		": do not carry it out under another check"
}

// payFor completes a check of a payment, and returns the outcomes that its commit records with it.
func (a *Authorizer) payFor(c *checking, check *spend.Check) (with []*spend.Outcome) {
	p := c.payment
	to, seen := p.facts.Payment, p.facts.Version
	check.Withdrawn, check.Payments, p.redeemed = p.withdraws, nil, nil
	if p.replaces != nil {
		void := voidOf(p.replaces, spend.FlagReplaced)
		void.ID, void.Fence = spend.NewOutcomeID(check.Timestamp().Add(-time.Millisecond)), check.Fence // the check is judged after it
		to = stepOf(to, void, p.replaces.Payment.Round, false)
		with = append(with, void)
	}
	check.Decision.NextStep = nextOfPayment(check)
	if check.Decision.Effect == spend.Block {
		check.Pass = spend.Pass{} // the payment's key says what is the same
	}
	to, check.Payment = to.WithCheck(check, p.Hours, p.nonce)
	if check.Decision.Effect == spend.Allow {
		check.RedeemBy = check.Timestamp().Add(p.terms.Within())
		if p.Nonce != "" {
			p.redeemed = redeemNow(c, check)
			p.redeemed.Payment.ExecutionID = to.ExecutionID(p.deployment, to.Redeemed)
			to = stepOf(to, p.redeemed, check.Payment.Round, true)
			with = append(with, p.redeemed)
		}
	}
	check.Payments = []spend.PaymentChange{{Seen: seen, To: to}}
	return with
}

// nextOfPayment returns what a caller does after a check of a payment. A check that is judged again has that already.
func nextOfPayment(check *spend.Check) string {
	const (
		blocked   = " Once the cause is mended, ask again under the same payment_key."
		escalated = "Pause. Ask again under the same payment_key, with redeem, until payment.state is not waiting any more " +
			"(Prefer: wait=30), and carry the action out only where payment.proceed is true."
	)
	next := check.Decision.NextStep
	switch {
	case check.Decision.Effect == spend.Allow:
		return policy.RedeemFirst + ". Where payment.proceed is true it is redeemed for this request: carry exactly this action out now, " +
			"with payment.execution_id as the provider's idempotency key, and report its outcome with payment.redemption_id. " +
			"Anywhere else ask again under the same payment_key, with redeem."
	case check.Approval != nil:
		return escalated
	case check.Decision.Effect == spend.Block && !strings.HasSuffix(next, blocked):
		return next + blocked
	}
	return next
}

// redeemNow returns the redemption of a check by the nonce of the request.
func redeemNow(c *checking, check *spend.Check) *spend.Outcome {
	key := c.identity.access.key
	return &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now()), CheckID: check.ID, Step: 1, Status: spend.Redeemed, Release: spend.ReleaseNone,
		KeyID: key.name, Principal: key.Grants.Principal, RequestID: c.request.ID, Check: check, Fence: check.Fence,
		RedeemBy: check.RedeemBy, Replay: c.payment.nonce,
	}
}

// stepOf returns the payment after a step, and notes the payment in the step's row.
func stepOf(p spend.Payment, o *spend.Outcome, round int, byNonce bool) spend.Payment {
	if p.PaidTwice(o, round) {
		o.Payment.Flags = append(o.Payment.Flags, spend.FlagPaidTwice)
	}
	p, step := p.WithStep(o, round, byNonce)
	o.Payment.Of = append(o.Payment.Of, step)
	return p
}

// voidOf returns the report by which the service gives a check back that nobody redeemed.
func voidOf(check *spend.Check, why spend.Flag) *spend.Outcome {
	o := &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now()), CheckID: check.ID, Step: 1, Number: 1, Status: spend.Voided, KeyID: spend.SystemKey,
		Check: check, Payment: spend.OutcomePayment{Flags: []spend.Flag{why}},
	}
	o.SetRelease(true)
	return o
}

// ofPayment names a payment that a step changes.
type ofPayment struct {
	namespace, key string
	round          int // of the check, in the payment
}

// ownPayment returns the payment under which an executor redeems a check; zero for none.
func (r *Request) ownPayment() ofPayment {
	if r.Payment == nil {
		return ofPayment{}
	}
	return ofPayment{namespace: r.Access.namespace(), key: r.Payment.Key}
}

// paymentsOf returns the payments that a check belongs to: the asker's, and the one under which it was redeemed.
func paymentsOf(check *spend.Check, redeemed *spend.Outcome) (all []ofPayment) {
	if redeemed != nil {
		for _, of := range redeemed.Payment.Of {
			all = append(all, ofPayment{of.Namespace, of.Key, of.Round})
		}
	} else if check.Payment != nil {
		all = append(all, ofPayment{check.Namespace, check.Payment.Key, check.Payment.Round})
	}
	return all
}

// withOwn returns the payments with an executor's own in front.
func withOwn(own ofPayment, payments []ofPayment) []ofPayment {
	if own.key == "" || len(payments) > 0 && payments[0].namespace == own.namespace && payments[0].key == own.key {
		return payments
	}
	return append([]ofPayment{own}, payments...)
}

// payStep completes a step of the course of a check with what it changes of the check's payments, and returns the steps
// that are recorded with it. The payments are read after the course from which the step was made. A redemption fails
// with a *PaymentTakenError if a payment is carried out by another check.
func (r *reporting) payStep(ctx context.Context, o *spend.Outcome) (with []*spend.Outcome, err error) {
	flags := o.Payment.Flags
	o.Payment, o.Payments = spend.OutcomePayment{Flags: slices.Clip(flags)}, nil
	if o.Check == nil || o.Status == spend.InDoubt {
		return nil, nil
	}
	for i, p := range withOwn(r.own, paymentsOf(o.Check, r.redeemed)) {
		facts, err := r.a.factsOf(ctx, spend.PaymentHash(p.namespace, p.key))
		if err != nil {
			return nil, err
		}
		if r.judged != nil && facts.Hash() == r.judged.Hash() && facts.Version != r.judged.Version {
			return nil, errOvertaken // its nonce may have taken the check over: the course is younger than the payment was
		}
		if o.Number > 0 && !facts.Has(o.CheckID) {
			continue // it was removed: what became of its checks changes no payment that began anew
		}
		facts.Namespace, facts.Key = p.namespace, p.key
		if o.Status == spend.Redeemed {
			if err := r.a.mayRedeem(ctx, r.access, facts, o.CheckID); err != nil {
				return nil, err
			}
			if i == 0 {
				deployment, err := r.a.guard.Deployment(ctx)
				if err != nil {
					return nil, err
				}
				o.Payment.ExecutionID = facts.ExecutionID(deployment, facts.Redeemed)
			}
		}
		if o.Status == spend.TakenOver && facts.Shown() != o.CheckID {
			return nil, &PaymentTakenError{Check: facts.Shown(), Status: facts.Status(r.a.now())}
		}
		to := stepOf(facts.Payment, o, p.round, r.byNonce && i == 0)
		if o.Status == spend.Executed && p.round == facts.Round && facts.Shown() != o.CheckID && facts.Status(r.a.now()) == audit.PaymentOpen {
			void := voidOf(facts.Check, spend.FlagSuperseded)
			void.Fence = o.Fence
			to = stepOf(to, void, facts.Check.Payment.Round, false)
			with = append(with, void)
		}
		o.Payments = append(o.Payments, spend.PaymentChange{Seen: facts.Version, To: to})
	}
	return with, nil
}

// payable fails with a *PaymentTakenError if a payment of a check that is to be redeemed is carried out by another check,
// and with ErrOtherPayment if an executor's own payment is another one than that of the check in the same namespace.
func (a *Authorizer) payable(ctx context.Context, access Access, own ofPayment, check *spend.Check) error {
	if own.key != "" && check.Payment != nil && check.Namespace == own.namespace && check.Payment.Key != own.key {
		return ErrOtherPayment
	}
	for _, p := range withOwn(own, paymentsOf(check, nil)) {
		facts, err := a.factsOf(ctx, spend.PaymentHash(p.namespace, p.key))
		if err != nil {
			return err
		}
		if err := a.mayRedeem(ctx, access, facts, check.ID); err != nil {
			return err
		}
	}
	return nil
}

// mayRedeem fails with a *PaymentTakenError unless the check is the payment's current one or the payment is free.
func (a *Authorizer) mayRedeem(ctx context.Context, access Access, facts *audit.PaymentFacts, check spend.ID) error {
	status := audit.PaymentFree
	if facts.Version > 0 {
		if facts.Current != check {
			if err := a.noteOthers(ctx, map[spend.Hash]*audit.PaymentFacts{facts.Hash(): facts}); err != nil {
				return err
			}
		}
		status = facts.Status(a.now())
	}
	if facts.Current == check && facts.Executed() == nil || facts.Current != check && status == audit.PaymentFree {
		return nil
	}
	return &PaymentTakenError{facts.Shown(), status, a.viewOf(access, facts)}
}

// redeemOpen redeems the payment's open check for the request's nonce.
func (a *Authorizer) redeemOpen(ctx context.Context, c *checking) (Answer, error) {
	check := c.payment.facts.Check
	terms, err := a.redeemTerms(ctx, check)
	if err != nil {
		return Answer{}, err
	}
	o := redeemNow(c, check)
	o.RedeemBy = check.Timestamp().Add(terms.Within())
	return a.stepAndShow(ctx, c, o)
}

// showOrTakeOver shows a redeemed payment, or passes its redemption on to the request's nonce.
func (a *Authorizer) showOrTakeOver(ctx context.Context, c *checking) (Answer, error) {
	p := c.payment
	course := &p.facts.Course
	if !p.takesOver(a.now()) {
		return a.showPayment(c), nil
	}
	o := redeemNow(c, p.facts.Check)
	o.Step, o.Status, o.RedeemBy = course.Next(), spend.TakenOver, time.Time{}
	return a.stepAndShow(ctx, c, o)
}

// takesOver reports whether the request takes the redemption of its payment over.
func (p *paying) takesOver(now time.Time) bool {
	return p.facts.Course.Passes(&p.facts.Payment, p.nonce, p.TakeOver, now)
}

// stepAndShow records a step of the current check's course and shows the payment after it.
func (a *Authorizer) stepAndShow(ctx context.Context, c *checking, o *spend.Outcome) (Answer, error) {
	r := reporting{
		a: a, access: c.identity.access, deadline: c.deadline, byNonce: true, redeemed: c.payment.facts.Course.Redeemed,
		judged: &c.payment.facts.Payment,
	}
	defer func() { c.handedOver = c.handedOver || r.handedOver }()
	p := c.payment
	if err := r.record(ctx, o); err != nil {
		if errors.Is(r.refused, commit.ErrLate) { // by the store's clock, or since it was restored
			return Answer{}, cmp.Or(a.giveBack(ctx, o.Check, spend.FlagLapsed), errOvertaken)
		}
		if _, taken := errors.AsType[*PaymentTakenError](err); taken || isStopped(err) {
			return Answer{}, errOvertaken
		}
		return Answer{}, err
	}
	a.metrics.outcomes.WithLabelValues(string(o.Status), string(o.Release)).Inc()
	p.facts.Payment = o.Payments[0].To
	p.facts.Course = p.facts.Course.With(o)
	return a.showPayment(c), nil
}

// releasePatience is how long a request waits for the release of a payment, which a reporter makes in a second report.
const (
	releasePatience = time.Second
	releasePoll     = 100 * time.Millisecond
)

// awaitRelease waits for the release of a payment, and shows the payment if it does not come.
func (a *Authorizer) awaitRelease(ctx context.Context, c *checking) (Answer, error) {
	if a.now().Sub(c.request.Started) > releasePatience {
		return a.showPayment(c), nil
	}
	if err := pause.For(ctx, releasePoll); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return Answer{}, errOvertaken
}

// awaitPeople waits for a decision about the approval of the current check. The request takes no place among the checks
// in flight meanwhile.
func (a *Authorizer) awaitPeople(ctx context.Context, c *checking) error {
	p := c.payment
	began := a.now()
	a.guard.Release(&c.attempt)
	a.writer.Free()
	id := p.facts.Check.ID
	if p.facts.Other != nil {
		id = p.facts.Other.Check.ID
	}
	found, held, err := a.AwaitApproval(ctx, c.identity.access, id, p.Wait, p.Stop)
	soFar, ok := a.writer.Reserve()
	if !ok {
		// The place is given back, and the check that asks people is recorded.
		c.handedOver = true
		return fmt.Errorf("%w: too many checks in flight", ErrUnavailable)
	}
	absent := errors.Is(err, ErrApprovalNotFound)
	if err != nil && !absent {
		return err
	}
	if p.Gone != nil && p.Gone() { // nobody would carry out what it redeems
		return fmt.Errorf("%w: the caller has closed the connection", ErrUnavailable)
	}
	if err := a.prove(ctx); err != nil {
		return err
	}
	now := a.now()
	p.unheld = !absent && !held
	p.Wait -= now.Sub(began)
	p.waited = absent || !held || found.Status == audit.ApprovalPending || p.awaited == id || p.Wait < releasePoll
	p.awaited, c.attempt.Known = id, true
	c.done = false                          // another check may follow
	c.soFar, c.request.Started = soFar, now // people's time is not the store's
	c.deadline = now.Add(blindFor)
	c.attempt.Deadline = c.deadline
	return nil
}
