package client

import (
	"context"
	"iter"
	"net/url"
	"strings"
	"time"

	"spendgate/hotpath/wire"
)

// MaxApprovalWait is the longest time that the service holds the answer to Approval.
const MaxApprovalWait = 30 * time.Second

// Approval is what an escalated check asks of people (S43).
type Approval struct {
	wire.Approval

	// RetryAfter is how long to wait before asking again about a pending approval; not in lists.
	RetryAfter time.Duration `json:"-"`

	Raw
}

// ApprovalQuery selects approvals; empty fields select all.
type ApprovalQuery struct {
	Status   ApprovalStatus `json:"status"`
	PolicyID string         `json:"policy_id"`
	AgentID  string         `json:"agent_id"`

	Counterparty string `json:"counterparty"`
	AmountFrom   string `json:"amount_from"` // inclusive, whatever the currency
	AmountTo     string `json:"amount_to"`   // inclusive
	From         string `json:"from"`        // when it was asked: an RFC 3339 time or a date, which is its whole UTC day; inclusive
	To           string `json:"to"`          // a time or a date, as From; inclusive
	DecidedBy    string `json:"decided_by"`  // the principal of somebody who approved or denied it

	Limit int `json:"limit"` // of each page, 1 to 100; 0 is the service's default of 20
}

// Approval reads an approval. While it is pending, the service holds the answer for
// up to wait, in whole seconds and at most MaxApprovalWait.
func (c *Client) Approval(ctx context.Context, approvalID string, wait time.Duration) (*Approval, error) {
	r := get(approvalPath(approvalID))
	r.wait = max(0, min(wait, MaxApprovalWait)).Truncate(time.Second)
	return fetch[Approval](ctx, c, r)
}

// WaitForApproval asks until the approval is no longer pending, and then returns it; the caller has to
// look whether it is approved. When the context ends first, it returns the approval as last read, nil
// if it was never read, and an error.
func (c *Client) WaitForApproval(ctx context.Context, approvalID string) (*Approval, error) {
	const (
		toAnswer = 2 * time.Second // what remains of the context's time after the service held its answer
		atLeast  = time.Second     // between two requests, whatever the answer says
	)
	var last *Approval
	for {
		hold := MaxApprovalWait
		if deadline, bounded := ctx.Deadline(); bounded {
			left := time.Until(deadline) - toAnswer
			hold = max(0, min(hold, (left+time.Second-1).Truncate(time.Second))) // which is said in whole seconds
		}
		if last != nil && hold == 0 {
			return last, context.DeadlineExceeded
		}
		asked := time.Now()
		a, err := c.Approval(ctx, approvalID, hold)
		if err != nil {
			return last, err
		}
		if a.Status != ApprovalPending {
			return a, nil
		}
		last = a
		// If the service held the answer, that time counts as a part of the pause.
		pause := max(a.RetryAfter, atLeast) - time.Since(asked)
		if endsBefore(ctx, pause) {
			return last, context.DeadlineExceeded
		}
		if err := c.pause(ctx, pause); err != nil {
			return last, err
		}
	}
}

// Waiting is something that an approval with the client's key brings forward: an approval, the draft of a policy (S93), or a
// grant (S91). The member of its kind is not nil.
type Waiting struct {
	Kind     string             `json:"kind"` // wire.KindApproval, wire.KindDraft or wire.KindGrant
	Approval *Approval          `json:"-"`
	Draft    *wire.WaitingDraft `json:"-"`
	Grant    *Grant             `json:"-"`

	Raw
}

func (w *Waiting) accept(from reply) error {
	w.Body = from.body
	switch w.Kind {
	case wire.KindApproval:
		w.Approval = new(Approval)
		if err := decode(from.body, w.Approval); err != nil {
			return err
		}
		return w.Approval.accept(from)
	case wire.KindDraft:
		w.Draft = new(wire.WaitingDraft)
		return decode(from.body, w.Draft)
	case wire.KindGrant:
		w.Grant = new(Grant)
		if err := decode(from.body, w.Grant); err != nil {
			return err
		}
		return w.Grant.accept(from)
	}
	return misunderstood("it waits for nobody")
}

// Waiting yields what an approval with the client's key brings forward, soonest to expire first, then drafts. The query's
// status is not used. An error is the last that it yields.
func (c *Client) Waiting(ctx context.Context, q ApprovalQuery) iter.Seq2[Waiting, error] {
	q.Status = ""
	r := find("/v1/approvals", q)
	r.query.Set("waiting_for", "me")
	return pages[Waiting](ctx, c, r)
}

// AllApprovals reads the approvals of a query, newest first. An error is the last that it yields.
func (c *Client) AllApprovals(ctx context.Context, q ApprovalQuery) iter.Seq2[Approval, error] {
	return pages[Approval](ctx, c, find("/v1/approvals", q))
}

// Approve approves exactly the action that has the hash, and returns the approval with
// this decision. It is still pending if more people have to approve. note may be empty.
// Errors: *Error with CodeApprovalMismatch, CodeApprovalNotPending,
// CodeApprovalOwnRequest, CodeApprovalDecided.
func (c *Client) Approve(ctx context.Context, approvalID, actionHash, note string) (*Approval, error) {
	return c.decide(ctx, approvalID, "/approve", actionHash, note)
}

// Deny denies the approval, even if it was approved and is not used yet. Errors are as for Approve.
func (c *Client) Deny(ctx context.Context, approvalID, actionHash, note string) (*Approval, error) {
	return c.decide(ctx, approvalID, "/deny", actionHash, note)
}

func (c *Client) decide(ctx context.Context, approvalID, decision, actionHash, note string) (*Approval, error) {
	body := struct {
		ActionHash string `json:"action_hash"`
		Note       string `json:"note,omitempty"`
	}{actionHash, note}
	// Repeating the same decision is a replay.
	return fetch[Approval](ctx, c, post(approvalPath(approvalID)+decision, body))
}

func approvalPath(approvalID string) string { return "/v1/approvals/" + url.PathEscape(approvalID) }

func (a *Approval) accept(from reply) error {
	switch a.Status {
	case ApprovalPending, ApprovalApproved, ApprovalDenied, ApprovalExpired, ApprovalUsed:
	default:
		return misunderstood("it is no approval")
	}
	if !strings.HasPrefix(a.ApprovalID, "apr_") || a.ActionHash == "" {
		return misunderstood("it is no approval")
	}
	clean(&a.Action.Metadata)
	a.RetryAfter, a.Body = retryAfter(from.header), from.body
	return nil
}
