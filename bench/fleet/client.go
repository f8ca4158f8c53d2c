package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Client sends requests to one node and returns raw answers.
type Client struct {
	Base     string
	Key      string // X-API-Key; not sent when empty
	AdminKey string // X-Admin-Key; not sent when empty
	HTTP     *http.Client
	Seen     Seen
}

// Seen is called with each answer to a request, if it is not nil.
type Seen func(method, path string, answer Answer)

// Answer is a node's answer, with its times.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Sent   time.Time // when the request was begun
	Done   time.Time // when the last byte of the answer was read
}

// Took returns how long the client waited.
func (a Answer) Took() time.Duration { return a.Done.Sub(a.Sent) }

// Replayed reports whether the answer repeats an earlier one (S18).
func (a Answer) Replayed() bool { return a.Header.Get("Idempotent-Replayed") == "true" }

// Result returns the body of a check's answer, or zero if it is no check.
func (a Answer) Result() Result {
	var r Result
	if a.Status != http.StatusOK || json.Unmarshal(a.Body, &r) != nil {
		return Result{}
	}
	return r
}

// ErrorCode returns the code of an error's body, or "" of another body.
func (a Answer) ErrorCode() string {
	var body struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Body, &body) != nil {
		return ""
	}
	return body.Error.Code
}

// Number returns a header's number, or -1 if it has no number.
func (a Answer) Number(header string) int64 {
	n, err := strconv.ParseInt(a.Header.Get(header), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// String returns a text for messages of tests.
func (a Answer) String() string {
	return fmt.Sprintf("%d after %s: %s", a.Status, a.Took().Round(time.Millisecond), bytes.TrimSpace(a.Body))
}

// Action is the body of a check.
type Action struct {
	AgentID        string         `json:"agent_id"`
	PolicyID       string         `json:"policy_id"`
	ActionType     string         `json:"action_type,omitempty"`
	Amount         json.Number    `json:"amount"`
	Currency       string         `json:"currency"`
	Counterparty   string         `json:"counterparty"`
	PaymentMethod  string         `json:"payment_method,omitempty"`
	Vendor         string         `json:"merchant_or_vendor,omitempty"`
	ReasonText     string         `json:"reason_text,omitempty"`
	IdempotencyKey string         `json:"idempotency_key,omitempty"`
	Metadata       map[string]any `json:"metadata,omitempty"`
	ApprovalID     string         `json:"approval_id,omitempty"`
}

// Result is a check's result.
type Result struct {
	CheckID         string  `json:"check_id"`
	Decision        string  `json:"decision"`
	Confidence      string  `json:"confidence"`
	ReasonCode      *string `json:"reason_code"`
	Message         *string `json:"message"`
	RuleID          *string `json:"violated_rule_id"`
	RuleDescription *string `json:"violated_rule_description"`
	PolicyVersion   int     `json:"policy_version"`
	NextStep        *string `json:"next_step"`
	LatencyMS       int64   `json:"latency_ms"`
	Timestamp       string  `json:"timestamp"`
	ApprovalID      string  `json:"approval_id"`
}

// Duplicate reports whether the guard blocked the action.
func (r Result) Duplicate() bool {
	return r.ReasonCode != nil && *r.ReasonCode == "duplicate_action_detected"
}

// Policy is the body of a new policy version.
type Policy struct {
	PolicyID string `json:"policy_id,omitempty"`
	Name     string `json:"name"`
	Rules    []Rule `json:"rules"`
}

// Rule is a rule of a policy.
type Rule struct {
	RuleID     string         `json:"rule_id"`
	RuleType   string         `json:"rule_type"`
	Parameters map[string]any `json:"parameters"`
	When       map[string]any `json:"when,omitempty"`
}

// Do sends a request; a body that is not nil goes as JSON.
func (c *Client) Do(ctx context.Context, method, path string, body any) (Answer, error) {
	answer := Answer{Sent: time.Now()}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer, fmt.Errorf("cannot encode a request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Base+path, content)
	if err != nil {
		return answer, fmt.Errorf("cannot make a request: %w", err)
	}
	for header, value := range map[string]string{"X-API-Key": c.Key, "X-Admin-Key": c.AdminKey} {
		if value != "" {
			request.Header.Set(header, value)
		}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		answer.Done = time.Now()
		return answer, fmt.Errorf("no answer to %s %s: %w", method, path, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read to its end, or the error is returned
	answer.Status, answer.Header = response.StatusCode, response.Header
	answer.Body, err = io.ReadAll(response.Body)
	answer.Done = time.Now()
	if err != nil {
		return answer, fmt.Errorf("half an answer to %s %s: %w", method, path, err)
	}
	if c.Seen != nil {
		c.Seen(method, path, answer)
	}
	return answer, nil
}

// Check posts a check.
func (c *Client) Check(ctx context.Context, a Action) (Answer, error) {
	return c.Do(ctx, http.MethodPost, "/v1/checks", a)
}

// GetCheck reads a check again.
func (c *Client) GetCheck(ctx context.Context, checkID string) (Answer, error) {
	return c.Do(ctx, http.MethodGet, "/v1/checks/"+url.PathEscape(checkID), nil)
}

// PostPolicy stores the next version of a policy.
func (c *Client) PostPolicy(ctx context.Context, p Policy) (Answer, error) {
	return c.Do(ctx, http.MethodPost, "/v1/policies", p)
}

// Violations lists violations; query is as in a URL.
func (c *Client) Violations(ctx context.Context, query string) (Answer, error) {
	return c.Do(ctx, http.MethodGet, "/v1/violations?"+query, nil)
}

// CreateKey makes an API key; the client needs an admin key.
func (c *Client) CreateKey(ctx context.Context, name string, rpm int) (id, raw string, err error) {
	return c.CreateKeyOf(ctx, name, rpm, "")
}

// CreateKeyOf creates an API key of a role, an empty one is full, in groups of approvers.
func (c *Client) CreateKeyOf(ctx context.Context, name string, rpm int, role string, groups ...string) (id, raw string, err error) {
	body := map[string]any{"name": name, "rate_limit_rpm": rpm}
	if role != "" {
		body["role"] = role
	}
	if len(groups) > 0 {
		body["groups"] = groups
	}
	return c.createKey(ctx, body)
}

func (c *Client) createKey(ctx context.Context, body map[string]any) (id, raw string, err error) {
	answer, err := c.Do(ctx, http.MethodPost, "/v1/keys", body)
	if err != nil {
		return "", "", err
	}
	var key struct {
		KeyID  string `json:"key_id"`
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal(answer.Body, &key); err != nil || answer.Status != http.StatusCreated {
		return "", "", fmt.Errorf("cannot create a key: %s", answer)
	}
	return key.KeyID, key.APIKey, nil
}

// PatchKey changes a key; the client needs an admin key.
func (c *Client) PatchKey(ctx context.Context, id string, change map[string]any) (Answer, error) {
	return c.Do(ctx, http.MethodPatch, "/v1/keys/"+url.PathEscape(id), change)
}
