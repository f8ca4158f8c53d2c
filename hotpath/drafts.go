package hotpath

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/report"
)

// ErrDraftNotFound means that a policy has no draft.
var ErrDraftNotFound = errors.New("the policy has no draft")

// PutDraft stores the draft of a policy, in place of the draft before. When it returns, every check of
// the policy that starts later on any node is judged by the draft as well. A draft with the same
// content and note as the current one changes nothing, so the request may be repeated. Errors: as for
// CreatePolicy, and ErrPolicyNotFound.
func (a *Authorizer) PutDraft(ctx context.Context, access Access, by audit.Actor, d *audit.Draft, faults spend.Faults) error {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	if _, err := a.catalog.compileRules(stored, d.PolicyID, 0, d.Rules, &faults); err != nil {
		return err
	}
	d.Changes = policy.CompileChanges(d.Changes, &faults)
	if err := faults.Err(); err != nil {
		return err
	}
	by = access.actor(a, by)
	switch before, err := a.store.Draft(stored, d.PolicyID); {
	case err == nil && sameDraft(before, d):
		*d = *before
		return a.guard.RaiseGeneration(ctx) // whoever stored the draft may have failed before raising
	case err != nil && !errors.Is(err, audit.ErrNotFound):
		return fmt.Errorf("%w: cannot read the draft of policy %s: %w", ErrUnavailable, d.PolicyID, err)
	}
	switch err := a.store.PutDraft(stored, by, d, a.now()); {
	case errors.Is(err, audit.ErrNotFound):
		return &PolicyNotFoundError{d.PolicyID}
	case errors.Is(err, audit.ErrPoliciesFull):
		return err
	case err != nil:
		return fmt.Errorf("%w: cannot store the draft of policy %s: %w", ErrUnavailable, d.PolicyID, err)
	}
	a.log.Info("draft put", "policy_id", d.PolicyID, "", &by)
	return a.guard.RaiseGeneration(ctx)
}

func sameDraft(a, b *audit.Draft) bool {
	return a.Name == b.Name && a.Description == b.Description && a.Rules == b.Rules && a.Metadata == b.Metadata && a.Redeem == b.Redeem &&
		a.Changes == b.Changes && a.Note == b.Note
}

// actor completes the actor by the caller's key, which is noted as used, or by the caller's session.
func (a Access) actor(au *Authorizer, by audit.Actor) audit.Actor {
	a.used().note(au.now())
	if a.key != nil {
		by.KeyID, by.Principal = a.key.name, a.principal()
	}
	if s := a.Session(); s != nil {
		by.Owner, by.Email = s.Grants.Owner, s.Email
	}
	return by
}

