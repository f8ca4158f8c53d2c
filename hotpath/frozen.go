package hotpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
	"spendgate/ratelimit"
)

// How a freeze stops what it covers (S87). A node has the active freezes in its view of the configuration. Each commit says
// by which stops it was judged (spend.Fence.Stops), and the store refuses one that was judged before the last: the check is
// judged again. So no allow and no redemption in scope is recorded after a freeze.
//
// What was recorded before and is answered later is proved again, where the request is older than answerWithin: a freeze is
// answered only that long after its generation was raised.

// answerWithin is how long after its begin a request may be answered without another look at the generation.
const answerWithin = 200 * time.Millisecond

const maxProofs = 4

// FrozenError refuses a request that a freeze stops.
type FrozenError struct {
	Freeze  *audit.Freeze // nil if the caller may not read it
	Payment *PaymentView  // of a request with a payment
}

func (e *FrozenError) Error() string { return "stopped by a freeze" + whyFrozen(e.Freeze) }

// whyFrozen says which freeze stops an action, to who may know.
func whyFrozen(f *audit.Freeze) string {
	if f == nil {
		return ""
	}
	return ", " + f.ID.Text(spend.PrefixFreeze) + ": " + f.Reason
}

// freezes are the active freezes by their folded scopes. Nil means that there are none.
type freezes map[audit.FreezeScope][]*audit.Freeze

// with returns the freezes after changes, which are in their order.
func (f freezes) with(changes []audit.Change) (freezes, error) {
	if len(changes) == 0 {
		return f, nil
	}
	next := make(freezes, len(f)+1)
	for scope, all := range f {
		next[scope] = slices.Clone(all)
	}
	for i := range changes {
		c := &changes[i]
		changed, err := audit.FreezeOf(c)
		if err != nil {
			return nil, err
		}
		scope := changed.Scope.Folded()
		switch c.Kind {
		case audit.FreezeCreated:
			changed.Seq, changed.By, changed.CreatedAt = c.Seq, c.By, c.At
			next[scope] = append(next[scope], &changed)
		case audit.FreezeIsReleased, audit.FreezeEnded:
			next[scope] = slices.DeleteFunc(next[scope], func(old *audit.Freeze) bool { return old.ID == changed.ID })
			if len(next[scope]) == 0 {
				delete(next, scope)
			}
		default:
		}
	}
	if len(next) == 0 {
		return nil, nil
	}
	return next, nil
}

