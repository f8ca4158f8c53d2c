package hotpath

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/trace"
	"spendgate/ratelimit"
)

// maxReclaims bounds how often a check starts over because its fence, its
// configuration or its claims were overtaken.
const maxReclaims = 16

const (
	// blindFor is how long a check, or a change of the configuration, may take
	// while nothing answers (G7: 2 s).
	blindFor = 1700 * time.Millisecond
	// commitAtLeast is the time reserved for the commit after the last claim.
	commitAtLeast = time.Second
)

// Check authenticates, counts, guards, judges and records one action. It keeps
// the action's strings, but not the action. The quota is as with Admit.
// With ErrUnauthorized, ErrKeyInactive, ErrRateLimited, a ForbiddenError, ErrPolicyNotFound,
// a KeyReusedError, ErrApprovalNotFound, an audit.ApprovalError and ErrOverloaded nothing was
// decided; with ErrUnavailable the check may have been recorded (G7).
func (a *Authorizer) Check(ctx context.Context, r Request, action *spend.Action) (Answer, ratelimit.Quota, error) {
	soFar, ok := a.writer.Reserve() // before any claim (G9)
	if !ok {
		return Answer{}, ratelimit.Quota{}, ErrOverloaded
	}
	c := a.begin(r, action)
	c.soFar = soFar
	defer a.end(c)
	if r.Payment != nil {
		c.payment = &paying{PaymentRequest: *r.Payment}
		answer, err := a.checkPayment(ctx, c, action)
		return answer, c.quota, err
	}
	for range maxReclaims {
		answer, err := a.try(ctx, c, action)
		if !errors.Is(err, errOvertaken) {
			return answer, c.quota, err
		}
	}
	return Answer{}, c.quota, fmt.Errorf("%w: a check was overtaken too often", ErrUnavailable)
}

// try is one round of Check. It fails with errOvertaken if the check may start again.
func (a *Authorizer) try(ctx context.Context, c *checking, action *spend.Action) (Answer, error) {
	inTime, cancel := c.inTime(ctx)
	defer cancel()
	live, err := a.prepare(inTime, c, action)
	if err != nil {
		return Answer{}, err
	}
	return a.judged(ctx, c, live, action)
}

// judged claims the right to record the check, judges and records it, or answers again with the check that has
// its idempotency key.
func (a *Authorizer) judged(ctx context.Context, c *checking, live *policy.Program, action *spend.Action) (Answer, error) {
	inTime, cancel := c.inTime(ctx)
	defer cancel()
	out, err := a.claim(inTime, c)
	if err != nil {
		return Answer{}, err
	}
	inTime, cancel = c.inTime(ctx) // the check may have waited in vain
	defer cancel()
	switch out.Kind {
	case guard.Stale:
		if err := a.catalog.load(inTime, out.Reading.Generation); err != nil {
			return Answer{}, err
		}
		c.admission.fresh = true
		return Answer{}, errOvertaken
	case guard.PaymentKnown:
		c.admission.fresh = true // by the same reading
		return Answer{}, errOvertaken
	case guard.Limited:
		a.metrics.limited.Inc()
		return Answer{}, ErrRateLimited
	case guard.KeyReused:
		return Answer{}, &KeyReusedError{out.Of}
	case guard.Replay:
		answer, err := a.replay(inTime, c, out.Check)
		if err != nil {
			a.guard.Unanswered(&c.attempt)
		}
		return answer, err
	case guard.Pass, guard.Duplicate, guard.Gone:
	}
	check, err := a.judge(inTime, c, live, action, out)
	if err != nil {
		return Answer{}, err
	}
	return a.record(inTime, c, live, check)
}

// checking is one check on its way.
type checking struct {
	request    Request
	soFar      int64 // how many were recorded when it began
	attempt    guard.Attempt
	view       *view // by which it is judged
	identity   identity
	admission  admission
	resolution spend.Resolution
	quota      ratelimit.Quota
	last       guard.Reading   // of the last claim
	deadline   time.Time       // when the check is refused unless it is recorded
	budgets    *budgeting      // nil when no budget judges it
	approved   *audit.Approval // that the check uses; nil without one
	lift       []spend.EscalatedRule
	payment    *paying // nil without one
	reclaims   bool    // a commit of it was refused
	handedOver bool    // finish ends it
	done       bool    // recorded: nothing refers to it any more
}

func (a *Authorizer) begin(r Request, action *spend.Action) *checking {
	c := a.checkings.Get().(*checking)
	*c = checking{request: r, deadline: r.Started.Add(blindFor)}
	c.attempt.Deadline = c.deadline
	c.attempt.RequestSHA = spend.RequestSHA(action)
	c.attempt.Approved = !action.ApprovalID.IsZero()
	return c
}

