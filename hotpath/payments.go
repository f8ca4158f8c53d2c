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
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// ErrPrincipalRequired refuses a payment of an API key that is nobody's: the key that replaces it would pay again.
var ErrPrincipalRequired = errors.New("a payment needs an API key with a principal")

// PaymentRequest is what the request of a check says of its payment (S84).
type PaymentRequest struct {
	Key      string          // in the form of spend.PaymentKey
	Nonce    string          // of `redeem`; empty: the request redeems nothing
	Replace  bool            // judge another action, where nothing can have moved
	TakeOver time.Duration   // take the redemption of another nonce over if it is at most that old; 0: do not
	Hours    int             // again_after_hours; 0: not said
	Wait     time.Duration   // for a decision of people
	Stop     <-chan struct{} // ends the wait
	Gone     func() bool     // the caller has closed the connection; nil if that is not known
}

// PaymentDiffersError refuses a request whose action, or period, is not that of the payment.
type PaymentDiffersError struct {
	Check   spend.ID
	Differs []string // names of members
	Payment *PaymentView
}

func (e *PaymentDiffersError) Error() string {
	return "the payment was asked for before, and differs in " + strings.Join(e.Differs, ", ") +
		": another payment needs another payment_key; to change an action that was not carried out, send \"replace\": true"
}

// paying is a check of a payment on its way.
type paying struct {
	PaymentRequest
	namespace  string
	nonce      spend.Hash // zero without one
	facts      *audit.PaymentFacts
	status     audit.PaymentStatus
	differs    []string          // the members in which the request differs from the payment
	approved   *audit.Approval   // that the request uses; nil without one
	withdraws  []spend.ID        // the approvals that are withdrawn
	replaces   *spend.Check      // the open check that is given back; nil without one
	redeemed   *spend.Outcome    // that the check's commit records
	terms      spend.RedeemTerms // of the policy that judges
	deployment spend.ID
	awaited    spend.ID // the approval that the request waited for last
	waited     bool     // for people, as long as the request said
	unheld     bool     // too many others wait for people
}

// checkPayment is Check of a request with a payment: the payment is shown, or the action is judged.
// In addition it fails with ErrPrincipalRequired and a *PaymentDiffersError.
func (a *Authorizer) checkPayment(ctx context.Context, c *checking, action *spend.Action) (Answer, error) {
	for {
		action.ApprovalID = spend.ID{}
		answer, err := a.tryPayment(ctx, c, action)
		switch {
		case errors.Is(err, errWaitForPeople):
			if err := a.awaitPeople(ctx, c); err != nil {
				return Answer{}, err
			}
		case errors.Is(err, errOvertaken):
			if a.now().After(c.deadline) {
				return Answer{}, fmt.Errorf("%w: a payment was overtaken too often", ErrUnavailable)
			}
		default:
			answer.Waited = !c.payment.unheld
			if err == nil && answer.Payment.Proceed {
				err = a.mayAnswer(ctx, c.request.Started, c.identity.access, answer.Check, true)
				if isStopped(err) {
					answer.Payment.Proceed, answer.Payment.Nonce, err = false, "", nil
				}
			}
			return answer, err
		}
	}
}

// permitted refuses a key that may not redeem, where the request does, and one that is nobody's.
func (p *paying) permitted(access Access) error {
	if p.Nonce != "" {
		if err := access.permit(spend.ChecksRedeem); err != nil {
			return err
		}
	}
	if access.Nobody() {
		return ErrPrincipalRequired
	}
	return nil
}

var errWaitForPeople = errors.New("the payment waits for people")

