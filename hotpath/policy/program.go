package policy

import (
	"time"
	"unsafe"

	"spendgate/audit/spend"
)

// defaultWindow is the duplicate guard's without a duplicate_guard rule (S17).
const defaultWindow = 5 * time.Minute

// Program is one compiled version of a policy. It never changes, so any number
// of goroutines may use it.
type Program struct {
	policyID string
	version  int
	rules    []rule    // in the policy's order, without duplicate_guard and budget rules
	budgets  []*budget // in the policy's order
	guard    guardSettings
	guards   []rule // the duplicate_guard rules, if one has conditions: then guard is that of a policy without any
	caps     []int  // where rules has max_amount, if one of these has conditions
	redeem   spend.RedeemTerms
	size     int
}

// SetRedeemTerms sets the policy's terms of redemption, before the Program is used.
func (p *Program) SetRedeemTerms(t spend.RedeemTerms) { p.redeem = t }

// RedeemTerms returns the policy's terms of redemption.
func (p *Program) RedeemTerms() spend.RedeemTerms { return p.redeem }

// Version returns the policy's version.
func (p *Program) Version() int { return p.version }

const (
	// ruleOverhead is the most memory that a rule takes beside its own struct and texts: its
	// condition, and the rounding of each allocation.
	ruleOverhead = 256
	// programOverhead is the same for a whole program.
	programOverhead = 512
)

// Size returns how many bytes of memory the Program takes, or somewhat more.
func (p *Program) Size() int { return p.size }

func (p *Program) measure() int {
	size := programOverhead + len(p.policyID) + len(p.guard.id) + len(p.guard.description) + len(p.caps)*8
	for i := range p.guards {
		size += p.guards[i].size()
	}
	for i := range p.rules {
		r := &p.rules[i]
		size += r.size()
		if listed, ok := r.condition.(interface{ size() int }); ok {
			size += listed.size()
		}
	}
	size += p.measureBudgets()
	return size + size/8 // of large allocations, too, an eighth can be slack
}

// size returns the memory of a rule without the lists of its condition.
func (r *rule) size() int {
	return int(unsafe.Sizeof(*r)) + ruleOverhead + len(r.id) + len(r.description) + r.approval.size() + r.when.size()
}

// Finding is the result of Evaluate, from which Explain renders the texts. It has no text of its own
// and is valid only with the Program that found it.
type Finding struct {
	Effect     spend.Effect
	Confidence spend.Confidence
	Reason     spend.Reason // empty on allow

	rule    int      // index of the rule that fired
	over    *overrun // set instead when a budget fired
	at      moment   // when the action was evaluated
	skipped bool     // an applicable rule lacked context and was skipped
}

// Evaluate judges an action whose type is resolved, by the clock now. It is
// pure and allocates nothing. The duplicate guard is not part of it.
func (p *Program) Evaluate(a *spend.Action, r spend.Resolution, now time.Time) Finding {
	return p.EvaluateLifting(a, r, now, nil)
}

// EvaluateLifting is Evaluate, except that the escalations of those rules do not
// count: people approved them.
func (p *Program) EvaluateLifting(a *spend.Action, r spend.Resolution, now time.Time, lift []spend.EscalatedRule) Finding {
	if r.Type == spend.Unspecified {
		// No rule judges it, so it would be allowed.
		panic("BUG: action judged before its type was resolved")
	}
	at := momentOf(now)
	found, skipped := Finding{Effect: spend.Allow, Confidence: r.Confidence, at: at}, false
	capped := p.caps == nil
	for i := range p.rules {
		rule := &p.rules[i]
		effect, reason := rule.fire(a, r.Type, at)
		if !capped && effect < spend.Block && rule.isCap() && rule.applies(a, r.Type) {
			if capped = true; !p.covers(a, r.Type) {
				effect, reason = spend.Block, spend.ReasonCurrencyNotCovered
			}
		}
		if effect <= found.Effect { // an earlier escalation stands (S14)
			skipped = skipped || reason == spend.ReasonRequiredContextMissed && effect == spend.Allow
			continue
		}
		if lift != nil && effect == spend.Escalate && rule.lifted(lift) {
			continue
		}
		found = Finding{Effect: effect, Confidence: rule.confidence(r), Reason: reason, rule: i, at: at}
		if effect == spend.Block {
			return found
		}
	}
	if found.Effect == spend.Allow && skipped {
		found.skipped = true
		found.Confidence = min(found.Confidence, spend.Medium)
	}
	return found
}

// applies reports whether the policy has the rule for an action of that type (S88).
func (r *rule) applies(a *spend.Action, t spend.ActionType) bool {
	return r.types.has(t) && r.when.judge(a) == matches
}

// fire returns the effect of a rule on an action, and the reason: Allow if it does not fire, with a
// reason if it was skipped because a field is missing.
func (r *rule) fire(a *spend.Action, t spend.ActionType, at moment) (spend.Effect, spend.Reason) {
	if !r.types.has(t) {
		return spend.Allow, spend.ReasonNone
	}
	if r.when != nil {
		switch r.when.judge(a) {
		case matches:
		case lacks:
			if c, ok := r.condition.(interface{ inCurrency(a *spend.Action) bool }); ok && !c.inCurrency(a) {
				return spend.Allow, spend.ReasonNone // it judges no other currency
			}
			return r.when.onMissing, spend.ReasonRequiredContextMissed
		case differs:
			return spend.Allow, spend.ReasonNone
		}
	}
	switch reason := r.judge(a, at); reason {
	case spend.ReasonNone:
		return spend.Allow, reason
	case spend.ReasonRequiredContextMissed:
		return r.onMissing, reason
	default:
		return r.effect, reason
	}
}
