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
	if p := c.payment; v.Status == audit.PaymentRedeemed && !v.Hidden && p.Nonce != "" && v.Redemption.Replay == p.nonce {
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

// viewOfCheck shows the payment after the commit of a check, with its redemption.
func (a *Authorizer) viewOfCheck(ctx context.Context, c *checking, check *spend.Check) (*PaymentView, error) {
	after := &audit.PaymentFacts{Payment: check.Payments[0].To, Check: check}
	if redeemed := c.payment.redeemed; redeemed != nil {
		after.Course = spend.CourseOf([]*spend.Outcome{redeemed})
	}
	if check.Approval != nil { // whose times are the store's
		var err error
		if after.Approval, _, err = a.approvals.Get(ctx, check.ID); err != nil {
			return nil, err
		}
	}
	return a.viewOwn(c, after), nil
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
	if err != nil {
		return nil, err
	}
	views := make(map[spend.ID]*PaymentView, len(of))
	for id, hash := range of {
		if f := facts[hash]; f != nil {
			views[id] = a.viewOf(access, f)
		}
	}
	return views, nil
}
