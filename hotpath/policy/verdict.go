package policy

import "spendgate/audit/spend"

// GuardRuleID returns the rule that is reported of a duplicate of the action (S17).
func (p *Program) GuardRuleID(a *spend.Action, t spend.ActionType) string {
	g := p.guardOf(a, t)
	return g.id
}

// RuleID returns the rule that a Finding of this Program reports; empty of an allow.
func (p *Program) RuleID(f Finding) string {
	if f.Effect == spend.Allow {
		return ""
	}
	return p.fired(f).id
}
