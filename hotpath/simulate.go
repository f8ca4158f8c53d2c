package hotpath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// Trial is a simulation by rules that are not stored.
type Trial struct {
	PolicyID string
	Rules    string // JSON
	Actions  []*spend.Action
	Faults   spend.Faults // that were found in all but the rules
}

// TryRules judges the actions as Simulate does, but by rules that are not stored, as if they were the
// next version of the policy, which need not exist. Only callers who may write policies may try rules;
// others are refused whatever the rules are. The faults of the trial, and faults of the rules, are
// returned together as spend.Faults. Errors: a ForbiddenError, ErrUnavailable, ErrOverloaded.
func (a *Authorizer) TryRules(ctx context.Context, r Request, t Trial) (checks []*spend.Check, policyVersion int, err error) {
	// A caller without the right is refused before the rules are compiled.
	if err := r.Access.permit(spend.PoliciesWrite); err != nil {
		return nil, 0, err
	}
	if spend.ValidPolicyID(t.PolicyID) && !r.Access.SeesPolicy(t.PolicyID) {
		return nil, 0, r.Access.notThis("policy_id", r.Access.key.Grants.PolicyIDs)
	}
	program, err := a.tried(ctx, t)
	if err != nil {
		return nil, 0, err
	}
	for _, action := range t.Actions {
		if err := r.Access.permitAction(t.PolicyID, action.AgentID); err != nil {
			return nil, 0, err
		}
	}
	checks, err = a.simulate(ctx, r, program, t.Actions)
	return checks, program.Version(), err
}

// tried compiles rules as the next version of a policy. Their budgets continue the counters of budgets
// of the version in force that mean the same (S37).
func (a *Authorizer) tried(ctx context.Context, t Trial) (*policy.Program, error) {
	ctx, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	live := new(audit.Policy)
	if spend.ValidPolicyID(t.PolicyID) {
		switch found, err := a.store.Policy(ctx, t.PolicyID, 0); {
		case err == nil:
			live = found
		case !errors.Is(err, audit.ErrNotFound):
			return nil, fmt.Errorf("%w: cannot read policy %s: %w", ErrUnavailable, t.PolicyID, err)
		}
	}
	p, err := a.catalog.compileRules(ctx, t.PolicyID, live.Version+1, t.Rules, &t.Faults)
	if err != nil {
		return nil, err
	}
	if err := t.Faults.Err(); err != nil {
		return nil, err
	}
	p.CountSince(audit.CountSince(p.BudgetIdentities(), live.Budgets, live.Version+1, a.now()))
	return p, nil
}

// simulation is a batch of actions that a program judges and nothing records.
type simulation struct {
	request      Request
	program      *policy.Program
	actions      []*spend.Action
	payments     []spend.Hash       // of the actions; zero for none
	types        []spend.Resolution // of the actions
	fingerprints []spend.Hash       // of the actions
}

// seen has the checks that an action repeats, by its fingerprint: first those that it repeats whatever their decision is,
// then those for an action that is judged again after a block (S60).
type seen [2]passes

// passes are the latest passes, by fingerprint.
type passes map[spend.Hash]guard.Seen

// leave adds a pass in front of the one that it succeeds.
func (p passes) leave(fingerprint spend.Hash, left guard.Seen) {
	if before, ok := p[fingerprint]; ok {
		left.Behind = &before
	}
	p[fingerprint] = left
}

func (s *seen) of(judgesAgain bool) passes {
	if judgesAgain {
		return s[1]
	}
	return s[0]
}

// simulate judges the actions by a program.
func (a *Authorizer) simulate(ctx context.Context, r Request, program *policy.Program, actions []*spend.Action) ([]*spend.Check, error) {
	s := simulation{
		request: r, program: program, actions: actions,
		types: make([]spend.Resolution, len(actions)), fingerprints: make([]spend.Hash, len(actions)),
	}
	for i, action := range actions {
		s.types[i] = a.resolve(action)
		s.fingerprints[i] = spend.FingerprintOf(action, s.types[i].Type)
	}
	var peeked seen
	for i, judgesAgain := range []bool{false, true} {
		var of []spend.Hash
		for k, action := range actions {
			if _, again := program.Guard(action, s.types[k].Type); again == judgesAgain {
				of = append(of, s.fingerprints[k])
			}
		}
		peeked[i] = make(passes)
		if of == nil {
			continue
		}
		var err error
		if peeked[i], err = a.guard.Peek(ctx, of, judgesAgain); err != nil {
			return nil, err
		}
		if err := a.payingFor(ctx, &s, peeked[i], judgesAgain); err != nil {
			return nil, err
		}
		if r.Caller.keyed {
			continue
		}
		for fingerprint, earlier := range peeked[i] { // a caller without a key learns of no recorded check
			earlier.CheckID = spend.ID{}
			peeked[i][fingerprint] = earlier
		}
	}
	return a.judgeAll(ctx, &s, &peeked)
}

