package job

import (
	"context"
	"errors"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/backtest"
	"spendgate/hotpath/policy"
)

// keepPrograms is how many versions are kept compiled: checks follow few at a time.
const keepPrograms = 8

// versions are the versions of a policy that judged its checks.
type versions struct {
	r        *run
	inForce  *policy.Program // at the beginning; nil before the first version
	budgets  map[string]spend.BudgetSince
	created  time.Time
	programs map[int]*policy.Program // nil of one that does not compile
	last     int
	current  *policy.Program // of last
	failed   error
}

// prepare compiles the candidate and finds out from when checks are needed.
func (r *run) prepare(ctx context.Context) (*policy.Program, error) {
	v := &r.versions
	v.r, v.programs = r, make(map[int]*policy.Program)
	if err := r.findJudged(ctx); err != nil {
		return nil, err
	}
	r.warmUp = r.judged
	if err := v.find(ctx); err != nil {
		return nil, err
	}
	stored := &audit.Policy{PolicyID: r.b.PolicyID, Rules: r.b.Rules}
	if r.b.Version != 0 {
		var err error
		if stored, err = v.read(ctx, r.b.Version); err != nil {
			return nil, err
		}
	}
	candidate := compile(stored)
	if candidate == nil {
		return nil, &failedError{"the candidate's rules do not compile"}
	}
	backtest.CountSince(candidate, v.budgets, v.created)
	r.needs(candidate)
	if r.warmUp.Before(v.created.Add(-time.Minute)) {
		r.warmUp = v.created.Add(-time.Minute)
	}
	return candidate, v.failed
}

func (r *run) needs(p *policy.Program) {
	if start := backtest.WarmUp(p, r.judged); start.Before(r.warmUp) {
		r.warmUp = start
	}
}

// findJudged finds from when on checks have to be judged: from the end of what is kept on, and before it as
// long as an approval that was asked for then may be used.
func (r *run) findJudged(ctx context.Context) error {
	r.judged = r.b.From
	if r.kept == nil {
		return nil
	}
	var longest time.Duration
	err := r.versions.each(ctx, func(p *audit.Policy) error {
		if program := r.versions.program(ctx, p.Version); program != nil {
			longest = max(longest, program.LongestApproval())
		}
		return nil
	})
	if start := time.Time(r.kept.Coverage.To).Add(-longest); start.After(r.judged) {
		r.judged = start
	}
	return err
}

// find looks for the versions in force while checks are judged, and for the one in force when the period
// begins.
func (v *versions) find(ctx context.Context) error {
	return v.each(ctx, func(p *audit.Policy) error {
		begins := !p.UpdatedAt.After(v.r.b.From)
		program := v.program(ctx, p.Version)
		if program != nil {
			v.r.needs(program)
		}
		if !begins {
			return nil
		}
		v.inForce = program
		stored, err := v.read(ctx, p.Version)
		if err == nil {
			v.budgets = stored.Budgets
		}
		return err
	})
}

// each visits the versions that were in force in the period, newest first.
func (v *versions) each(ctx context.Context, visit func(*audit.Policy) error) error {
	next := time.Time{} // when the version after was made
	for q := (audit.VersionQuery{PolicyID: v.r.b.PolicyID, Limit: 100}); ; {
		page, err := ask(ctx, func(ctx context.Context) (audit.PolicyPage, error) { return v.r.Store.PolicyVersions(ctx, q) })
		if errors.Is(err, audit.ErrNotFound) {
			return &failedError{"there is no such policy"}
		}
		if err != nil {
			return err
		}
		for i := range page.Policies {
			p := &page.Policies[i]
			q.Before, v.created = p.Version, p.CreatedAt
			before := p.UpdatedAt.After(v.r.b.To)
			after := !next.IsZero() && !next.After(v.r.b.From)
			if next = p.UpdatedAt; before || after {
				continue
			}
			if err := visit(p); err != nil {
				return err
			}
		}
		if !page.More {
			return v.failed
		}
	}
}

func (v *versions) read(ctx context.Context, version int) (*audit.Policy, error) {
	p, err := ask(ctx, func(ctx context.Context) (*audit.Policy, error) {
		return v.r.Store.Policy(ctx, v.r.b.PolicyID, version)
	})
	if errors.Is(err, audit.ErrNotFound) {
		return nil, &failedError{"there is no such version of the policy"}
	}
	return p, err
}

// program returns a version as it was in force, nil if there is none that compiles.
func (v *versions) program(ctx context.Context, version int) *policy.Program {
	if version == v.last {
		return v.current
	}
	p, known := v.programs[version]
	if !known {
		stored, err := v.read(ctx, version)
		if err != nil {
			if _, absent := errors.AsType[*failedError](err); !absent {
				v.failed = err
			}
			return nil
		}
		if p = compile(stored); p != nil {
			p.CountSince(stored.Budgets)
		}
		if len(v.programs) >= keepPrograms {
			clear(v.programs)
		}
		v.programs[version] = p
	}
	v.last, v.current = version, p
	return p
}

func compile(p *audit.Policy) *policy.Program {
	var faults spend.Faults
	return policy.CompileStored(p.PolicyID, p.Version, p.Rules, &faults)
}
