package hotpath

import (
	"context"
	"errors"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/policy"
)

// Simulate judges the actions against the latest version of a policy and
// writes nothing but the rate counter (G10). Recorded fingerprints and equal
// actions earlier in the batch make duplicates, as they would in real checks.
// The checks are in the order of the actions and are not stored. The caller was
// admitted. Errors: a ForbiddenError, ErrPolicyNotFound, ErrUnavailable.
func (a *Authorizer) Simulate(
	ctx context.Context, r Request, policyID string, actions []*spend.Action,
) (checks []*spend.Check, policyVersion int, err error) {
	for _, action := range actions {
		if err := r.Access.permitAction(policyID, action.AgentID); err != nil {
			return nil, 0, err
		}
	}
	program, err := a.catalog.program(policyID)
	if err != nil {
		return nil, 0, err
	}
	checks, err = a.simulate(ctx, r, program, actions)
	return checks, program.Version(), err
}

// TryRules judges the actions as Simulate does, but by rules that are not stored, as if they
// were the next version of the policy, which need not exist. They are what who may write
// policies may try: others are told so, whatever their rules are. The faults that were found in
// the rest of the request, and those of the rules, are returned together as spend.Faults. Errors: a ForbiddenError, ErrUnavailable,
// ErrOverloaded.
func (a *Authorizer) TryRules(
	ctx context.Context, r Request, policyID, rules string, actions []*spend.Action, faults spend.Faults,
) (checks []*spend.Check, policyVersion int, err error) {
	// Whoever may not is refused before their rules cost anything.
	if err := r.Access.permit(spend.PoliciesWrite); err != nil {
		return nil, 0, err
	}
	if spend.ValidPolicyID(policyID) && !r.Access.SeesPolicy(policyID) {
		return nil, 0, r.Access.notThis("policy_id", r.Access.key.Grants.PolicyIDs)
	}
	program, err := a.tried(ctx, policyID, rules, faults)
	if err != nil {
		return nil, 0, err
	}
	for _, action := range actions {
		if err := r.Access.permitAction(policyID, action.AgentID); err != nil {
			return nil, 0, err
		}
	}
	checks, err = a.simulate(ctx, r, program, actions)
	return checks, program.Version(), err
}

// tried compiles rules as the next version of a policy. Their budgets go on counting what
// those of the version in force count that mean the same (S37).
func (a *Authorizer) tried(ctx context.Context, policyID, rules string, faults spend.Faults) (*policy.Program, error) {
	ctx, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	live := new(audit.Policy)
	if spend.ValidPolicyID(policyID) {
		switch found, err := a.store.Policy(ctx, policyID, 0); {
		case err == nil:
			live = found
		case !errors.Is(err, audit.ErrNotFound):
			return nil, fmt.Errorf("%w: cannot read policy %s: %w", ErrUnavailable, policyID, err)
		}
	}
	if err := a.catalog.compiles.take(ctx); err != nil {
		return nil, fmt.Errorf("%w: too many policies are compiled: %w", ErrOverloaded, err)
	}
	defer a.catalog.compiles.free()
	p := policy.Compile(policyID, live.Version+1, rules, &faults)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	since := make(map[string]policy.BudgetSince)
	for id, s := range audit.CountSince(p.BudgetIdentities(), live.Budgets, live.Version+1, a.now()) {
		since[id] = policy.BudgetSince{Version: s.Version, At: s.At}
	}
	p.CountSince(since)
	return p, nil
}

// simulate judges the actions by a program.
func (a *Authorizer) simulate(ctx context.Context, r Request, program *policy.Program, actions []*spend.Action) ([]*spend.Check, error) {
	types := make([]spend.Resolution, len(actions))
	fingerprints := make([]spend.Hash, len(actions))
	for i, action := range actions {
		types[i] = a.resolve(action)
		fingerprints[i] = spend.FingerprintOf(action, types[i].Type)
	}
	seen, err := a.guard.Peek(ctx, fingerprints, program.JudgesAgain())
	if err != nil {
		return nil, err
	}
	if !r.Caller.keyed { // a stranger is told no check that was recorded
		for fingerprint, earlier := range seen {
			earlier.CheckID = spend.ID{}
			seen[fingerprint] = earlier
		}
	}
	return a.judgeAll(ctx, r, program, actions, types, fingerprints, seen)
}

// judgeAll judges the batch in order; each pass leaves its fingerprint to the
// rest of the batch.
func (a *Authorizer) judgeAll(
	ctx context.Context, r Request, p *policy.Program, actions []*spend.Action, types []spend.Resolution, fingerprints []spend.Hash,
	seen map[spend.Hash]guard.Seen,
) ([]*spend.Check, error) {
	now := a.now()
	var usages map[spend.Counter]spend.Usage
	if p.HasBudgets() && r.Caller.keyed { // a stranger could find out what was used
		var err error
		if usages, err = a.countersOf(ctx, p, actions, types, r.Access, now); err != nil {
			return nil, err
		}
	}
	explain := p.Explain
	if !r.Caller.keyed {
		explain = p.ExplainAnonymous
	}
	checks := make([]*spend.Check, len(actions))
	for i, action := range actions {
		check := &spend.Check{
			ID: spend.NewID(now), Action: *action, ActionType: types[i].Type, RequestID: r.ID,
			Fingerprint: fingerprints[i],
		}
		earlier, duplicate := seen[fingerprints[i]]
		if duplicate && earlier.Age < p.Window() {
			check.Decision = p.Duplicate(earlier.CheckID, types[i])
		} else {
			found := p.Evaluate(action, types[i], now)
			if p.HasBudgets() && found.Effect != spend.Block {
				found = p.EvaluateBudgets(found, action, types[i], p.Charges(nil, action, types[i], r.Access.principal(), now), usages)
			}
			check.Decision = explain(found, action, types[i])
			if d := &check.Decision; !d.Exceeded() && (d.Effect != spend.Block || !p.JudgesAgain()) {
				seen[fingerprints[i]] = guard.Seen{CheckID: check.ID}
			}
		}
		check.LatencyMS = a.now().Sub(r.Started).Milliseconds()
		checks[i] = check
	}
	return checks, nil
}