// payingFor names the payments of the actions, and of the checks that left their fingerprints: a check of the same payment
// makes no action a duplicate (S84), and one behind it may.
func (a *Authorizer) payingFor(ctx context.Context, s *simulation, seen passes, judgesAgain bool) error {
	s.payments = make([]spend.Hash, len(s.actions))
	var left []spend.ID
	for i, key := range s.request.PaymentKeys {
		if key == "" || !s.request.Caller.keyed {
			continue
		}
		s.payments[i] = s.request.Access.Payment(key)
		if earlier, ok := seen[s.fingerprints[i]]; ok {
			left = append(left, earlier.CheckID)
		}
	}
	for left != nil {
		checks, err := a.toShow.GetAll(ctx, left)
		if err != nil {
			return err
		}
		left = nil
		for fingerprint, earlier := range seen {
			last := &earlier
			for last.Behind != nil {
				last = last.Behind
			}
			check := checks[last.CheckID]
			if check == nil {
				continue
			}
			last.Payment = check.PaymentHash()
			if slices.Contains(s.payments, last.Payment) && !last.Payment.IsZero() {
				behind, ok, err := a.guard.PeekBehind(ctx, fingerprint, last.CheckID, judgesAgain)
				if err != nil {
					return err
				}
				if ok {
					last.Behind, left = &behind, append(left, behind.CheckID)
				}
			}
			seen[fingerprint] = earlier
		}
	}
	return nil
}

// judgeAll judges the batch in order; each pass leaves its fingerprint to the rest of the batch.
func (a *Authorizer) judgeAll(ctx context.Context, s *simulation, seen *seen) ([]*spend.Check, error) {
	r, p, now := &s.request, s.program, a.now()
	var usages map[spend.Counter]spend.Usage
	if p.HasBudgets() && r.Caller.keyed { // a caller without a key could learn the usage
		var err error
		if usages, err = a.countersOf(ctx, s, now); err != nil {
			return nil, err
		}
	}
	explain := p.Explain
	if !r.Caller.keyed {
		explain = p.ExplainAnonymous
	}
	view := a.catalog.view()
	checks := make([]*spend.Check, len(s.actions))
	for i, action := range s.actions {
		resolution, fingerprint := s.types[i], s.fingerprints[i]
		check := &spend.Check{
			ID: spend.NewID(now), Action: *action, ActionType: resolution.Type, RequestID: r.ID,
			Fingerprint: fingerprint,
		}
		window, judgesAgain := p.Guard(action, resolution.Type)
		earlier, duplicate := seen.of(judgesAgain)[fingerprint]
		payment := s.payments[i]
		for duplicate && !payment.IsZero() && earlier.Payment == payment {
			if duplicate = earlier.Behind != nil; duplicate {
				earlier = *earlier.Behind
			}
		}
		if duplicate && earlier.Age < window {
			check.Decision = p.Duplicate(earlier.CheckID, action, resolution)
		} else {
			found := p.Evaluate(action, resolution, now)
			if p.HasBudgets() && found.Effect != spend.Block {
				charges := p.Charges(nil, action, resolution, r.Access.principal(), now)
				for j := range charges {
					if _, readable := usages[charges[j].Counter]; readable {
						view.raise(charges[j:j+1], now)
					}
				}
				found = p.EvaluateBudgets(found, action, resolution, charges, usages)
			}
			check.Decision = explain(found, action, resolution)
			if d := &check.Decision; !d.Exceeded() {
				left := guard.Seen{CheckID: check.ID, Payment: payment}
				if d.Effect != spend.Block || payment.IsZero() {
					seen[0].leave(fingerprint, left)
				}
				if d.Effect != spend.Block {
					seen[1].leave(fingerprint, left)
				}
			}
		}
		if !payment.IsZero() {
			check.Decision.NextStep = nextOfPayment(check)
		}
		check.LatencyMS = a.now().Sub(r.Started).Milliseconds()
		checks[i] = check
	}
	return checks, nil
}

// countersOf reads the present counters of the actions' charges. Those that the caller may not read
// (S38) count as unused.
func (a *Authorizer) countersOf(ctx context.Context, s *simulation, at time.Time) (map[spend.Counter]spend.Usage, error) {
	access := s.request.Access
	var charges []spend.Charge
	for i, action := range s.actions {
		charges = s.program.Charges(charges, action, s.types[i], access.principal(), at)
	}
	var counters []spend.Counter
	for i := range charges {
		if !slices.Contains(counters, charges[i].Counter) {
			counters = append(counters, charges[i].Counter)
		}
	}
	if counters == nil {
		return nil, nil
	}
	found, err := a.store.CounterUsages(ctx, counters)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the counters of budgets: %w", ErrUnavailable, err)
	}
	readable, err := a.readableOf(ctx, access, counters)
	if err != nil {
		return nil, err
	}
	usages := make(map[spend.Counter]spend.Usage, len(counters))
	for i, counter := range counters {
		if readable == nil || slices.Contains(readable, counter.ID) {
			usages[counter] = found[i]
		}
	}
	return usages, nil
}

// readableOf returns the counters whose usage the caller may read; nil is all.
func (a *Authorizer) readableOf(ctx context.Context, access Access, counters []spend.Counter) ([]spend.ID, error) {
	own := access.own()
	if own == "" {
		return nil, nil
	}
	ids := make([]spend.ID, len(counters))
	for i, c := range counters {
		ids[i] = c.ID
	}
	met, err := a.store.CountersMet(ctx, own, ids)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the counters of budgets: %w", ErrUnavailable, err)
	}
	return append([]spend.ID{}, met...), nil
}
