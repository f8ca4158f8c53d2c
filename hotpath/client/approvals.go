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
	Status   ApprovalStatus
	PolicyID string
	AgentID  string

	Counterparty string
	AmountFrom   string // inclusive, whatever the currency
	AmountTo     string // inclusive
	From         string // when it was asked: an RFC 3339 time or a date, which is its whole UTC day; inclusive
	To           string // a time or a date, as From; inclusive
	DecidedBy    string // the principal of somebody who approved or denied it

	Limit  int    // a page's, 1 to 100; 0 is the service's default of 20
	Cursor string // Pagination.NextCursor of a page of the same query
}

// ApprovalPage is one page, newest first. It has no TotalCount.
type ApprovalPage = Page[Approval]

// Approval reads an approval. While it is pending, the service holds the answer for
// up to wait, in whole seconds and at most MaxApprovalWait.
func (c *Client) Approval(ctx context.Context, approvalID string, wait time.Duration) (*Approval, error) {
	r := get(approvalPath(approvalID), nil)
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

func (q ApprovalQuery) request(cursor string) request { return q.waitingFor("", cursor) }

func (q ApprovalQuery) waitingFor(who, cursor string) request {
	return get("/v1/approvals", map[string]string{
		"status": string(q.Status), "policy_id": q.PolicyID, "agent_id": q.AgentID, "counterparty": q.Counterparty, "amount_from": q.AmountFrom,
		"amount_to": q.AmountTo, "from": q.From, "to": q.To, "decided_by": q.DecidedBy, "waiting_for": who,
		"limit": optionalInt(q.Limit), "cursor": cursor,
	})
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
	return pages[Waiting](ctx, c, q.Cursor, func(cursor string) request { return q.waitingFor("me", cursor) })
}

// Approvals reads a page.
func (c *Client) Approvals(ctx context.Context, q ApprovalQuery) (*ApprovalPage, error) {
	return fetch[ApprovalPage](ctx, c, q.request(q.Cursor))
}

// AllApprovals reads the approvals of a query page by page, beginning at its
// cursor. An error is the last that it yields.
func (c *Client) AllApprovals(ctx context.Context, q ApprovalQuery) iter.Seq2[Approval, error] {
	return pages[Approval](ctx, c, q.Cursor, q.request)
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
