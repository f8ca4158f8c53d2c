package spend

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ApprovalRequest is the approval that an escalated check asks of people (S42). Its ID is the check's,
// with PrefixApproval.
type ApprovalRequest struct {
	Required int             // people, in all
	From     []GroupRequired // of the required people; the others may be anybody
	// ExcludeAuthor: the authors of the version that escalated, and of its draft, do not decide.
	ExcludeAuthor bool
	Expires       time.Duration // how long people may decide
	UseWithin     time.Duration // how long the approval may be used after the decision that completes it
	ActionHash    Hash
	Rules         []EscalatedRule // all that escalated, in the policy's order
}

// GroupRequired is how many people of a group must approve (S79), or of any of several groups (S89).
type GroupRequired struct {
	Group    string   `json:"group,omitempty"`
	AnyOf    []string `json:"any_of,omitempty"` // in place of Group
	Required int      `json:"required"`
}

// Groups are the groups of which people count.
func (g *GroupRequired) Groups() []string {
	if g.AnyOf != nil {
		return g.AnyOf
	}
	return []string{g.Group}
}

// Name names the groups for people: "finance", "directors or finance".
func (g *GroupRequired) Name() string { return strings.Join(g.Groups(), " or ") }

// Same reports whether people of the same groups count.
func (g *GroupRequired) Same(other *GroupRequired) bool {
	a, b := g.Groups(), other.Groups()
	return len(a) == len(b) && !slices.ContainsFunc(a, func(name string) bool {
		return !slices.ContainsFunc(b, func(n string) bool { return SameName(n, name) })
	})
}

// Anybody is how many of the people required may be of any group.
func (a *ApprovalRequest) Anybody() int {
	n := a.Required
	for _, g := range a.From {
		n -= g.Required
	}
	return n
}

// EscalatedRule is a rule that escalated a check, as it was.
type EscalatedRule struct {
	RuleID   string
	Identity Hash // of its parameters by meaning
}

// ActionHash covers what would be carried out (S46), but neither the reason nor the idempotency key.
func ActionHash(c *Check) Hash {
	buf := canonicalBuffers.Get().(*[]byte)
	defer canonicalBuffers.Put(buf)
	a := &c.Action
	b := append((*buf)[:0], "approved action 1\n"...)
	b = appendPart(b, FoldName(c.PrincipalName()))
	b = appendAction(b, a, c.ActionType)
	if a.Metadata.JSON != "" {
		b = appendCanonical(b, a.Metadata.JSON)
	}
	*buf = b
	return sha256.Sum256(b)
}

// Differing returns the members in which the action of a check of that type differs from the check's,
// among those that ActionHash covers, by their names in requests.
func (c *Check) Differing(a *Action, t ActionType) (names []string) {
	own := &c.Action
	for _, m := range []struct {
		name string
		same bool
	}{
		{"agent_id", a.AgentID == own.AgentID},
		{"policy_id", a.PolicyID == own.PolicyID},
		{"action_type", t == c.ActionType},
		{"amount", a.Amount == own.Amount},
		{"currency", a.Currency == own.Currency},
		{"counterparty", a.Counterparty == own.Counterparty},
		{"payment_method", a.PaymentMethod == own.PaymentMethod},
		{"merchant_or_vendor", a.MerchantOrVendor == own.MerchantOrVendor},
		{"metadata", a.Metadata.JSON == own.Metadata.JSON || HashJSON(a.Metadata.JSON) == HashJSON(own.Metadata.JSON)},
	} {
		if !m.same {
			names = append(names, m.name)
		}
	}
	return names
}

// Carries reports whether the check was allowed by the policy version of asked, for exactly its
// action: metadata must be the same text, and an empty agent is any. Of asked it is enough to have
// these and the ID.
func (c *Check) Carries(asked *Check) bool {
	action := asked.Action
	action.AgentID = cmp.Or(action.AgentID, c.Action.AgentID)
	return c.ID == asked.ID && c.Decision.Effect == Allow && c.Decision.PolicyVersion == asked.Decision.PolicyVersion &&
		c.Action.Metadata.JSON == asked.Action.Metadata.JSON && c.Differing(&action, asked.ActionType) == nil
}

// HashJSON returns the hash of a JSON value by meaning: its numbers are decimals
// and its objects have no member order.
func HashJSON(value string) Hash {
	return sha256.Sum256(appendCanonical(nil, value))
}

// approvalText is an Approval as a check's row keeps it.
type approvalText struct {
	Required      int             `json:"required"`
	ExpiresMS     int64           `json:"expires_ms"`
	UseWithinMS   int64           `json:"use_within_ms"`
	ActionHash    string          `json:"action_hash"` // hexadecimal, like identities
	Rules         []ruleText      `json:"rules"`
	From          []GroupRequired `json:"from,omitempty"`
	ExcludeAuthor bool            `json:"exclude_author,omitempty"`
}

type ruleText struct {
	RuleID   string `json:"rule_id"`
	Identity string `json:"identity"`
}

// Text returns the approval as a check's row keeps it, JSON; empty of nil.
func (a *ApprovalRequest) Text() string {
	if a == nil {
		return ""
	}
	t := approvalText{
		Required: a.Required, From: a.From, ExcludeAuthor: a.ExcludeAuthor,
		ExpiresMS: a.Expires.Milliseconds(), UseWithinMS: a.UseWithin.Milliseconds(), ActionHash: hex.EncodeToString(a.ActionHash[:]),
	}
	for _, r := range a.Rules {
		t.Rules = append(t.Rules, ruleText{r.RuleID, hex.EncodeToString(r.Identity[:])})
	}
	text, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("BUG: an approval has no JSON: %v", err))
	}
	return string(text)
}

// ParseApprovalRequest is the inverse of Text.
func ParseApprovalRequest(text string) (*ApprovalRequest, error) {
	if text == "" {
		return nil, nil
	}
	var t approvalText
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return nil, fmt.Errorf("cannot read what a check asks of people: %w", err)
	}
	a := &ApprovalRequest{
		Required: t.Required, From: t.From, ExcludeAuthor: t.ExcludeAuthor,
		Expires: time.Duration(t.ExpiresMS) * time.Millisecond, UseWithin: time.Duration(t.UseWithinMS) * time.Millisecond,
	}
	if err := parseHash(&a.ActionHash, t.ActionHash); err != nil {
		return nil, err
	}
	for _, r := range t.Rules {
		rule := EscalatedRule{RuleID: r.RuleID}
		if err := parseHash(&rule.Identity, r.Identity); err != nil {
			return nil, err
		}
		a.Rules = append(a.Rules, rule)
	}
	return a, nil
}

func parseHash(into *Hash, text string) error {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(into) {
		return fmt.Errorf("%q is no hash", text)
	}
	copy(into[:], raw)
	return nil
}