// end removes the claims of a check that was not recorded, and releases its place.
func (a *Authorizer) end(c *checking) {
	if c.handedOver {
		return
	}
	a.guard.Release(&c.attempt)
	a.writer.Free()
	if c.done {
		a.checkings.Put(c)
	}
}

// prepare finds key and policy in this node's configuration and makes the attempt ready for it. Before
// it refuses a request it proves the configuration current and counts the request; the same holds for
// a policy that is not in memory, so that the store is asked only within the caller's rate limit.
func (a *Authorizer) prepare(ctx context.Context, c *checking, action *spend.Action) (*policy.Program, error) {
	var live *policy.Program
	c.view, live = a.look(c, action)
	if live == nil {
		if paid := c.last; c.admission.paid == nil && paid.Counted {
			c.admission.paid = &paid
		}
		var err error
		c.quota, err = a.admit(ctx, c.request.Caller, spend.ChecksWrite, &c.admission)
		c.admission.access.used().note(a.now())
		if err != nil {
			return nil, err
		}
		if c.view, live = a.look(c, action); c.identity.err != nil {
			return nil, c.identity.err
		}
		if live == nil {
			if live, err = a.catalog.program(action.PolicyID); err != nil {
				return nil, err
			}
		}
	}
	if c.resolution.Type == spend.Unspecified {
		c.resolution = a.resolve(action)
	}
	at := &c.attempt
	at.Namespace = c.identity.access.key.namespace
	at.KeyHash = action.KeyHash(at.Namespace)
	at.Fingerprint = spend.FingerprintOf(action, c.resolution.Type)
	at.Window, at.JudgesAgain = live.Guard(action, c.resolution.Type)
	if at.Generation = c.view.generation; c.admission.fresh {
		at.Generation = ""
	}
	if at.Hit = c.identity.hit; c.admission.paid != nil {
		at.Hit = ratelimit.Hit{}
	}
	return live, nil
}

// look reads this node's configuration as it is now: key, scope, bindings and
// expiry by one view. The program is nil when the caller is refused, or when the
// policy is not in memory.
func (a *Authorizer) look(c *checking, action *spend.Action) (*view, *policy.Program) {
	view := a.catalog.view()
	c.identity = view.identify(c.request.Caller, a.now)
	if c.identity.err == nil {
		c.identity.err = c.identity.access.permit(spend.ChecksWrite)
	}
	if c.identity.err == nil && c.payment != nil {
		c.identity.err = c.payment.permitted(c.identity.access)
	}
	if c.identity.err == nil {
		c.identity.err = c.identity.access.permitAction(action.PolicyID, action.AgentID)
	}
	if c.identity.err != nil {
		return view, nil
	}
	live, _ := a.catalog.cached(action.PolicyID)
	return view, live
}

// blind reports whether a claim shows nothing about the store: a commit of this check, or of a check
// that it waited for, was refused, and may have been delayed by the store.
func (c *checking) blind() bool { return c.reclaims || c.attempt.InVain }

// inTime bounds what a blind check asks by its deadline: its commit is refused after that (G7).
func (c *checking) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if !c.blind() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, c.deadline)
}

// claim asks the guard. An answer shows that the dependencies respond, so time spent waiting for
// another check's claim does not count as blind.
func (a *Authorizer) claim(ctx context.Context, c *checking) (guard.ClaimResult, error) {
	started := a.now()
	c.request.Trace.Begin(trace.Guard, started)
	out, err := a.guard.Claim(ctx, &c.attempt)
	now := a.now()
	c.request.Trace.End(now)
	a.metrics.claim.Observe(now.Sub(started).Seconds())
	if err != nil {
		return out, err
	}
	c.last = out.Reading
	if out.Kind != guard.Stale { // the key is in force
		c.identity.access.used().note(now)
	}
	if soonest := now.Add(commitAtLeast); !c.blind() && soonest.After(c.deadline) {
		c.deadline = soonest
	}
	if c.admission.paid == nil {
		c.quota, _ = out.Reading.Place.Judge(c.identity.hit.Limit)
	}
	return out, nil
}

// resolve is the action's type as sent, or as the classifier reads the reason.
func (a *Authorizer) resolve(action *spend.Action) spend.Resolution {
	if action.Type != spend.Unspecified {
		return spend.Resolution{Type: action.Type, Confidence: spend.High}
	}
	return a.classifier.Classify(action.ReasonText)
}

// errOvertaken means that nothing was recorded and the check may start again: its fence was refused,
// or it met a check that no longer exists.
var errOvertaken = errors.New("overtaken")

