package client

import (
	"context"
	"encoding/json"
	"iter"

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
	AgentID  string   `json:"agent_id"`
	PolicyID string   `json:"policy_id"`
	Decision Decision `json:"decision"`
	Outcome  string   `json:"outcome"` // none, in_doubt, or the status that was reported last

	Counterparty   string     `json:"counterparty"`
	ActionType     ActionType `json:"action_type"`
	ReasonCode     string     `json:"reason_code"`
	RuleID         string     `json:"rule_id"`         // that decided
	IdempotencyKey string     `json:"idempotency_key"` // found at once
	ApprovalID     string     `json:"approval_id"`
	PaymentKey     string     `json:"payment_key"` // of the caller, or of Principal
	Principal      string     `json:"principal"`   // who asked
	AmountFrom     string     `json:"amount_from"` // inclusive, whatever the currency
	AmountTo       string     `json:"amount_to"`   // inclusive

	From   string `json:"from"`   // an RFC 3339 time or a date, which is its whole UTC day; inclusive
	To     string `json:"to"`     // a time or a date, as From; inclusive
	Before string `json:"before"` // exclusive; a date is the start of its UTC day
	Limit  int    `json:"limit"`  // of each page, 1 to 100; 0 is the service's default of 20
}

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

// AllChecks reads the checks of a query, newest first. An error is the last that it yields.
func (c *Client) AllChecks(ctx context.Context, q CheckQuery) iter.Seq2[CheckRecord, error] {
	return pages[CheckRecord](ctx, c, find("/v1/checks", q))
}

// AllPolicies reads the latest versions of all policies, by PolicyID. An error is the last that it yields.
func (c *Client) AllPolicies(ctx context.Context) iter.Seq2[Policy, error] {
	return pages[Policy](ctx, c, wholePages("/v1/policies", struct{}{}))
}

// AllPolicyVersions reads a policy's versions, newest first. An error is the last that it yields.
func (c *Client) AllPolicyVersions(ctx context.Context, policyID string) iter.Seq2[PolicyVersion, error] {
	return pages[PolicyVersion](ctx, c, wholePages(policyPath(policyID)+"/versions", struct{}{}))
}
