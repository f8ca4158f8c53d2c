package client

import (
	"context"
	"net/http"
	"strconv"

	"spendgate/hotpath/report"
	"spendgate/hotpath/wire"
)

// Draft is a possible next version of a policy (S54).
type Draft struct {
	wire.Draft
	Changes *Changes `json:"changes,omitempty"` // the approvals that it will require as a version

	Raw
}

func (d *Draft) accept(from reply) error {
	return d.take(from, d.PolicyID != "" && d.DraftHash != "", "it is no draft")
}

// DraftReport is the backtest of a draft: it compares the draft's decisions with those made since it was
// put.
type DraftReport struct {
	wire.DraftReport
	Report *report.Report `json:"report"` // of the last run that succeeded; nil before it
	Flips  []Flip         `json:"flips"`  // the newest

	Raw
}

// Ended reports whether the backtest has ended, so that Report is of all checks that it was asked for.
func (r *DraftReport) Ended() bool { return ended(r.Status) }

func (r *DraftReport) accept(from reply) error {
	if r.PolicyID == "" || r.Status == "" || r.Status == "succeeded" && r.Report == nil {
		return misunderstood("it is no report of a draft")
	}
	r.Body = from.body
	return nil
}

// Promotion is the request to make a draft the next version.
type Promotion struct {
	DraftHash   string   `json:"draft_hash,omitempty"` // of the draft as it was read; empty for any draft
	Note        string   `json:"note,omitempty"`
	DropBudgets []string `json:"drop_budgets,omitempty"` // as in NewPolicy
}

func draftPath(policyID string) string { return policyPath(policyID) + "/draft" }

// PutDraftJSON stores the draft of a policy, from a JSON body without policy_id, in place of
// the one before. Storing the same draft again changes nothing. replaces is the hash of the draft that it replaces; that of
// another author must be given, else the error has CodeIfMatchRequired.
func (c *Client) PutDraftJSON(ctx context.Context, policyID, replaces string, body []byte) (*Draft, error) {
	return fetch[Draft](ctx, c, request{method: http.MethodPut, path: draftPath(policyID), body: body, repeatable: true, ifMatch: replaces})
}

// Draft reads the draft of a policy.
func (c *Client) Draft(ctx context.Context, policyID string) (*Draft, error) {
	return fetch[Draft](ctx, c, get(draftPath(policyID)))
}

// DraftReport reads the report of a policy's draft about the checks since it was put, as far as it is
// known. The service continues a report that was made more than five seconds ago.
func (c *Client) DraftReport(ctx context.Context, policyID string) (*DraftReport, error) {
	r := get(draftPath(policyID) + "/report")
	r.again = http.StatusAccepted
	return fetch[DraftReport](ctx, c, r)
}

// AwaitDraftReport reads the report of a policy's draft until its backtest has ended, and calls each,
// unless nil, with every reading.
func (c *Client) AwaitDraftReport(ctx context.Context, policyID string, each func(*DraftReport)) (*DraftReport, error) {
	return await(ctx, func() (*DraftReport, error) { return c.DraftReport(ctx, policyID) }, each)
}

// DeleteDraft deletes the draft of a policy; that of another author only by its hash. The request is not repeated when it may
// have been carried out.
func (c *Client) DeleteDraft(ctx context.Context, policyID, draftHash string) error {
	_, _, err := c.send(ctx, request{
		method: http.MethodDelete, path: draftPath(policyID), status: http.StatusNoContent, ifMatch: draftHash,
	})
	return err
}

// DraftDecision is the request to approve or reject a draft.
type DraftDecision struct {
	DraftHash   string   `json:"draft_hash"` // of the draft as it was read
	Note        string   `json:"note,omitempty"`
	DropBudgets []string `json:"drop_budgets,omitempty"` // of an approval: the budgets that the promotion may drop by it
}

// ApproveDraft approves the draft with that hash beside the version in force (S80), and
// returns the draft with its approvals. Approving again is a replay.
func (c *Client) ApproveDraft(ctx context.Context, policyID string, d DraftDecision) (*Draft, error) {
	return fetch[Draft](ctx, c, post(draftPath(policyID)+"/approve", d))
}

// RejectDraft rejects the draft with that hash, so that its approvals do not count until it is put again (S93), and returns
// the draft. Rejecting again is a replay.
func (c *Client) RejectDraft(ctx context.Context, policyID string, d DraftDecision) (*Draft, error) {
	return fetch[Draft](ctx, c, post(draftPath(policyID)+"/reject", d))
}

// PromoteDraft makes the draft of a policy its next version if the given version is in force; else the
// error has CodeVersionMismatch. The request is not repeated when it may have been carried out: on an
// error other than an *Error with a 4xx status, look with Policy.
func (c *Client) PromoteDraft(ctx context.Context, policyID string, version int, p Promotion) (*Policy, error) {
	return fetch[Policy](ctx, c, request{
		method: http.MethodPost, path: draftPath(policyID) + "/promote", content: p, status: http.StatusCreated, ifMatch: strconv.Itoa(version),
	})
}