// record commits the check. Each time that the commit finds a budget without room, the check is judged
// again, by at least one more budget. The answer is durable: it is this check's, or that of the check
// that was recorded under the same idempotency key meanwhile. With errOvertaken the claims are ready
// to be made again.
func (a *Authorizer) record(ctx context.Context, c *checking, p *policy.Program, check *spend.Check) (Answer, error) {
	for {
		if terms := p.RedeemTerms(); terms.Required && check.Decision.Effect == spend.Allow {
			check.RedeemBy = check.Timestamp().Add(terms.Within())
		}
		answer, err := a.commit(ctx, c, check)
		if errors.Is(err, audit.ErrStaleStops) {
			if check, err = a.judgeStopped(ctx, c, p, check); err != nil {
				return Answer{}, err
			}
			continue
		}
		exceeded, ok := errors.AsType[*audit.ExceededError](err)
		if !ok {
			return answer, err
		}
		if check, err = a.judgeAgain(ctx, c, p, check, exceeded.Usages); err != nil {
			return Answer{}, err
		}
	}
}

func (a *Authorizer) commit(ctx context.Context, c *checking, check *spend.Check) (Answer, error) {
	started := a.now()
	c.request.Trace.Begin(trace.Commit, started)
	var with []*spend.Outcome
	if c.payment != nil {
		with = a.payFor(c, check)
	}
	entry := a.writer.Append(check, with...)
	err := entry.Wait(c.deadline)
	now := a.now()
	c.request.Trace.End(now)
	a.metrics.commit.Observe(now.Sub(started).Seconds())
	if err == nil || errors.Is(err, commit.ErrPending) || errors.Is(err, audit.ErrUnavailable) {
		a.writer.Learn(c.soFar, now.Sub(c.request.Started))
	}
	switch {
	case err == nil:
		var refused error
		if check.Decision.Effect == spend.Allow {
			redeemed := c.payment != nil && c.payment.redeemed != nil
			refused = a.mayAnswerJudged(ctx, c.request.Started, c.identity.access, check, redeemed)
			if refused != nil {
				a.guard.Abandon(&c.attempt) // the next equal request gets it
			}
		}
		a.guard.Committed(&c.attempt, check)
		for _, o := range with {
			a.metrics.outcomes.WithLabelValues(string(o.Status), string(o.Release)).Inc()
		}
		c.done = true
		a.metrics.count(check)
		a.fullest.note(check)
		return Answer{Check: check}, refused
	case errors.Is(err, audit.ErrStaleEpoch), errors.Is(err, audit.ErrFencedNode):
		if a.now().After(c.deadline) {
			return Answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		c.reclaims = true
		inTime, cancel := context.WithDeadline(ctx, c.deadline)
		defer cancel()
		if err := a.guard.Reclaim(inTime, &c.attempt, errors.Is(err, audit.ErrStaleEpoch)); err != nil {
			return Answer{}, err
		}
		return Answer{}, errOvertaken
	case errors.Is(err, commit.ErrKeyTaken):
		return a.keyTaken(ctx, c)
	case errors.Is(err, commit.ErrPending):
		// The client is answered 500 now; claims and place stay until the outcome of the commit is
		// known.
		c.handedOver = true
		a.guard.Abandon(&c.attempt)
		a.unresolved.Go(func() { a.finish(entry, c, check) })
		return Answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, audit.ErrUnavailable):
		return Answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, commit.ErrLate), errors.Is(err, commit.ErrReported): // the clocks of node and store are far apart
		return Answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	default:
		return Answer{}, err
	}
}

// keyTaken answers a check whose idempotency key belongs to another check in the store.
func (a *Authorizer) keyTaken(ctx context.Context, c *checking) (Answer, error) {
	switch out, err := a.guard.KeyTaken(ctx, &c.attempt); {
	case err != nil:
		return Answer{}, err
	case out.Kind == guard.Gone:
		return Answer{}, errOvertaken
	case out.Kind == guard.KeyReused:
		return Answer{}, &KeyReusedError{out.Of}
	default:
		return a.replay(ctx, c, out.Check)
	}
}

// finish ends an attempt whose request was refused before its commit returned: a recorded check is
// left to the next identical request as an orphan; else nothing may block that request.
func (a *Authorizer) finish(entry *commit.Entry, c *checking, check *spend.Check) {
	defer a.writer.Free()
	switch err := entry.Final(); {
	case err == nil:
		a.guard.Committed(&c.attempt, check)
	case errors.Is(err, commit.ErrPending):
		// Closing, and the store has not answered: the claims stay, and
		// whoever meets them fences this node.
	default:
		a.guard.Release(&c.attempt)
	}
}
