package client

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strconv"
)

// Violation is a check that was blocked or escalated.
type Violation struct {
	ViolationID             string     `json:"violation_id"`
	CheckID                 string     `json:"check_id"`
	AgentID                 string     `json:"agent_id"`
	PolicyID                string     `json:"policy_id"`
	PolicyVersion           int        `json:"policy_version"`
	ActionType              ActionType `json:"action_type"`
	Amount                  Amount     `json:"amount"`
	Currency                string     `json:"currency"`
	Counterparty            string     `json:"counterparty"`
	Decision                Decision   `json:"decision"`
	ViolatedRuleID          string     `json:"violated_rule_id"`
	ViolatedRuleDescription string     `json:"violated_rule_description"`
	Confidence              string     `json:"confidence"`
	LatencyMS               int64      `json:"latency_ms"`
	Timestamp               Timestamp  `json:"timestamp"`
}

// ViolationQuery selects violations; empty fields select all.
type ViolationQuery struct {
	AgentID    string     `json:"agent_id,omitempty"`
	ActionType ActionType `json:"action_type,omitempty"`
	Decision   Decision   `json:"decision,omitempty"` // Block or Escalate
	From       string     `json:"from,omitempty"`     // an RFC 3339 time or a date, which is its whole UTC day
	To         string     `json:"to,omitempty"`       // the same; both are inclusive
	Limit      int        `json:"limit,omitempty"`    // a page's, 1 to 100; 0 is the service's default of 20
	Cursor     string     `json:"cursor,omitempty"`   // Pagination.NextCursor of a page of the same query
}

// Pagination is the position of a page.
type Pagination struct {
	NextCursor string `json:"next_cursor,omitempty"` // empty on the last page
	HasMore    bool   `json:"has_more"`
	TotalCount int64  `json:"total_count"` // of all pages; 0 in a list of checks, which has none
}

// ViolationPage is one page, newest first.
type ViolationPage struct {
	Data       []Violation `json:"data"`
	Pagination Pagination  `json:"pagination"`

	Body []byte `json:"-"` // the answer as it came
}

// Violations reads a page.
func (c *Client) Violations(ctx context.Context, q ViolationQuery) (*ViolationPage, error) {
	path := "/v1/violations" + queryString(map[string]string{
		"agent_id": q.AgentID, "action_type": string(q.ActionType), "decision": q.Decision.String(),
		"from": q.From, "to": q.To, "limit": optionalInt(q.Limit), "cursor": q.Cursor,
	})
	body, err := c.get(ctx, path)
	if err != nil {
		return nil, err
	}
	page := &ViolationPage{Body: body}
	if err := decode(body, page); err != nil {
		return nil, err
	}
	return page, nil
}

// AllViolations reads the violations of a query page by page, beginning at its
// cursor. An error is the last that it yields.
func (c *Client) AllViolations(ctx context.Context, q ViolationQuery) iter.Seq2[Violation, error] {
	return pages(q.Cursor, func(cursor string) ([]Violation, Pagination, error) {
		q := q
		q.Cursor = cursor
		page, err := c.Violations(ctx, q)
		if err != nil {
			return nil, Pagination{}, err
		}
		return page.Data, page.Pagination, nil
	})
}

// pages yields the elements of all pages from a cursor on.
func pages[T any](cursor string, read func(cursor string) ([]T, Pagination, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at := cursor; ; {
			data, pagination, err := read(at)
			if err == nil && pagination.HasMore && (pagination.NextCursor == "" || pagination.NextCursor == at) {
				err = errors.New("the service's answer cannot be understood: there are more pages and no way to them")
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, element := range data {
				if !yield(element, nil) {
					return
				}
			}
			if !pagination.HasMore {
				return
			}
			at = pagination.NextCursor
		}
	}
}

// queryString leaves out what is empty.
func queryString(parameters map[string]string) string {
	values := make(url.Values)
	for name, value := range parameters {
		if value != "" {
			values.Set(name, value)
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

func optionalInt(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
