package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"spendgate/hotpath/wire"
)

// Rule is a rule of a policy.
type Rule struct {
	RuleID      string `json:"rule_id"`
	RuleType    string `json:"rule_type"`
	Description string `json:"description,omitempty"`
	// When is an object with conditions (S88); nil for none. As text its numbers keep their digits, as do those of Parameters.
	When       json.RawMessage `json:"when,omitempty"`
	Parameters json.RawMessage `json:"parameters"`
}

// NewPolicy is a policy as it is created. An empty PolicyID is generated; one
// that exists gets a new version.
type NewPolicy struct {
	PolicyID    string          `json:"policy_id,omitempty"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Rules       []Rule          `json:"rules"`
	Metadata    json.RawMessage `json:"metadata,omitempty"` // an object

	// Redeem is "required" if only redeemed checks can be reported as executed (S74).
	Redeem              string `json:"redeem,omitempty"`
	RedeemWithinMinutes int    `json:"redeem_within_minutes,omitzero"` // how old a check may be that is redeemed; 0 is 15
	// Changes are the approvals that the next version needs; nil for none (S80).
	Changes *Changes `json:"changes,omitempty"`
	// Note is shown with the versions, but is not part of them.
	Note string `json:"note,omitempty"`
	// Replaces is the version that must be in force, 0 for none; else nothing is stored, and the error
	// has CodeVersionMismatch (S54). Nil replaces any version.
	Replaces *int `json:"-"`
	// DropBudgets are the rule_ids of budgets that end with the version though they are
	// in use; without it such a version is refused with CodeBudgetInUse (S63).
	DropBudgets []string `json:"drop_budgets,omitempty"`
}

// Policy is one version of a policy.
type Policy struct {
	wire.Policy
	Rules   []Rule   `json:"rules"`
	Changes *Changes `json:"changes,omitempty"`

	Raw
}

// Changes are the approvals that the next version of a policy needs. It must be a draft that this many
// people other than its author approved (S80): the greater of Required and the sum of From.
type Changes struct {
	Required int                  `json:"required,omitempty"` // people in all, 1 to 5
	From     []wire.GroupRequired `json:"from,omitempty"`     // how many of them from which groups; the rest may be anybody
}

// PolicyVersion is one of the versions of a policy.
type PolicyVersion struct {
	Policy
	wire.VersionMade
}

// CreatePolicy stores a policy's next version. When it returns without an error, every check that
// starts later is decided by this version or a newer one (G4). The request is not repeated when the
// version may have been stored: on an error other than an *Error with a 4xx status, look with Policy.
func (c *Client) CreatePolicy(ctx context.Context, p NewPolicy) (*Policy, error) {
	body, err := encode(p)
	if err != nil {
		return nil, err
	}
	return c.createPolicy(ctx, body, p.Replaces)
}

// CreatePolicyJSON creates a policy from a JSON body, sent unchanged.
func (c *Client) CreatePolicyJSON(ctx context.Context, body []byte) (*Policy, error) {
	return c.createPolicy(ctx, body, nil)
}

// ReplacePolicyJSON is CreatePolicyJSON on the condition that the given version is in force, 0 for
// none, as in NewPolicy.Replaces.
func (c *Client) ReplacePolicyJSON(ctx context.Context, version int, body []byte) (*Policy, error) {
	return c.createPolicy(ctx, body, &version)
}

func (c *Client) createPolicy(ctx context.Context, body []byte, replaces *int) (*Policy, error) {
	r := request{method: http.MethodPost, path: "/v1/policies", body: body, status: http.StatusCreated}
	if replaces != nil {
		r.ifMatch = strconv.Itoa(*replaces)
	}
	return fetch[Policy](ctx, c, r)
}

// Policy reads a version of a policy, the latest when version is 0.
func (c *Client) Policy(ctx context.Context, policyID string, version int) (*Policy, error) {
	r := get(policyPath(policyID))
	if version != 0 {
		r.query.Set("version", strconv.Itoa(version))
	}
	return fetch[Policy](ctx, c, r)
}

func policyPath(policyID string) string { return "/v1/policies/" + url.PathEscape(policyID) }

func (p *Policy) accept(from reply) error {
	if p.PolicyID == "" || p.Version < 1 {
		return misunderstood("it is no policy")
	}
	clean(&p.Metadata)
	p.Body = from.body
	return nil
}
