package hotpath

import (
	"context"
	"fmt"
	"strings"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/trace"
)

// How a check is judged, in the order of S35: judge makes it and has the guard's
// duplicate or the rules decide; judgeByRules, judgeByBudgets; decide writes the
// decision down. A commit that finds a budget without room comes back to judgeAgain.

// judge makes the check: by the rules, or as the duplicate that the guard found.
func (a *Authorizer) judge(
	ctx context.Context, c *checking, p *policy.Program, action *spend.Action, out guard.ClaimResult,
) (*spend.Check, error) {
	asker := c.identity.access.key
	check := &spend.Check{
		Action: *action, ActionType: c.resolution.Type,
		KeyID: asker.name, Principal: asker.Grants.Principal, Owner: asker.Grants.Owner, Namespace: c.attempt.Namespace, RequestID: c.request.ID,
		Fingerprint: c.attempt.Fingerprint, RequestSHA: c.attempt.RequestSHA,
	}
	a.guard.Stamp(&c.attempt, out, check)
	check.Fence.Stops = c.view.stops
	c.budgets, c.approved, c.lift = nil, nil, nil
	if f := a.frozenAction(c.view, c.identity.access, action, check.ID.Time()); f != nil {
		check.Decision.PolicyVersion = p.Version()
		freeze(c, check, f)
		check.LatencyMS = a.now().Sub(c.request.Started).Milliseconds()
		return check, nil
	}
	if !action.ApprovalID.IsZero() {
		var err error
		if c.approved, err = a.approvedFor(ctx, c.view, check); err != nil {
			return nil, err
		}
		if c.payment == nil && c.approved.Check.Payment != nil { // people approved that payment
			return nil, &audit.ApprovalError{Status: audit.ApprovalMismatch}
		}
		c.lift = c.approved.Check.Approval.Rules
	}
	now := a.now()
	c.request.Trace.Begin(trace.Evaluate, now)
	if out.Kind == guard.Duplicate {
		check.Decision = p.Duplicate(out.Of, action, c.resolution)
		sayHowToAsk(check)
		if out.Asks {
			if err := a.sayWhatWaits(ctx, c.identity.access, check, out.Of); err != nil {
				return nil, err
			}
		}
	} else {
		// At its timestamp (S5), so that the record bears its decision out.
		if err := a.judgeByRules(ctx, c, p, check); err != nil {
			return nil, err
		}
		if p.HasBudgets() { // which may ask the store
			now = a.now()
		}
	}
	check.LatencyMS = now.Sub(c.request.Started).Milliseconds()
	return check, nil
}

// judgeByRules decides a check by the rules of the policy. An escalation that was not approved asks
// again about all rules that escalate it.
func (a *Authorizer) judgeByRules(ctx context.Context, c *checking, p *policy.Program, check *spend.Check) error {
	for {
		found := p.EvaluateLifting(&check.Action, c.resolution, check.ID.Time(), c.lift)
		if p.HasBudgets() && found.Effect != spend.Block {
			var err error
			if found, err = a.judgeByBudgets(ctx, c, p, check, found); err != nil {
				return err
			}
		}
		if found.Effect == spend.Escalate && c.lift != nil {
			c.lift = nil
			continue
		}
		a.decide(c, p, check, found)
		return nil
	}
}

// judgeByBudgets decides by the budgets of a policy about checks that the other rules let pass (S35).
// The commit decides whether there is room. Only when a counter is known to be exhausted, all counters
// are read first: the first in the policy's order that has no room is reported (S14), which may be
// another one.
func (a *Authorizer) judgeByBudgets(
	ctx context.Context, c *checking, p *policy.Program, check *spend.Check, found policy.Finding,
) (policy.Finding, error) {
	c.budgets, check.Charges, check.Refused = nil, nil, nil
	if uncovered, ok := p.Uncovered(found, &check.Action, c.resolution); ok {
		return uncovered, nil
	}
	principal := check.PrincipalName()
	b := &budgeting{found: found, charges: p.Charges(nil, &check.Action, c.resolution, principal, check.ID.Time())}
	if len(b.charges) == 0 {
		return found, nil
	}
	p.Lift(b.charges, c.lift)
	c.view.raise(b.charges, check.ID.Time())
	if c.payment != nil && c.payment.replaces != nil {
		for i := range b.charges {
			b.charges[i].Free(c.payment.replaces.Charges)
		}
	}
	c.budgets = b
	if !a.exhausted.hasAny(b.charges) {
		return b.conclude(p, c.resolution, check), nil
	}
	usages, err := a.exhausted.usagesOf(ctx, b.charges)
	if err != nil {
		return found, err
	}
	for i := range b.charges {
		charge := &b.charges[i]
		if usage := charge.Before(usages[charge.Counter]); !charge.Fits(usage) {
			b.exceed(i, usage)
		} else {
			a.exhausted.remove(charge.Counter.ID)
		}
	}
	return b.conclude(p, c.resolution, check), nil
}