// tryPayment does what S84's table says for the state of the payment. It judges the action of a payment that is new as
// far as Redis knows, and reads any other payment first. It fails with errOvertaken if the payment was changed meanwhile,
// or is to be read.
func (a *Authorizer) tryPayment(ctx context.Context, c *checking, action *spend.Action) (Answer, error) {
	p := c.payment
	inTime, cancel := ctx, context.CancelFunc(func() {})
	if c.attempt.Known || c.blind() {
		inTime, cancel = context.WithDeadline(ctx, c.deadline)
	}
	defer cancel()
	live, err := a.prepare(inTime, c, action)
	if err != nil {
		return Answer{}, err
	}
	key := c.identity.access.key
	p.withdraws, p.replaces, p.redeemed, p.terms = nil, nil, nil, live.RedeemTerms()
	p.namespace, p.nonce = key.namespace, spend.NonceHash(key.name, p.Nonce)
	c.attempt.Payment = spend.PaymentHash(p.namespace, p.Key)
	if p.deployment, err = a.guard.Deployment(inTime); err != nil {
		return Answer{}, err
	}
	facts := new(audit.PaymentFacts)
	if c.attempt.Known {
		if facts, err = a.factsOf(inTime, c.attempt.Payment); err != nil {
			return Answer{}, err
		}
	}
	p.facts = facts
	if facts.Version == 0 { // the commit finds out if that is not so
		facts.Namespace, facts.Key = p.namespace, p.Key
		return a.judgePayment(ctx, c, live, action)
	}
	if p.status = facts.Status(a.now()); p.status == audit.PaymentOpen {
		if lapsed, err := a.lapseIfOver(inTime, facts); err != nil || lapsed {
			return Answer{}, cmp.Or(err, errOvertaken) // it is free now
		}
	}
	p.differs = a.differing(c, action)
	used := p.Nonce != "" && facts.Used(p.nonce) // it begins nothing any more
	within := facts.Check == nil || c.identity.access.permitAction(facts.Check.Action.PolicyID, facts.Check.Action.AgentID) == nil
	if p.differs != nil && !p.mayDiffer(within && !used) {
		return Answer{}, a.differsOf(c, action)
	}
	if p.approved = nil; !used {
		if p.approved, err = a.approvedOf(inTime, c, action); err != nil {
			return Answer{}, err
		}
	}
	shown, err := a.frozenPayment(c, action)
	switch {
	case err != nil:
		return Answer{}, err
	case (used || shown) && !within:
		return Answer{}, a.differsOf(c, action)
	case used || shown:
		return a.showPayment(c), nil
	}
	if answer, done, err := a.answerPayment(inTime, c, live); done || err != nil {
		return answer, err
	}
	if p.approved != nil {
		action.ApprovalID = p.approved.Check.ID
	}
	return a.judgePayment(ctx, c, live, action)
}

// answerPayment answers a request that is not judged. done is false for one that is.
func (a *Authorizer) answerPayment(ctx context.Context, c *checking, live *policy.Program) (answer Answer, done bool, err error) {
	p := c.payment
	facts := p.facts
	inWindow := func() bool { return a.now().Before(facts.Check.Timestamp().Add(c.attempt.Window)) }
	switch p.status {
	case audit.PaymentFree: // unless the same request got the block that is current
		done = facts.Check != nil && p.Nonce != "" && facts.Check.Decision.Effect == spend.Block && facts.Check.Payment.Nonce == p.nonce
	case audit.PaymentDenied:
		done = p.differs == nil && (inWindow() || p.awaited == facts.Check.ID)
	case audit.PaymentEscalated, audit.PaymentWaiting:
		switch {
		case p.approved != nil && p.differs == nil:
		case p.differs != nil || p.Replace && live.Version() > facts.Check.Decision.PolicyVersion:
			return answer, false, a.replaceAsked(ctx, c)
		case p.status == audit.PaymentWaiting && p.Wait > 0 && !p.waited:
			return answer, true, errWaitForPeople
		default:
			done = p.status == audit.PaymentWaiting || inWindow()
		}
	case audit.PaymentOpen:
		switch {
		case p.differs != nil:
			p.replaces = facts.Check
			return answer, false, nil
		case p.Nonce != "":
			answer, err = a.redeemOpen(ctx, c)
			return answer, true, err
		}
		done = true
	case audit.PaymentRedeemed, audit.PaymentInDoubt:
		answer, err = a.showOrTakeOver(ctx, c)
		return answer, true, err
	case audit.PaymentReleasing:
		answer, err = a.awaitRelease(ctx, c)
		return answer, true, err
	case audit.PaymentExecuted:
		done = true
	}
	if done {
		answer = a.showPayment(c)
	}
	return answer, done, nil
}

