package hotpath

import (
	"context"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// PaymentView is what a response shows of a payment: its member `payment` (S84).
type PaymentView struct {
	Key        string
	Status     audit.PaymentStatus
	Attempt    int
	Hidden     bool            // the caller may see neither the current check nor what became of it
	Proceed    bool            // the caller carries the action out
	Nonce      string          // by which; else empty
	Redeemed   *spend.Outcome  // nil before the redemption
	Redemption *spend.Outcome  // the redemption, or the last take-over
	Last       *spend.Outcome  // the last report
	Approval   *audit.Approval // of the current check, while it is unused
}

// viewOf shows a payment to a caller.
func (a *Authorizer) viewOf(access Access, f *audit.PaymentFacts) *PaymentView {
	v := &PaymentView{Key: f.Key, Status: f.Status(a.now()), Attempt: f.Attempt}
	if f.Check == nil {
		return v
	}
	if access.permitAction(f.Check.Action.PolicyID, f.Check.Action.AgentID) != nil {
		v.Hidden = true
		return v
	}
	v.Redeemed, v.Redemption, v.Last = f.Course.Redeemed, f.Course.Holder(), f.Course.Last()
	if f.Approval != nil && f.Approval.Status != audit.ApprovalUsed {
		v.Approval = f.Approval
	}
	return v
}

// viewOwn shows the payment to the request that pays: with proceed, if its nonce holds the current check.
func (a *Authorizer) viewOwn(c *checking, f *audit.PaymentFacts) *PaymentView {
	v := a.viewOf(c.identity.access, f)
	if p := c.payment; v.Status == audit.PaymentRedeemed && !v.Hidden && p.Nonce != "" && v.Redemption.Replay == p.nonce &&
		a.frozenCheck(a.catalog.view(), c.identity.access, f.Check, a.now()) == nil {
		v.Proceed, v.Nonce = true, p.Nonce
	}
	return v
}

// showPayment answers with the check that the payment shows.
func (a *Authorizer) showPayment(c *checking) Answer {
	a.metrics.replays.Inc()
	facts := c.payment.facts
	return Answer{Check: facts.Check, Replayed: true, Became: facts.Course, Payment: a.viewOwn(c, facts)}
}

// showChecked adds the payment to the answer after the commit of a check, with its redemption.
func (a *Authorizer) showChecked(ctx context.Context, c *checking, answer *Answer) (err error) {
	check := answer.Check
	after := &audit.PaymentFacts{Payment: check.Payments[0].To, Check: check}
	if redeemed := c.payment.redeemed; redeemed != nil {
		after.Course = spend.CourseOf([]*spend.Outcome{redeemed})
		answer.Became = after.Course
	}
	if check.Approval != nil { // whose times are the store's
		if after.Approval, _, err = a.approvals.Get(ctx, check.ID); err != nil {
			return err
		}
	}
	if after.Version > 1 {
		err = a.noteOthers(ctx, map[spend.Hash]*audit.PaymentFacts{c.attempt.Payment: after})
	}
	answer.Payment = a.viewOwn(c, after)
	return err
}

// PaymentIn returns the hash of a payment in the namespace of a principal, as checks show it: of a key without one, its key_id.
func (a *Authorizer) PaymentIn(principal, key string) spend.Hash {
	namespace := spend.FoldName(principal)
	for _, k := range a.catalog.view().keys {
		if k.name == principal {
			namespace = k.namespace
		}
	}
	return spend.PaymentHash(namespace, key)
}

// PaymentsOf returns, by the check's ID, what each of the checks shows of its payment to a caller who may see the check: of
// two payments that of the caller's namespace, else the asker's. courses are those of the checks.
func (a *Authorizer) PaymentsOf(
	ctx context.Context, access Access, checks []*spend.Check, courses map[spend.ID]spend.Course,
) (map[spend.ID]*PaymentView, error) {
	of := make(map[spend.ID]spend.Hash)
	var hashes []spend.Hash
	for _, check := range checks {
		hash := check.PaymentHash()
		if redeemed := courses[check.ID].Redeemed; redeemed != nil {
			for _, step := range redeemed.Payment.Of {
				if step.Namespace == access.namespace() {
					hash = spend.PaymentHash(step.Namespace, step.Key)
				}
			}
		}
		if !hash.IsZero() {
			of[check.ID], hashes = hash, append(hashes, hash)
		}
	}
	if hashes == nil {
		return nil, nil
	}
	facts, err := a.factsOfAll(ctx, hashes)
	if err == nil {
		err = a.noteOthers(ctx, facts)
	}
	if err != nil {
		return nil, err
	}
	views := make(map[spend.ID]*PaymentView, len(of))
	for id, hash := range of {
		if f := facts[hash]; f != nil && f.Has(id) { // not the payment that began anew
			views[id] = a.viewOf(access, f)
		}
	}
	return views, nil
}