// judgeAgain judges a check again, with the same identity and claims, after its commit found no room
// for some of its charges.
func (a *Authorizer) judgeAgain(
	ctx context.Context, c *checking, p *policy.Program, refused *spend.Check, usages []audit.CounterUsage,
) (*spend.Check, error) {
	b := c.budgets
	known := len(b.exceeded)
	for _, u := range usages {
		a.exhausted.add(u.ID)
		for i := range b.charges {
			if b.charges[i].Counter == u.Counter {
				b.exceed(i, b.charges[i].Before(u.Usage))
			}
		}
	}
	if len(b.exceeded) == known {
		return nil, fmt.Errorf("%w: a commit refused charges that are not the check's", ErrUnavailable)
	}
	check := *refused
	if found := b.conclude(p, c.resolution, &check); found.Effect == spend.Escalate && c.lift != nil {
		c.lift = nil
		if err := a.judgeByRules(ctx, c, p, &check); err != nil {
			return nil, err
		}
	} else {
		a.decide(c, p, &check, found)
	}
	check.LatencyMS = a.now().Sub(c.request.Started).Milliseconds()
	return &check, nil
}

// decide writes the finding down as the decision of the check. An escalation asks people for their
// approval if all rules that escalate it do.
func (a *Authorizer) decide(c *checking, p *policy.Program, check *spend.Check, found policy.Finding) {
	check.Decision = p.Explain(found, &check.Action, c.resolution)
	check.Approval = nil
	if found.Effect == spend.Allow && c.approved != nil {
		check.Decision.Message += "; " + whatPeopleSaw(c.approved)
	}
	if check.Decision.Exceeded() {
		check.Pass = spend.Pass{} // the check leaves no fingerprint (S60)
	}
	sayHowToAsk(check)
	if found.Effect != spend.Escalate {
		return
	}
	var charges []spend.Charge
	var exceeded map[int]spend.Usage
	if c.budgets != nil {
		charges, exceeded = c.budgets.charges, c.budgets.exceeded
	}
	asked := p.Asks(&check.Action, c.resolution, check.ID.Time(), charges, exceeded)
	if asked == nil {
		return
	}
	asked.ActionHash = spend.ActionHash(check)
	check.Approval = asked
	check.Decision.NextStep = fmt.Sprintf("Pause. The action waits for approval %s by %s: pending is not approved. "+
		"Once it is approved, check the same action again with that approval_id, under the same idempotency key, "+
		"and proceed only if that is allowed.",
		check.ID.Text(spend.PrefixApproval), peopleOf(asked))
}

// sayHowToAsk tells whoever was blocked under an idempotency key that a repetition is not judged.
func sayHowToAsk(check *spend.Check) {
	if check.Decision.Effect == spend.Block && check.Action.IdempotencyKey != "" {
		check.Decision.NextStep += " Once the cause is mended, ask again under a new idempotency_key: under this one the answer stays."
	}
}

// maxRulesNamed bounds how many rules a message names.
const maxRulesNamed = 10

// whatPeopleSaw says in an allow by which version and rules its approval was asked for (S64):
// it was judged by the version in force, which may be another.
func whatPeopleSaw(approval *audit.Approval) string {
	var names []string
	rules := approval.Check.Approval.Rules
	for _, rule := range rules[:min(len(rules), maxRulesNamed)] {
		names = append(names, rule.RuleID)
	}
	more := ""
	if n := len(rules) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("people approved what version %d escalated by %s%s",
		approval.Check.Decision.PolicyVersion, strings.Join(names, ", "), more)
}

// peopleOf names the people whose approval is asked for.
func peopleOf(asked *spend.ApprovalRequest) string {
	var of []string
	for _, g := range asked.From {
		of = append(of, fmt.Sprintf("%d of %s", g.Required, g.Name()))
	}
	if n := asked.Anybody(); n > 0 {
		of = append(of, people(n))
	}
	return strings.Join(of, " and ")
}

func people(n int) string {
	if n == 1 {
		return "a person"
	}
	return fmt.Sprintf("%d people", n)
}

// budgeting is the state of judging one check by budgets.
type budgeting struct {
	found   policy.Finding // by the other rules
	charges []spend.Charge
	// exceeded has the usage of the counters that have no room, by the index of the charge.
	exceeded map[int]spend.Usage
}

func (b *budgeting) exceed(i int, usage spend.Usage) {
	if b.exceeded == nil {
		b.exceeded = make(map[int]spend.Usage)
	}
	b.exceeded[i] = usage
}

// conclude sets the charges that the check's commit has to meet, and returns the
// finding. An escalated check must have room in the budgets that did not escalate
// it (S35).
func (b *budgeting) conclude(p *policy.Program, r spend.Resolution, check *spend.Check) policy.Finding {
	found := p.Exceeded(b.found, r, b.charges, b.exceeded)
	check.Charges, check.Refused = nil, nil
	if len(b.exceeded) == 0 && found.Effect != spend.Block {
		check.Charges = b.charges
		return found
	}
	for i := range b.charges {
		if _, exceeded := b.exceeded[i]; exceeded {
			check.Refused = append(check.Refused, b.charges[i])
		} else if found.Effect != spend.Block {
			check.Charges = append(check.Charges, b.charges[i])
		}
	}
	return found
}
