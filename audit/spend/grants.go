package spend

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// Grants are the properties of an API key beyond its name and rate limit (S29). The zero value is a
// key of role full, bound to nothing, whose principal is itself.
type Grants struct {
	Role      Role      `json:"role,omitempty"`       // empty when scopes are given, or neither
	Scopes    Scopes    `json:"scopes,omitempty"`     // zero when a role is given, or neither
	PolicyIDs []string  `json:"policy_ids,omitempty"` // nil: any
	AgentIDs  []string  `json:"agent_ids,omitempty"`  // nil: any
	Principal string    `json:"principal,omitempty"`  // empty: the key's ID
	Owner     string    `json:"owner,omitempty"`
	Groups    []string  `json:"groups,omitempty"`    // of the person who decides with the key
	ExpiresAt time.Time `json:"expires_at,omitzero"` // to the millisecond; zero: never
}

// The members of Grants, as requests and answers name them.
const (
	MemberRole      = "role"
	MemberScopes    = "scopes"
	MemberPolicyIDs = "policy_ids"
	MemberAgentIDs  = "agent_ids"
	MemberPrincipal = "principal"
	MemberOwner     = "owner"
	MemberGroups    = "groups"
	MemberExpiresAt = "expires_at"
)

// The limits of grants.
const (
	MaxBindings  = 100 // entries of policy_ids or agent_ids
	MaxGroups    = 20
	MaxPrincipal = 128 // characters, also of an owner or a group
)

// Permitted returns the scopes that a key with these grants has.
func (g *Grants) Permitted() Scopes {
	switch {
	case g.Role != "":
		return g.Role.Scopes()
	case g.Scopes != 0:
		return g.Scopes
	}
	return Full.Scopes()
}

// Expired reports whether the key has expired at a time.
func (g *Grants) Expired(at time.Time) bool { return !g.ExpiresAt.IsZero() && !at.Before(g.ExpiresAt) }

// Namespace returns the namespace that the idempotency keys of the API key have
// (S59): by its principal, folded; empty, the one that all such keys share, when the
// grants say nothing, or only groups and when the key expires.
func (g *Grants) Namespace(keyID string) string {
	if g.Role == "" && g.Scopes == 0 && g.PolicyIDs == nil && g.AgentIDs == nil && g.Principal == "" && g.Owner == "" {
		return ""
	}
	return FoldName(cmp.Or(g.Principal, keyID))
}

// Text returns the grants as a JSON object, as stores keep them; empty when
// they say nothing.
func (g *Grants) Text() string {
	b, err := json.Marshal(g)
	if err != nil {
		panic("BUG: grants have no JSON: " + err.Error())
	}
	if string(b) == "{}" {
		return ""
	}
	return string(b)
}

// ParseGrants reads what Text returned.
func ParseGrants(text string) (g Grants, err error) {
	if text == "" {
		return g, nil
	}
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return g, fmt.Errorf("cannot read the grants of a key: %w", err)
	}
	return g, nil
}

// GrantsChange changes the members that it names: to their values in Grants,
// or to nothing if those are zero.
type GrantsChange struct {
	Grants
	Named []string
}

// MergePatch returns the change as a JSON merge patch (RFC 7396) of the text of
// grants; empty when there is nothing to change.
func (c *GrantsChange) MergePatch() string {
	if len(c.Named) == 0 {
		return ""
	}
	patch := make(map[string]any, len(c.Named))
	if text := c.Text(); text != "" {
		if err := json.Unmarshal([]byte(text), &patch); err != nil {
			panic("BUG: grants are no JSON object: " + err.Error())
		}
	}
	for _, name := range c.Named {
		if _, given := patch[name]; !given {
			patch[name] = nil
		}
	}
	b, err := json.Marshal(patch)
	if err != nil {
		panic("BUG: a change of grants has no JSON: " + err.Error())
	}
	return string(b)
}
