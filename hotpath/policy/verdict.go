package policy

import "spendgate/audit/spend"

// GuardRuleID returns the rule that is reported of a duplicate (S17).
func (p *Program) GuardRuleID() string { return p.guard.id }

// RuleID returns the rule that a Finding of this Program reports; empty of an allow.
func (p *Program) RuleID(f Finding) string {
	if f.Effect == spend.Allow {
		return ""
	}
	return p.fired(f).id
}