// differsOf refuses a request that differs. A key whose binding does not reach the current check learns the payment's state
// and which of its own bindings that check is outside of.
func (a *Authorizer) differsOf(c *checking, action *spend.Action) error {
	facts := c.payment.facts
	refused := &PaymentDiffersError{Check: facts.Shown(), Differs: c.payment.differs, Payment: a.viewOf(c.identity.access, facts)}
	if refused.Payment.Hidden {
		refused.Check = spend.ID{}
		refused.Differs = slices.DeleteFunc(facts.Check.Differing(action, c.resolution.Type), func(name string) bool {
			return name != "agent_id" && name != "policy_id"
		})
	}
	return refused
}

// differing returns the members in which the request differs from the payment.
func (a *Authorizer) differing(c *checking, action *spend.Action) (names []string) {
	facts := c.payment.facts
	if h := c.payment.Hours; h != 0 && h != facts.Hours {
		names = append(names, "again_after_hours")
	}
	if facts.Check != nil && c.payment.status != audit.PaymentFree {
		names = append(names, facts.Check.Differing(action, c.resolution.Type)...)
	}
	return names
}

// mayDiffer reports whether a request with another action is judged, which may or may not replace the current check.
func (p *paying) mayDiffer(mayReplace bool) bool {
	switch p.status {
	case audit.PaymentFree, audit.PaymentDenied:
	case audit.PaymentOpen, audit.PaymentWaiting, audit.PaymentEscalated:
		if !p.Replace || !mayReplace {
			return false
		}
	default:
		return false
	}
	return p.differs[0] != "again_after_hours"
}

// approvedOf returns the approval of the payment that the action may use; nil without one. An approval
// that did not lift what escalated the current check is not used again.
func (a *Authorizer) approvedOf(ctx context.Context, c *checking, action *spend.Action) (*audit.Approval, error) {
	facts := c.payment.facts
	switch c.payment.status {
	case audit.PaymentFree, audit.PaymentDenied, audit.PaymentEscalated, audit.PaymentWaiting:
	case audit.PaymentOpen:
		if !c.payment.Replace {
			return nil, nil
		}
	default:
		return nil, nil
	}
	approvals, err := a.approvalsOf(ctx, c.attempt.Payment)
	if err != nil {
		return nil, err
	}
	asker := c.identity.access.key
	would := &spend.Check{Action: *action, ActionType: c.resolution.Type, KeyID: asker.name, Principal: asker.Grants.Principal}
	found := usable(facts, approvals, would)
	if c.payment.differs == nil {
		facts.Other = found
	}
	if found == nil || found.Status == audit.ApprovalApproved {
		return found, nil
	}
	c.payment.status = facts.Status(a.now()) // it waits
	return nil, nil
}

// replaceAsked has the commit withdraw what the payment asks of people.
func (a *Authorizer) replaceAsked(ctx context.Context, c *checking) error {
	approvals, err := a.approvalsOf(ctx, c.attempt.Payment)
	if err != nil {
		return err
	}
	for _, approval := range approvals {
		if c.payment.approved == nil || c.payment.approved.Check.ID != approval.Check.ID {
			c.payment.withdraws = append(c.payment.withdraws, approval.Check.ID)
		}
	}
	return nil
}

// judgePayment judges the action as the payment's next check.
func (a *Authorizer) judgePayment(ctx context.Context, c *checking, live *policy.Program, action *spend.Action) (Answer, error) {
	c.attempt.Approved = !action.ApprovalID.IsZero()
	answer, err := a.judged(ctx, c, live, action)
	if isStopped(err) { // it was recorded
		c.done = false
		return Answer{}, errOvertaken
	}
	refused, unapproved := errors.AsType[*audit.ApprovalError](err)
	if unapproved && refused.Status != audit.ApprovalAbsent || errors.Is(err, commit.ErrPaymentMoved) {
		a.guard.PaymentMoved(&c.attempt)
		return Answer{}, errOvertaken
	}
	if err != nil {
		return answer, err
	}
	if p := c.payment; answer.Check.Approval != nil && p.Wait > 0 && !p.waited {
		p.facts.Check = answer.Check
		return Answer{}, errWaitForPeople
	}
	err = a.showChecked(ctx, c, &answer)
	return answer, err
}