// all returns the active freezes, the oldest first.
func (f freezes) all() (all []*audit.Freeze) {
	for _, some := range f {
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b *audit.Freeze) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// of returns the freeze that stops an action of people with these folded names: the oldest that the caller may read.
func (f freezes) of(access Access, now time.Time, action *spend.Action, names ...string) (stopped *frozen) {
	find := func(kind audit.FreezeKind, value string) {
		for _, one := range f[audit.FreezeScope{Kind: kind, Value: value}] {
			if !one.Until.IsZero() && !now.Before(one.Until) {
				continue
			}
			if stopped == nil {
				stopped = new(frozen)
			}
			if access.permit(spend.FreezesRead) == nil && access.seesFreeze(one.Scope) && (stopped.by == nil || one.Seq < stopped.by.Seq) {
				stopped.by = one
			}
		}
	}
	find(audit.FreezeAll, "")
	find(audit.FreezePolicy, action.PolicyID)
	find(audit.FreezeAgent, spend.NFC(action.AgentID))
	find(audit.FreezeCounterparty, spend.NFC(action.Counterparty))
	for _, name := range names {
		find(audit.FreezePrincipal, name)
	}
	return stopped
}

// frozen says that an action is frozen: by the freeze that the caller is told of, if any.
type frozen struct{ by *audit.Freeze }

func (f *frozen) err(payment *PaymentView) error { return &FrozenError{Freeze: f.by, Payment: payment} }

// frozenAction returns the freeze that stops the caller's action of that time by a view; nil if none does. What is recorded has
// the time of its row, by which the record bears it out.
func (a *Authorizer) frozenAction(v *view, access Access, action *spend.Action, at time.Time) *frozen {
	if v.freezes == nil {
		return nil
	}
	return v.freezes.of(access, at, action, access.key.people...)
}

// frozenCheck returns the freeze that stops a recorded check for the caller: who asked for it, as of then and as of now, and
// who carries it out at that time.
func (a *Authorizer) frozenCheck(v *view, access Access, check *spend.Check, at time.Time) *frozen {
	if v.freezes == nil {
		return nil
	}
	names := namesOf(audit.Asker(check))
	if access.key != nil {
		names = append(names, access.key.people...)
	}
	if k := v.named[check.KeyID]; k != nil {
		names = append(names, k.people...)
	}
	return v.freezes.of(access, at, &check.Action, names...)
}

// namesOf returns the names of people in the form in which they are compared (S62).
func namesOf(p audit.Party) (names []string) {
	for _, name := range [...]string{p.KeyID, p.Principal, p.Owner} {
		if name != "" {
			names = append(names, spend.FoldName(name))
		}
	}
	return names
}

// prove makes the view at least as new as the generation is now.
func (a *Authorizer) prove(ctx context.Context) error {
	r, err := a.guard.Ask(ctx, ratelimit.Hit{})
	if err != nil {
		return err
	}
	return a.catalog.load(ctx, r.Generation)
}

// mayAnswerJudged is mayAnswer of a check that the caller's own request judged: nothing that came before has stopped it.
func (a *Authorizer) mayAnswerJudged(ctx context.Context, started time.Time, access Access, check *spend.Check, redeemed bool) error {
	if a.now().Sub(started) <= answerWithin && a.catalog.view().stops == check.Fence.Stops {
		return nil
	}
	return a.mayAnswer(ctx, started, access, check, redeemed)
}

// mayAnswer refuses to answer an allow, or a redemption, that was stopped after it was recorded.
func (a *Authorizer) mayAnswer(ctx context.Context, started time.Time, access Access, check *spend.Check, redeemed bool) error {
	for tries := 0; a.now().Sub(started) > answerWithin; tries++ {
		if started = a.now(); tries == maxProofs {
			return fmt.Errorf("%w: it takes too long to read the generation", ErrUnavailable)
		}
		if a.prove(ctx) == nil {
			continue
		}
		// Without Redis the store tells it. Who is refused what is recorded could not be given it again if Redis comes back empty (G7).
		if err := a.catalog.reload(ctx); err != nil {
			return err
		}
	}
	v := a.catalog.view()
	if !redeemed && v.stopsCheck(check) {
		return ErrCheckStopped
	}
	if f := a.frozenCheck(v, access, check, a.now()); f != nil {
		return f.err(nil)
	}
	return nil
}

// isStopped reports whether that is why a request was refused.
func isStopped(err error) bool {
	_, frozen := errors.AsType[*FrozenError](err)
	return frozen || errors.Is(err, ErrCheckStopped)
}

// judgeStopped judges a check again, with the same claims, after its commit was refused because something was stopped
// meanwhile. A payment is read again. A check that budgets refused stays refused: it has lost its pass.
func (a *Authorizer) judgeStopped(ctx context.Context, c *checking, p *policy.Program, refused *spend.Check) (*spend.Check, error) {
	if a.now().After(c.deadline) {
		return nil, fmt.Errorf("%w: a check was stopped too often", ErrUnavailable)
	}
	if err := a.catalog.reload(ctx); err != nil {
		return nil, err
	}
	if c.payment != nil {
		return nil, commit.ErrPaymentMoved
	}
	c.view = a.catalog.view()
	if c.identity = c.view.identify(c.request.Caller, a.now); c.identity.err != nil {
		return nil, c.identity.err
	}
	check := *refused
	check.Fence.Stops = c.view.stops
	// Its row names who the key was when it was judged first.
	if f := a.frozenCheck(c.view, c.identity.access, &check, check.ID.Time()); f != nil {
		freeze(c, &check, f)
	} else if c.approved != nil {
		if _, err := a.approvedFor(ctx, c.view, &check); err != nil {
			return nil, err
		}
	}
	if c.budgets != nil && check.Decision.Effect != spend.Block && !check.Decision.Exceeded() { // its grants may have ended
		if c.approved != nil {
			c.lift = c.approved.Check.Approval.Rules
		}
		return &check, a.judgeByRules(ctx, c, p, &check)
	}
	return &check, nil
}

// freeze makes the check a blocked one, which leaves no fingerprint and takes nothing.
func freeze(c *checking, check *spend.Check, f *frozen) {
	check.Decision = spend.Frozen(check.Decision.PolicyVersion, whyFrozen(f.by))
	if c.payment == nil {
		check.Decision.NextStep += " Once people have released the freeze, check it again under a new idempotency_key."
	}
	check.Approval, check.Charges, check.Refused, check.Pass, check.RedeemBy = nil, nil, nil, spend.Pass{}, time.Time{}
	c.budgets, c.approved, c.lift = nil, nil, nil
}

// frozenPayment refuses a request for a payment that a freeze stops. The payment is shown where nothing is begun by that; else
// the request is judged.
func (a *Authorizer) frozenPayment(c *checking, action *spend.Action) (shown bool, err error) {
	p := c.payment
	if c.view.freezes == nil || p.facts.Check == nil {
		return false, nil
	}
	f := a.frozenAction(c.view, c.identity.access, action, a.now())
	if f == nil && p.status != audit.PaymentFree && p.status != audit.PaymentDenied { // else the current check is over
		f = a.frozenCheck(c.view, c.identity.access, p.facts.Check, a.now())
	}
	if f == nil {
		return false, nil
	}
	begins := false
	switch p.status {
	case audit.PaymentOpen:
		begins = true
	case audit.PaymentEscalated, audit.PaymentWaiting:
		begins = p.Replace
		shown = p.status == audit.PaymentWaiting || p.approved != nil
	case audit.PaymentRedeemed, audit.PaymentInDoubt:
		begins, shown = c.payment.takesOver(a.now()), true
	case audit.PaymentFree, audit.PaymentDenied:
		shown = p.approved != nil
	case audit.PaymentReleasing, audit.PaymentExecuted:
		shown = true
	}
	if begins {
		return false, f.err(a.viewOwn(c, p.facts))
	}
	return shown, nil
}
