package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
)

// CheckRecord is a check as it is listed: the answer, and what it was about. It is
// a record, no permission: Allowed is false of it.
type CheckRecord struct {
	Result
	Action    RecordedAction `json:"action"`
	Principal string         `json:"principal"` // who stands behind the key that asked
}

// RecordedAction is an action as it was evaluated.
type RecordedAction struct {
	AgentID          string          `json:"agent_id"`
	PolicyID         string          `json:"policy_id"`
	ActionType       ActionType      `json:"action_type"` // as resolved
	Amount           Amount          `json:"amount"`
	Currency         string          `json:"currency"`
	Counterparty     string          `json:"counterparty"`
	PaymentMethod    string          `json:"payment_method,omitempty"`
	MerchantOrVendor string          `json:"merchant_or_vendor,omitempty"`
	ReasonText       string          `json:"reason_text,omitempty"`
	IdempotencyKey   string          `json:"idempotency_key,omitempty"`
	Metadata         json.RawMessage `json:"metadata,omitempty"` // an object; nil if there is none
}

// CheckQuery selects checks; empty fields select all.
type CheckQuery struct {
	AgentID  string
	PolicyID string
	Decision Decision
	From     string // an RFC 3339 time or a date, which is its whole UTC day; inclusive
	To       string // likewise
	Before   string // exclusive; a date is the start of its UTC day
	Limit    int    // a page's, 1 to 100; 0 is the service's default of 20
	Cursor   string // Pagination.NextCursor of a page of the same query
}

// CheckPage is one page, newest first. It may be short, or empty, while there are
// more.
type CheckPage struct {
	Data       []CheckRecord `json:"data"`
	Pagination Pagination    `json:"pagination"`
}

// Checks reads a page.
func (c *Client) Checks(ctx context.Context, q CheckQuery) (*CheckPage, error) {
	page := new(CheckPage)
	err := c.getPage(ctx, "/v1/checks", map[string]string{
		"agent_id": q.AgentID, "policy_id": q.PolicyID, "decision": q.Decision.String(),
		"from": q.From, "to": q.To, "before": q.Before, "limit": optionalInt(q.Limit), "cursor": q.Cursor,
	}, page)
	if err != nil {
		return nil, err
	}
	for i := range page.Data {
		if err := page.Data[i].validate(); err != nil {
			return nil, err
		}
		if m := &page.Data[i].Action.Metadata; string(*m) == "null" {
			*m = nil
		}
	}
	return page, nil
}

// AllChecks reads the checks of a query page by page, beginning at its cursor. An
// error is the last that it yields.
func (c *Client) AllChecks(ctx context.Context, q CheckQuery) iter.Seq2[CheckRecord, error] {
	return pages(q.Cursor, func(cursor string) ([]CheckRecord, Pagination, error) {
		q := q
		q.Cursor = cursor
		page, err := c.Checks(ctx, q)
		if err != nil {
			return nil, Pagination{}, err
		}
		return page.Data, page.Pagination, nil
	})
}

// PolicyQuery is a page of policies.
type PolicyQuery struct {
	Limit  int    // 1 to 100; 0 is the service's default of 20
	Cursor string // Pagination.NextCursor of a page
}

// PolicyPage is one page. It may be short where policies are large.
type PolicyPage struct {
	Data       []Policy   `json:"data"`
	Pagination Pagination `json:"pagination"`
}

// Policies reads a page of the latest versions of all policies, by PolicyID.
func (c *Client) Policies(ctx context.Context, q PolicyQuery) (*PolicyPage, error) {
	return c.policyPage(ctx, "/v1/policies", q)
}

// AllPolicies reads the latest versions page by page. An error is the last that it
// yields.
func (c *Client) AllPolicies(ctx context.Context, q PolicyQuery) iter.Seq2[Policy, error] {
	return c.allPolicies(ctx, "/v1/policies", q)
}

// PolicyVersions reads a page of a policy's versions, newest first.
func (c *Client) PolicyVersions(ctx context.Context, policyID string, q PolicyQuery) (*PolicyPage, error) {
	return c.policyPage(ctx, versionsPath(policyID), q)
}

// AllPolicyVersions reads a policy's versions page by page. An error is the last
// that it yields.
func (c *Client) AllPolicyVersions(ctx context.Context, policyID string, q PolicyQuery) iter.Seq2[Policy, error] {
	return c.allPolicies(ctx, versionsPath(policyID), q)
}

func versionsPath(policyID string) string {
	return "/v1/policies/" + url.PathEscape(policyID) + "/versions"
}

func (c *Client) policyPage(ctx context.Context, path string, q PolicyQuery) (*PolicyPage, error) {
	page := new(PolicyPage)
	if err := c.getPage(ctx, path, map[string]string{"limit": optionalInt(q.Limit), "cursor": q.Cursor}, page); err != nil {
		return nil, err
	}
	for i := range page.Data {
		if err := page.Data[i].complete(); err != nil {
			return nil, err
		}
	}
	return page, nil
}

func (c *Client) allPolicies(ctx context.Context, path string, q PolicyQuery) iter.Seq2[Policy, error] {
	return pages(q.Cursor, func(cursor string) ([]Policy, Pagination, error) {
		page, err := c.policyPage(ctx, path, PolicyQuery{Limit: q.Limit, Cursor: cursor})
		if err != nil {
			return nil, Pagination{}, err
		}
		return page.Data, page.Pagination, nil
	})
}

// getPage reads a page into what has its form.
func (c *Client) getPage(ctx context.Context, path string, parameters map[string]string, page any) error {
	body, err := c.get(ctx, path+queryString(parameters))
	if err != nil {
		return err
	}
	return decode(body, page)
}
