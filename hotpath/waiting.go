package hotpath

import (
	"context"
	"errors"
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	// openAtOnce is how many approvals or drafts are read at once in search of matching ones.
	openAtOnce = 100
	// openAtMost bounds how many approvals are read for one response.
	openAtMost = 500
)

// Waiting is something that waits for a decision: an approval, the draft of a policy (S93), or a grant (S91). One is not nil.
type Waiting struct {
	Approval *audit.Approval
	Draft    *audit.Review
	Grant    *GrantView
}

// WaitingPlace is a place in the list of what waits: first the approvals and grants that expire soonest, then the drafts by policy.
type WaitingPlace struct {
	Approval audit.ApprovalPlace
	PolicyID string // of a draft; empty among the approvals and grants
}

// WaitingQuery selects from what waits for the caller.
type WaitingQuery struct {
	audit.ApprovalQuery
	From WaitingPlace
}

// WaitingPage is a page of what waits for the caller.
type WaitingPage struct {
	Items []Waiting
	Next  WaitingPlace // where the next page begins
	More  bool

	limit int
}

// look adds an item that matches, and notes the place that was looked at. It is false when the page was full before.
func (p *WaitingPage) look(at WaitingPlace, item Waiting, matches bool) bool {
	full := len(p.Items) == p.limit
	switch {
	case full && matches:
		p.More = true
		return false
	case matches:
		p.Items = append(p.Items, item)
	case full:
		return true
	}
	p.Next = at
	return true
}

// WaitingFor returns a page of what the caller's decision would bring forward (S64, S93). A page looks at openAtMost
// approvals and openAtOnce drafts: it may be short, or empty, while there are more.
func (a *Authorizer) WaitingFor(ctx context.Context, access Access, q WaitingQuery) (page WaitingPage, err error) {
	if access.key == nil {
		return page, nil
	}
	page.limit, page.Next = q.Limit, q.From
	decides := access.key.scopes.Has(spend.ApprovalsDecide)
	if q.From.PolicyID == "" {
		grants := a.waitingGrants(access, q)
		if decides {
			grants, err = a.waitingApprovals(ctx, access, q, &page, grants)
		}
		if err == nil && !page.More {
			page.lookBefore(nil, grants)
		}
		if err != nil || page.More {
			return page, err
		}
	}
	if decides && q.AgentID == "" && q.ApprovalFilter == (audit.ApprovalFilter{}) && access.key.scopes.Has(spend.PoliciesRead) {
		err = a.waitingDrafts(ctx, access, q, &page)
	}
	return page, err
}

// placeOf is where a grant stands among the approvals.
func placeOf(g *audit.BudgetGrant) audit.ApprovalPlace {
	return audit.ApprovalPlace{ExpiresAt: g.Until, ID: g.ID}
}

// lookBefore looks at the grants that come before a place, all of them if it is nil, and returns the others.
func (p *WaitingPage) lookBefore(place *audit.ApprovalPlace, grants []GrantView) []GrantView {
	for len(grants) > 0 && (place == nil || placeOf(grants[0].BudgetGrant).Compare(*place) < 0) {
		if !p.look(WaitingPlace{Approval: placeOf(grants[0].BudgetGrant)}, Waiting{Grant: &grants[0]}, true) {
			break
		}
		grants = grants[1:]
	}
	return grants
}

// waitingGrants returns the grants that the caller's approval would bring forward, soonest to end first. Whether their counters
// met checks of the caller is found when the caller approves.
func (a *Authorizer) waitingGrants(access Access, q WaitingQuery) (waiting []GrantView) {
	if access.mayGrant() != nil || q.ApprovalFilter != (audit.ApprovalFilter{}) {
		return nil
	}
	v := a.catalog.view()
	for _, of := range v.grants {
		for _, g := range of {
			shown := a.viewGrant(g)
			if shown.Status != GrantPending || !g.IsOf(q.PolicyID, q.AgentID) ||
				q.From != (WaitingPlace{}) && placeOf(g).Compare(q.From.Approval) <= 0 {
				continue
			}
			if c, err := a.approvalOf(v, access, g); err == nil && c.Terms != nil {
				waiting = append(waiting, *shown)
			}
		}
	}
	slices.SortFunc(waiting, func(a, b GrantView) int { return placeOf(a.BudgetGrant).Compare(placeOf(b.BudgetGrant)) })
	return waiting
}

// waitingApprovals adds the approvals to the page, and the grants that come before them, and returns the other grants.
func (a *Authorizer) waitingApprovals(
	ctx context.Context, access Access, q WaitingQuery, page *WaitingPage, grants []GrantView,
) ([]GrantView, error) {
	d := audit.ApprovalDecisionRequest{
		Approves: true, By: audit.Actor{KeyID: access.keyID(), Principal: access.principal()}, Owner: access.key.Grants.Owner,
		Groups: access.key.Grants.Groups,
	}
	q.Status, q.Limit, q.Soonest, q.After = audit.ApprovalPending, openAtOnce, true, q.From.Approval
	for range openAtMost / openAtOnce {
		found, more, err := a.store.ListApprovals(ctx, q.ApprovalQuery)
		if err != nil {
			return nil, err
		}
		for _, approval := range found {
			q.After, d.ActionHash = approval.Place(), approval.Check.Approval.ActionHash
			if grants = page.lookBefore(&q.After, grants); page.More {
				return grants, nil
			}
			forward := approval.Takes(d) == audit.DecisionRecorded && approval.BroughtForward(d.Groups)
			if !page.look(WaitingPlace{Approval: q.After}, Waiting{Approval: approval}, forward) {
				return grants, nil
			}
		}
		if !more {
			return grants, nil
		}
	}
	page.More = true
	return grants, nil
}

func (a *Authorizer) waitingDrafts(ctx context.Context, access Access, q WaitingQuery, page *WaitingPage) error {
	of := audit.PolicyQuery{After: q.From.PolicyID, Limit: openAtOnce, PolicyIDs: access.Bounds().PolicyIDs}
	if q.PolicyID != "" {
		if !access.SeesPolicy(q.PolicyID) {
			return nil
		}
		of.PolicyIDs = []string{q.PolicyID}
	}
	ids, more, err := a.store.SubmittedDrafts(ctx, of)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := a.store.Review(ctx, id)
		if errors.Is(err, audit.ErrNotFound) { // it ended meanwhile
			continue
		}
		if err != nil {
			return err
		}
		d := audit.DraftDecisionRequest{
			PolicyID: id, Hash: r.Draft.Hash, By: audit.Actor{KeyID: access.keyID(), Principal: access.principal()},
			Owner: access.key.Grants.Owner, Groups: access.key.Grants.Groups,
		}
		forward := r.Takes(&d) == audit.DecisionRecorded && r.BroughtForward(d.Groups)
		if !page.look(WaitingPlace{PolicyID: id}, Waiting{Draft: r}, forward) {
			return nil
		}
	}
	page.More = more
	return nil
}
