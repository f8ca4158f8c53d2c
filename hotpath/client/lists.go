package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"

	"spendgate/hotpath/wire"
)

// CheckRecord is a check in a list: its answer and its action. It is a record, not a permission:
// Allowed is false for it.
type CheckRecord struct {
	Result
	wire.CheckRecord

	// These hide the headers' of Result.
	Outcome    *wire.Outcome            `json:"outcome"`              // the last report; nil before there is one
	Redemption *wire.RecordedRedemption `json:"redemption,omitempty"` // nil before the check is redeemed
}

// CheckQuery selects checks; empty fields select all.
type CheckQuery struct {
	AgentID  string
	PolicyID string
	Decision Decision
	Outcome  string // none, in_doubt, or the status that was reported last

	Counterparty   string
	ActionType     ActionType
	ReasonCode     string
	RuleID         string // that decided
	IdempotencyKey string // found at once
	ApprovalID     string
	PaymentKey     string // of the caller, or of Principal
	Principal      string // who asked
	AmountFrom     string // inclusive, whatever the currency
	AmountTo       string // inclusive

	From   string // an RFC 3339 time or a date, which is its whole UTC day; inclusive
	To     string // a time or a date, as From; inclusive
	Before string // exclusive; a date is the start of its UTC day
	Limit  int    // a page's, 1 to 100; 0 is the service's default of 20
	Cursor string // Pagination.NextCursor of a page of the same query
}

// CheckPage is one page, newest first. It may be short, or empty, while there are
// more.
type CheckPage = Page[CheckRecord]

func (r *CheckRecord) accept(from reply) error {
	clean(&r.Action.Metadata)
	return r.Result.accept(from)
}

// clean removes the value that stands for missing metadata.
func clean(metadata *json.RawMessage) {
	if string(*metadata) == "null" {
		*metadata = nil
	}
}

func (q CheckQuery) request(cursor string) request {
	return get("/v1/checks", map[string]string{
		"agent_id": q.AgentID, "policy_id": q.PolicyID, "decision": q.Decision.String(), "outcome": q.Outcome,
		"counterparty": q.Counterparty, "action_type": string(q.ActionType), "reason_code": q.ReasonCode, "rule_id": q.RuleID,
		"idempotency_key": q.IdempotencyKey, "approval_id": q.ApprovalID,
		"payment_key": q.PaymentKey, "principal": q.Principal, "amount_from": q.AmountFrom, "amount_to": q.AmountTo,
		"from": q.From, "to": q.To, "before": q.Before, "limit": optionalInt(q.Limit), "cursor": cursor,
	})
}

// Checks reads a page.
func (c *Client) Checks(ctx context.Context, q CheckQuery) (*CheckPage, error) {
	return fetch[CheckPage](ctx, c, q.request(q.Cursor))
}

// AllChecks reads the checks of a query page by page, beginning at its cursor. An
// error is the last that it yields.
func (c *Client) AllChecks(ctx context.Context, q CheckQuery) iter.Seq2[CheckRecord, error] {
	return pages[CheckRecord](ctx, c, q.Cursor, q.request)
}

// PolicyQuery is a page of policies.
type PolicyQuery struct {
	Limit  int    // 1 to 100; 0 is the service's default of 20
	Cursor string // Pagination.NextCursor of a page
}

// PolicyPage is one page. It may be short where policies are large.
type PolicyPage = Page[Policy]

// PolicyVersionPage is one page, and may be short.
type PolicyVersionPage = Page[PolicyVersion]

func (q PolicyQuery) of(path string) func(cursor string) request {
	return func(cursor string) request {
		return get(path, map[string]string{"limit": optionalInt(q.Limit), "cursor": cursor})
	}
}

// Policies reads a page of the latest versions of all policies, by PolicyID.
func (c *Client) Policies(ctx context.Context, q PolicyQuery) (*PolicyPage, error) {
	return fetch[PolicyPage](ctx, c, q.of("/v1/policies")(q.Cursor))
}

// AllPolicies reads the latest versions page by page. An error is the last that it
// yields.
func (c *Client) AllPolicies(ctx context.Context, q PolicyQuery) iter.Seq2[Policy, error] {
	return pages[Policy](ctx, c, q.Cursor, q.of("/v1/policies"))
}

// PolicyVersions reads a page of a policy's versions, newest first.
func (c *Client) PolicyVersions(ctx context.Context, policyID string, q PolicyQuery) (*PolicyVersionPage, error) {
	return fetch[PolicyVersionPage](ctx, c, q.of(versionsPath(policyID))(q.Cursor))
}

// AllPolicyVersions reads a policy's versions page by page. An error is the last
// that it yields.
func (c *Client) AllPolicyVersions(ctx context.Context, policyID string, q PolicyQuery) iter.Seq2[PolicyVersion, error] {
	return pages[PolicyVersion](ctx, c, q.Cursor, q.of(versionsPath(policyID)))
}

func versionsPath(policyID string) string {
	return "/v1/policies/" + url.PathEscape(policyID) + "/versions"
}
