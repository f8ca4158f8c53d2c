package hotpath

import (
	"context"
	"errors"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	// openAtOnce is how many approvals or drafts are read at once in search of matching ones.
	openAtOnce = 100
	// openAtMost bounds how many approvals are read for one response.
	openAtMost = 500
)

// Waiting is something that waits for a decision: an approval, or the draft of a policy (S93).
type Waiting struct {
	Approval *audit.Approval
	Draft    *audit.Review // nil of an approval
}

// WaitingPlace is a place in the list of what waits: first the approvals that expire soonest, then the drafts by policy.
type WaitingPlace struct {
	Approval audit.ApprovalPlace
	PolicyID string // of a draft; empty among the approvals
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
	if access.key == nil || !access.key.scopes.Has(spend.ApprovalsDecide) {
		return page, nil
	}
	page.limit, page.Next = q.Limit, q.From
	if q.From.PolicyID == "" {
		if err := a.waitingApprovals(ctx, access, q, &page); err != nil || page.More {
			return page, err
		}
	}
	if q.AgentID == "" && q.ApprovalFilter == (audit.ApprovalFilter{}) && access.key.scopes.Has(spend.PoliciesRead) {
		err = a.waitingDrafts(ctx, access, q, &page)
	}
	return page, err
}

func (a *Authorizer) waitingApprovals(ctx context.Context, access Access, q WaitingQuery, page *WaitingPage) error {
	d := audit.ApprovalDecisionRequest{
		Approves: true, By: audit.Actor{KeyID: access.keyID(), Principal: access.principal()}, Owner: access.key.Grants.Owner,
		Groups: access.key.Grants.Groups,
	}
	q.Status, q.Limit, q.Soonest, q.After = audit.ApprovalPending, openAtOnce, true, q.From.Approval
	for range openAtMost / openAtOnce {
		found, more, err := a.store.ListApprovals(ctx, q.ApprovalQuery)
		if err != nil {
			return err
		}
		for _, approval := range found {
			q.After, d.ActionHash = approval.Place(), approval.Check.Approval.ActionHash
			forward := approval.Takes(d) == audit.DecisionRecorded && approval.BroughtForward(d.Groups)
			if !page.look(WaitingPlace{Approval: q.After}, Waiting{Approval: approval}, forward) {
				return nil
			}
		}
		if !more {
			return nil
		}
	}
	page.More = true
	return nil
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
