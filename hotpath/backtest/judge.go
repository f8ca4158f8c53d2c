package backtest

import (
	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/report"
)

// judge decides a check as a node does, by the state of one side: the duplicate guard, the rules, then
// the budgets. asked is the check whose approval it uses, or nil.
func (e *Engine) judge(side int, p *policy.Program, c *spend.Check, asked *asking) (j judgement) {
	upTo := spend.Block
	window, judgesAgain := p.Guard(&c.Action, c.ActionType)
	var lift []spend.EscalatedRule // the escalations that people approved
	if asked != nil {
		lift = asked.rules[side]
	}
	switch {
	case asked != nil:
		upTo = spend.Allow
	case judgesAgain:
		upTo = spend.Escalate
	}
	if e.passes.repeats(c, side, window, upTo) {
		j.repeats = true
		j.Verdict = report.Verdict{Effect: spend.Block, Reason: spend.ReasonDuplicate, RuleID: p.GuardRuleID(&c.Action, c.ActionType)}
		return j
	}
	r := resolutionOf(c)
	for {
		found, exceeded := e.byRules(&j, side, p, c, lift)
		if found.Effect == spend.Escalate && lift != nil {
			lift = nil
			continue
		}
		if found.Effect == spend.Escalate {
			j.asks = p.Asks(&c.Action, r, c.ID.Time(), j.charges, exceeded)
		}
		j.Verdict = report.Verdict{Effect: found.Effect, Reason: found.Reason, RuleID: p.RuleID(found)}
		return j
	}
}

// expires returns when an approval that a side asked for expires, on the terms of that side. People
// decided when they did, which may be too late for this side; where history asked nobody, nobody
// decides. An approval that was withdrawn ends then. 0 means never, also for an approval that was denied or used.
func (r *Record) expires(terms *spend.ApprovalRequest) int64 {
	a := r.Approval
	switch {
	case terms == nil, a == nil && r.Check.Approval != nil:
		return 0
	case a == nil:
		return r.Check.Timestamp().Add(terms.Expires).UnixMilli()
	}
	own, ends, decided := a.Check.Approval, a.CreatedAt.Add(terms.Expires), a.ApprovedAt
	for i := range a.Decisions {
		if d := &a.Decisions[i]; !d.Approves {
			decided = d.At
		}
	}
	if a.Status == audit.ApprovalWithdrawn {
		if !decided.IsZero() && decided.Before(ends) {
			ends = decided.Add(terms.UseWithin)
		}
		return min(ends.UnixMilli(), a.WithdrawnAt.UnixMilli())
	}
	// In history they were in time, whatever clocks say.
	if decided.IsZero() || terms.Expires < own.Expires && !decided.Before(ends) {
		return ends.UnixMilli()
	}
	if a.Status == audit.ApprovalDenied {
		return 0
	}
	ends = decided.Add(terms.UseWithin)
	if a.Status == audit.ApprovalUsed && (terms.UseWithin >= own.UseWithin || a.UsedBy.Time().Before(ends)) {
		return 0
	}
	return ends.UnixMilli()
}

// byRules evaluates rules and budgets once.
func (e *Engine) byRules(
	j *judgement, side int, p *policy.Program, c *spend.Check, lift []spend.EscalatedRule,
) (policy.Finding, map[int]spend.Usage) {
	j.charges = nil
	r := resolutionOf(c)
	found := p.EvaluateLifting(&c.Action, r, c.ID.Time(), lift)
	if !p.HasBudgets() || found.Effect == spend.Block {
		return found, nil
	}
	if uncovered, ok := p.Uncovered(found, &c.Action, r); ok {
		return uncovered, nil
	}
	j.charges = e.charges(p, c)
	p.Lift(j.charges, lift)
	var exceeded map[int]spend.Usage
	for i := range j.charges {
		charge := &j.charges[i]
		usage := e.taken[side].usage(charge)
		if charge.Fits(usage) {
			continue
		}
		if exceeded == nil {
			exceeded = make(map[int]spend.Usage)
		}
		exceeded[i] = usage
	}
	return p.Exceeded(found, r, j.charges, exceeded), exceeded
}

// charges returns what a check takes from the budgets of a version if it is allowed, with the grants of its time.
func (e *Engine) charges(p *policy.Program, c *spend.Check) []spend.Charge {
	charges := p.Charges(nil, &c.Action, resolutionOf(c), c.PrincipalName(), c.ID.Time())
	for i := range charges {
		if e.o.Grants == nil {
			break
		}
		by := e.o.Grants.Given(&charges[i], c.Fence.Stops, c.ID.Time())
		charges[i].Grant(by.Used, by.Count, by.Raised)
	}
	return charges
}

// resolutionOf returns the type of a check's action. Whether the type was inferred changes the
// confidence of a decision, not the decision.
func resolutionOf(c *spend.Check) spend.Resolution {
	return spend.Resolution{Type: c.ActionType, Confidence: spend.High}
}

// counting leaves out charges of budgets that continue an earlier version's counters from before From,
// for checks that earlier versions judged.
func (*Engine) counting(c *spend.Check, charges []spend.Charge) []spend.Charge {
	for i := range charges {
		if charges[i].Since <= c.Decision.PolicyVersion {
			continue
		}
		kept := make([]spend.Charge, 0, len(charges))
		for k := range charges {
			if charges[k].Since <= c.Decision.PolicyVersion {
				kept = append(kept, charges[k])
			}
		}
		return kept
	}
	return charges
}

// take takes charges on one side.
func (e *Engine) take(side int, charges []spend.Charge) []spend.Charge {
	for i := range charges {
		e.taken[side].take(&charges[i])
	}
	return charges
}
