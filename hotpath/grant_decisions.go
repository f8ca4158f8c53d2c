package hotpath

import (
	"context"
	"errors"
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// ApproveGrant records that the caller approves a grant that waits for people, and replayed if the same person approved it before.
// Errors: a *ForbiddenError, ErrGrantNotFound, ErrGrantNotActive, ErrGrantNotPending, ErrGrantOwn, ErrGrantOwnCheck.
func (a *Authorizer) ApproveGrant(
	ctx context.Context, access Access, by audit.Actor, id spend.ID, note string,
) (shown *GrantView, replayed bool, err error) {
	approve := func(ctx context.Context, v *view, access Access, g *audit.BudgetGrant) (audit.GrantChange, error) {
		c, err := a.approvalOf(v, access, g)
		if c.Note = note; err != nil || c.Terms == nil {
			return c, err
		}
		program, err := a.catalog.program(g.PolicyID)
		if err != nil {
			return c, err
		}
		return c, a.refuseOwnCheck(ctx, v, access, program, c.Terms, a.now())
	}
	return a.decideGrant(ctx, access, by, id, approve)
}

// approvalOf returns the caller's approval of a grant, before the checks of its counter are looked at; without terms if the same
// person has approved it.
func (a *Authorizer) approvalOf(v *view, access Access, g *audit.BudgetGrant) (audit.GrantChange, error) {
	c := audit.GrantChange{Kind: audit.GrantApproved, ID: g.ID}
	if err := access.mayGrant(); err != nil {
		return c, err
	}
	party, record := access.key.party(), v.record()
	caller := audit.Person{party, party}
	now := a.now()
	status, _ := a.statusOf(v, g, now)
	switch {
	case status == GrantRevoked, status == GrantEnded:
		return c, ErrGrantNotActive
	case caller.Shares(record.PersonOf(&g.By, asOfNow)):
		return c, ErrGrantOwn
	case slices.ContainsFunc(record.Approvers(g, asOfNow, now), caller.Shares):
		return c, nil
	case status == GrantOpen:
		return c, ErrGrantNotPending
	}
	c.Terms = &g.GrantTerms
	return c, nil
}

// RevokeGrant ends a grant, and says replayed if it was revoked before. An admin, and whoever may grant, may. Errors:
// ErrGrantNotFound, ErrGrantNotActive.
func (a *Authorizer) RevokeGrant(
	ctx context.Context, access Access, by audit.Actor, id spend.ID, note string,
) (shown *GrantView, replayed bool, err error) {
	return a.decideGrant(ctx, access, by, id, func(_ context.Context, _ *view, _ Access, g *audit.BudgetGrant) (audit.GrantChange, error) {
		c := audit.GrantChange{Kind: audit.GrantRevoked, ID: id, Note: note}
		switch {
		case g.Revoked != nil:
			return c, nil
		case !a.now().Before(g.Until):
			return c, ErrGrantNotActive
		}
		c.Terms = &g.GrantTerms // also where its granter's key may not grant: it may again
		return c, nil
	})
}

// decideGrant records the change of a grant that judge returns, and says replayed if that has no terms.
func (a *Authorizer) decideGrant(
	ctx context.Context, access Access, by audit.Actor, id spend.ID,
	judge func(context.Context, *view, Access, *audit.BudgetGrant) (audit.GrantChange, error),
) (shown *GrantView, replayed bool, err error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	_, err = a.changeGrant(ctx, access, by, func(stored context.Context, v *view, access Access) (audit.GrantChange, error) {
		g, err := a.readGrant(stored, access, id)
		if err != nil {
			return audit.GrantChange{}, err
		}
		c, err := judge(stored, v, access, g)
		replayed = err == nil && c.Terms == nil
		return c, err
	})
	if err != nil {
		return nil, false, err
	}
	g, err := a.store.BudgetGrant(stored, id)
	if err != nil {
		return nil, false, err
	}
	return a.viewGrant(g), replayed, nil
}

// GrantOf returns a grant that the caller may read.
func (a *Authorizer) GrantOf(ctx context.Context, access Access, id spend.ID) (*GrantView, error) {
	g, err := a.readGrant(ctx, access, id)
	if err != nil {
		return nil, err
	}
	return a.viewGrant(g), nil
}

func (a *Authorizer) readGrant(ctx context.Context, access Access, id spend.ID) (*audit.BudgetGrant, error) {
	g, err := a.store.BudgetGrant(ctx, id)
	if errors.Is(err, audit.ErrNotFound) {
		return nil, ErrGrantNotFound
	}
	if err != nil {
		return nil, err
	}
	seen, err := a.seesGrant(ctx, access, g)
	if err == nil && !seen {
		err = ErrGrantNotFound
	}
	return g, err
}

// seesGrant reports whether the caller may read a grant: as the counter that it raises (S38).
func (a *Authorizer) seesGrant(ctx context.Context, access Access, g *audit.BudgetGrant) (bool, error) {
	if !access.SeesPolicy(g.PolicyID) || g.AgentID != "" && !access.seesAgent(g.AgentID) {
		return false, nil
	}
	own := access.own()
	if own == "" {
		return true, nil
	}
	met, err := a.store.CountersMet(ctx, own, []spend.ID{g.Counter.ID})
	return len(met) > 0, err
}

// GrantQuery selects grants. Empty fields do not filter.
type GrantQuery struct {
	PolicyID, RuleID, AgentID string
	Status                    GrantStatus
	Before                    int64
	Limit                     int
}

// GrantPage is a page of grants. It may be short, or empty, while there are more.
type GrantPage struct {
	Grants []GrantView
	Next   int64 // the next page has only smaller numbers
	More   bool
}

// grantsExamined bounds how many grants a page looks at.
const grantsExamined = 10_000

// ListGrants returns a page of the grants that the caller may read, newest first.
func (a *Authorizer) ListGrants(ctx context.Context, access Access, q GrantQuery) (page GrantPage, err error) {
	of := audit.GrantQuery{Before: q.Before, Limit: openAtOnce}
	for range grantsExamined / openAtOnce {
		found, more, err := a.store.ListBudgetGrants(ctx, of)
		if err != nil {
			return page, err
		}
		for i := range found {
			g := &found[i]
			shown := a.viewGrant(g)
			matches := g.IsOf(q.PolicyID, q.AgentID) && (q.RuleID == "" || g.RuleID == q.RuleID) && (q.Status == "" || shown.Status == q.Status)
			if matches {
				if matches, err = a.seesGrant(ctx, access, g); err != nil {
					return page, err
				}
			}
			if page.More = matches && len(page.Grants) == q.Limit; page.More {
				return page, nil
			}
			if page.Next = g.Seq; matches {
				page.Grants = append(page.Grants, *shown)
			}
		}
		if of.Before = page.Next; !more {
			return page, nil
		}
	}
	page.More = true
	return page, nil
}