// Draft returns the draft of a policy. Errors: ErrPolicyNotFound, ErrDraftNotFound.
func (a *Authorizer) Draft(ctx context.Context, policyID string) (*audit.Draft, error) {
	d, err := a.store.Draft(ctx, policyID)
	if errors.Is(err, audit.ErrNotFound) {
		return nil, a.noDraft(ctx, policyID, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the draft of policy %s: %w", ErrUnavailable, policyID, err)
	}
	return d, nil
}

// noDraft reports what is missing: the draft, the policy, or, unless version is nil, the version that
// was to be replaced.
func (a *Authorizer) noDraft(ctx context.Context, policyID string, version *int) error {
	switch live, err := a.store.Policy(ctx, policyID, 0); {
	case errors.Is(err, audit.ErrNotFound):
		return &PolicyNotFoundError{policyID}
	case err != nil:
		return fmt.Errorf("%w: cannot read policy %s: %w", ErrUnavailable, policyID, err)
	case version != nil && *version != live.Version:
		return &audit.VersionError{Version: live.Version}
	}
	return ErrDraftNotFound
}

// DeleteDraft ends the draft of a policy on every node. Errors as Draft.
func (a *Authorizer) DeleteDraft(ctx context.Context, access Access, by audit.Actor, policyID string) error {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	by = access.actor(a, by)
	switch err := a.store.DeleteDraft(stored, by, policyID, a.now()); {
	case errors.Is(err, audit.ErrNotFound):
		return a.noDraft(stored, policyID, nil)
	case err != nil:
		return fmt.Errorf("%w: cannot delete the draft of policy %s: %w", ErrUnavailable, policyID, err)
	}
	a.log.Info("draft deleted", "policy_id", policyID, "", &by)
	return a.guard.RaiseGeneration(ctx)
}

// Promotion is a request to make a draft the next version.
type Promotion struct {
	PolicyID string
	Version  int         // that must be in force
	Hash     *spend.Hash // of the draft as it was read; nil takes the one that there is
	Drop     []string
	Note     string
}

// PromoteDraft makes the draft of a policy its next version, if the given version is in force, and
// ends the draft. It promotes the draft as it is now, if the approvals that the version requires were
// given (S80), or an admin overrides them. Errors: as for Draft and CreatePolicy, an
// audit.VersionError, and ErrOtherDraft.
func (a *Authorizer) PromoteDraft(ctx context.Context, access Access, by audit.Actor, p Promotion) (*audit.Policy, error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	d, err := a.store.Draft(stored, p.PolicyID)
	if errors.Is(err, audit.ErrNotFound) {
		return nil, a.noDraft(stored, p.PolicyID, &p.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the draft of policy %s: %w", ErrUnavailable, p.PolicyID, err)
	}
	if p.Hash != nil && *p.Hash != d.Hash {
		if err := a.noDraft(stored, p.PolicyID, &p.Version); !errors.Is(err, ErrDraftNotFound) {
			return nil, err
		}
		return nil, ErrOtherDraft
	}
	var faults spend.Faults
	compiled, err := a.catalog.compileRules(stored, d.PolicyID, 0, d.Rules, &faults)
	if err != nil {
		return nil, err
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	var made *audit.Policy
	by, err = a.unlessForced(stored, access, by, p.PolicyID, func(by audit.Actor) (bool, error) {
		var err error
		made, err = a.store.PromoteDraft(stored, by, audit.Promotion{
			PolicyID: p.PolicyID, Generation: d.Generation, Version: p.Version, Note: p.Note,
			Budgets: audit.NewBudgets{Identities: compiled.BudgetIdentities(), Drop: p.Drop},
		}, a.now())
		return made != nil && made.Forced, err
	})
	if errors.Is(err, audit.ErrNotFound) { // ended or replaced meanwhile
		return nil, a.noDraft(stored, p.PolicyID, &p.Version)
	}
	if refused := a.refusedPolicy(stored, access, p.PolicyID, p.Drop, err); refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot promote the draft of policy %s: %w", ErrUnavailable, p.PolicyID, err)
	}
	a.log.Info("draft promoted", "policy_id", p.PolicyID, "version", made.Version, "", &by)
	return made, a.guard.RaiseGeneration(ctx)
}

const (
	// A report covers the newest checks that the draft judged: at most so many, and only those that
	// are found in time, since no index selects them; an index would cost every check.
	maxShadowed    = 100_000
	reportTime     = time.Second
	reportPage     = 2000
	reportExamined = 10_000
	// maxDraftFlips is how many flips a report of a draft names: the newest.
	maxDraftFlips = 100
)

// DraftReport compares a draft's decisions with those made, for the checks that the draft judged.
type DraftReport struct {
	Draft    *audit.Draft
	Report   *report.Report
	Complete bool          // the report covers all checks that the draft judged
	Flips    []report.Flip // newest first
}

// PermitDraftReport refuses a key that may not read the checks of all agents.
func (a Access) PermitDraftReport() error {
	if a.key != nil && (a.key.Grants.AgentIDs != nil || a.own() != "") {
		return &ForbiddenError{"the key may not read the checks of all agents, and the report of a draft is about all of a policy's"}
	}
	return nil
}

// DraftReport compares the decisions of a policy's draft with the decisions made, for the checks that
// the draft judged. Errors: as for Draft.
func (a *Authorizer) DraftReport(ctx context.Context, policyID string) (*DraftReport, error) {
	d, err := a.Draft(ctx, policyID)
	if err != nil {
		return nil, err
	}
	r, tally, until := &DraftReport{Draft: d, Complete: true}, report.NewTally(), a.now()
	since := d.MadeAt
	// The clocks of nodes differ by less.
	q := audit.CheckQuery{
		PolicyID: policyID, Draft: d.Generation, From: since.Add(-time.Minute),
		Limit: reportPage, Examine: reportExamined,
	}
	for n, end := 0, time.Now().Add(reportTime); ; {
		page, err := a.store.ListChecks(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("%w: cannot read what a draft judged: %w", ErrUnavailable, err)
		}
		for _, c := range page.Checks {
			r.add(tally, c)
		}
		if !page.More {
			break
		}
		n += len(page.Checks)
		if q.Before = page.Next; n >= maxShadowed || time.Now().After(end) {
			r.Complete, since = false, q.Before.Time()
			break
		}
	}
	r.Report = tally.Report()
	r.Report.Flips.Listed = int64(len(r.Flips))
	r.Report.Coverage.From, r.Report.Coverage.To = report.Time(since), report.Time(until)
	days, err := a.store.ArchivedDays(ctx, since, until)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read which days are archived: %w", ErrUnavailable, err)
	}
	for _, day := range days {
		r.Report.Coverage.MissingDays = append(r.Report.Coverage.MissingDays, day.Day.Format(time.DateOnly))
	}
	return r, nil
}

func (r *DraftReport) add(tally *report.Tally, c *spend.Check) {
	if c.Shadow.Without != "" {
		tally.Skip(string(c.Shadow.Without))
		return
	}
	was := report.VerdictOf(&c.Decision)
	will := report.Verdict{Effect: c.Shadow.Effect, Reason: c.Shadow.Reason, RuleID: c.Shadow.RuleID}
	if tally.Add(&c.Action, was, will) && len(r.Flips) < maxDraftFlips {
		r.Flips = append(r.Flips, report.FlipOf(c, was, will))
	}
}
