package hotpath

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/policy"
)

const (
	// defaultShadowTimeout bounds how long a check waits for its draft's counters.
	defaultShadowTimeout = 100 * time.Millisecond
	// shadowPause is how long nothing is asked after that failed, so that a slow store
	// costs few checks that time.
	shadowPause = time.Second
	// shadowsAtOnce bounds the connections that drafts use beside the checks' own.
	shadowsAtOnce = 2
)

// draft is a draft of a policy as a node has it in memory.
type draft struct {
	generation int64
	begun      time.Time       // by the clock of the node that stored it
	program    *policy.Program // nil when it does not compile
}

// shadows judges checks by drafts.
type shadows struct {
	store   audit.Drafts
	timeout time.Duration // of one question to the store
	places  permits
	resume  atomic.Int64 // when the store is asked again, in Unix nanoseconds
}

func newShadows(store audit.Drafts, timeout time.Duration) *shadows {
	return &shadows{store: store, timeout: timeout, places: make(permits, shadowsAtOnce)}
}

// shadow judges a check by the draft of its policy, once for all tries to record it.
// Whatever fails costs the verdict and nothing else.
func (a *Authorizer) shadow(ctx context.Context, c *checking, live *inForce, check *spend.Check, out guard.ClaimResult) {
	d := live.draft
	if d == nil {
		return
	}
	if c.shadow == nil || c.shadow.Draft != d.generation {
		j := judged{resolution: c.resolution, out: out, approved: c.approved != nil}
		var asked *spend.Shadow // the draft's judgement of the check that asked people
		if j.approved {
			j.lift, asked = c.approved.Check.Approval.Rules, c.approved.Check.Shadow
		}
		if asked != nil && asked.Draft == d.generation && asked.Without == "" && asked.Effect == spend.Allow {
			c.shadow = &spend.Shadow{Draft: d.generation, Without: spend.LackNeed} // it took what this check would take
		} else {
			c.shadow = a.shadows.judge(ctx, live, check, j)
		}
	}
	check.Shadow = c.shadow
}

// judged is what the version in force knew about a check.
type judged struct {
	resolution spend.Resolution
	out        guard.ClaimResult
	lift       []spend.EscalatedRule // that people approved
	approved   bool
}

func (s *shadows) judge(ctx context.Context, live *inForce, check *spend.Check, j judged) (shadow *spend.Shadow) {
	d := live.draft
	defer func() {
		if broken := recover(); broken != nil {
			shadow = &spend.Shadow{Draft: d.generation, Without: spend.LackFailure}
		}
	}()
	if d.program == nil {
		return &spend.Shadow{Draft: d.generation, Without: spend.LackFailure}
	}
	shadow, err := s.byRules(ctx, live, check, j)
	if err != nil {
		return &spend.Shadow{Draft: d.generation, Without: spend.LackCounters}
	}
	return shadow
}

// byRules decides as the draft would: the duplicate guard, the rules, then the budgets. An approval
// lifts the rules of the draft that mean the same.
func (s *shadows) byRules(ctx context.Context, live *inForce, check *spend.Check, j judged) (*spend.Shadow, error) {
	d := live.draft
	p := d.program
	repeats := j.out.Kind == guard.Duplicate
	counts := live.countsApart()
	if counts && repeats && !j.approved { // unless the draft's own window has it
		holder := j.out.Of.Time()
		repeats = holder.Before(d.begun) && check.Timestamp().Sub(holder) < p.Window()
	}
	if repeats {
		return d.duplicate(), nil
	}
	found := p.EvaluateLifting(&check.Action, j.resolution, check.Timestamp(), j.lift)
	if !counts {
		return d.verdict(found), nil
	}
	take := &audit.DraftTake{
		Draft: d.generation, Check: check.ID, Fingerprint: check.Fingerprint, Looks: !j.approved,
		UntilMS: check.Timestamp().Add(p.Window()).UnixMilli(),
	}
	if found.Effect != spend.Block {
		if uncovered, ok := p.Uncovered(found, &check.Action, j.resolution); ok {
			found = uncovered
		} else {
			take.Charges = p.Charges(nil, &check.Action, j.resolution, check.PrincipalName(), check.Timestamp())
			p.Lift(take.Charges, j.lift)
			take.Blocks = p.Blocking(take.Charges)
		}
	}
	take.Takes = found.Effect == spend.Allow
	take.Leaves = found.Effect != spend.Block || !p.JudgesAgain()
	taken, err := s.take(ctx, take)
	if err != nil {
		return nil, err
	}
	if !taken.Repeats.IsZero() {
		return d.duplicate(), nil
	}
	usages := make(map[int]spend.Usage, len(taken.Usages))
	for i, u := range taken.Usages {
		usages[i] = u
	}
	return d.verdict(p.Exceeded(found, j.resolution, take.Charges, usages)), nil
}

func (d *draft) duplicate() *spend.Shadow {
	return &spend.Shadow{Draft: d.generation, Effect: spend.Block, Reason: spend.ReasonDuplicate, RuleID: d.program.GuardRuleID()}
}

func (d *draft) verdict(found policy.Finding) *spend.Shadow {
	return &spend.Shadow{Draft: d.generation, Effect: found.Effect, Reason: found.Reason, RuleID: d.program.RuleID(found)}
}

// countsApart reports whether the draft needs counters and fingerprints of its own: without
// budgets, and with the duplicate guard of the version in force, it has the same duplicates.
func (l *inForce) countsApart() bool {
	p := l.draft.program
	return p.HasBudgets() || l.HasBudgets() || p.Window() != l.Window() || p.JudgesAgain() != l.JudgesAgain()
}

// take asks the store, in bounded time and not at all for a while after that failed.
func (s *shadows) take(ctx context.Context, t *audit.DraftTake) (audit.DraftTaken, error) {
	now := time.Now()
	if now.UnixNano() < s.resume.Load() {
		return audit.DraftTaken{}, fmt.Errorf("%w: it failed just now", ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.places.take(ctx); err != nil {
		return audit.DraftTaken{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer s.places.free()
	taken, err := s.store.JudgeDraft(ctx, t)
	if err != nil {
		s.resume.Store(time.Now().Add(shadowPause).UnixNano())
	}
	return taken, err
}
