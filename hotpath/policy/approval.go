package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// Approval is what a rule asks of people before what it escalated may pass.
type Approval struct {
	Required  int           // how many people must approve
	Expires   time.Duration // how long they may decide
	UseWithin time.Duration // how long it may be used after that
}

var approvalMembers = []Parameter{
	{Name: "required", Min: 1, Max: 5},
	{Name: "expires_minutes", Min: 1, Max: 30 * 24 * 60},
	{Name: "use_within_minutes", Min: 1, Max: 7 * 24 * 60},
}

// approval returns what the rule asks of people, nil when absent. A rule that does
// not escalate may not ask; why says when it may.
func (o *object) approval(escalates bool, why string) *Approval {
	raw := o.value("approval")
	if raw == nil {
		return nil
	}
	if !escalates {
		o.fault("approval", why)
	}
	p, ok := openObject(raw, o.path+".approval", approvalMembers, o.log)
	if !ok {
		return nil
	}
	a := &Approval{Required: 1, Expires: 24 * time.Hour, UseWithin: time.Hour}
	if n, given := p.integer("required"); given {
		a.Required = int(n)
	}
	if n, given := p.integer("expires_minutes"); given {
		a.Expires = time.Duration(n) * time.Minute
	}
	if n, given := p.integer("use_within_minutes"); given {
		a.UseWithin = time.Duration(n) * time.Minute
	}
	p.refuseOthers()
	return a
}

// text tells what is asked by meaning.
func (a *Approval) text() string {
	return fmt.Sprintf("approval %d %d %d", a.Required, a.Expires/time.Minute, a.UseWithin/time.Minute)
}

// identify sets what tells the rule from one with other parameters by meaning:
// only the escalation of the same rule is lifted (S47).
func (r *rule) identify(ruleType, parameters string) {
	meaning := ruleType + "\n" + r.approval.text() + "\n"
	switch c, isEscalateIf := r.condition.(*escalateIf); {
	case r.budget != nil:
		b := r.budget
		meaning += fmt.Sprintf("%s %v %s %v %d", b.identityIn(b.period.zone.String()), b.limited, b.limit, b.counted, b.maxCount)
	case isEscalateIf:
		meaning += c.above.String() + " " + r.types.String()
	default:
		hash := spend.HashJSON(parameters)
		meaning += hex.EncodeToString(hash[:])
	}
	r.identity = sha256.Sum256([]byte(meaning))
}

// lifted reports whether the rule is one of those whose escalation was approved.
func (r *rule) lifted(lift []spend.EscalatedRule) bool {
	return r.approval != nil && slices.Contains(lift, spend.EscalatedRule{RuleID: r.id, Identity: r.identity})
}

// Lift marks the charges of budgets whose escalation was approved.
func (p *Program) Lift(charges []spend.Charge, lift []spend.EscalatedRule) {
	for i := range charges {
		charges[i].Lifted = p.budgetNamed(charges[i].RuleID).rule.lifted(lift)
	}
}

// Asks returns what an action that was escalated asks of people: all rules that
// escalate it, the budgets without room among them, must ask for an approval; the
// most people and the shortest times hold (S42). It is nil when one does not ask.
func (p *Program) Asks(a *spend.Action, r spend.Resolution, now time.Time, charges []spend.Charge, exceeded map[int]spend.Usage) *spend.Approval {
	type escalation struct {
		rule  *rule
		place [2]int // in the policy's order: budgets come before the rule of their number
	}
	var fired []escalation
	at := weekMinuteOf(now)
	for i := range p.rules {
		if effect, _ := p.rules[i].fire(a, r.Type, at); effect == spend.Escalate {
			fired = append(fired, escalation{&p.rules[i], [2]int{i, 1}})
		}
	}
	for i := range charges {
		if usage, ok := exceeded[i]; ok && !charges[i].Fits(usage) {
			b := p.budgetNamed(charges[i].RuleID)
			fired = append(fired, escalation{&b.rule, [2]int{b.before, 0}})
		}
	}
	slices.SortStableFunc(fired, func(x, y escalation) int { return slices.Compare(x.place[:], y.place[:]) })
	var asked *spend.Approval
	for _, e := range fired {
		one := e.rule.approval
		if one == nil {
			return nil
		}
		if asked == nil {
			asked = &spend.Approval{Expires: one.Expires, UseWithin: one.UseWithin}
		}
		asked.Required = max(asked.Required, one.Required)
		asked.Expires, asked.UseWithin = min(asked.Expires, one.Expires), min(asked.UseWithin, one.UseWithin)
		asked.Rules = append(asked.Rules, spend.EscalatedRule{RuleID: e.rule.id, Identity: e.rule.identity})
	}
	return asked
}
