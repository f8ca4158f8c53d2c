package signin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"spendgate/audit/spend"
)

// Role is the rights that a group of the provider gives: a role or scopes with their bindings, or
// groups alone.
type Role struct {
	Group     string       `json:"group"` // as the provider names it
	Role      spend.Role   `json:"role"`
	Scopes    spend.Scopes `json:"scopes"`
	PolicyIDs []string     `json:"policy_ids"`
	AgentIDs  []string     `json:"agent_ids"`
	Groups    []string     `json:"groups"` // of approvals (S79)
}

func (r *Role) permits() bool { return r.Role != "" || r.Scopes != 0 }

// ParseRoles reads a JSON array of roles, in the order in which they are tried.
func ParseRoles(text string) ([]Role, error) {
	var roles []Role
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&roles); err != nil {
		return nil, fmt.Errorf(`must be a JSON array of {"group", "role" or "scopes", "policy_ids", "agent_ids", "groups"}: %w`, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be one JSON array and nothing behind it")
	}
	if !slices.ContainsFunc(roles, func(r Role) bool { return r.permits() }) {
		return nil, errors.New("must give some group a role or scopes: nobody could sign in")
	}
	for i := range roles {
		if err := roles[i].check(); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return roles, nil
}

func (r *Role) check() error {
	switch {
	case spend.Blank(r.Group):
		return errors.New("group is required")
	case r.Role != "" && r.Scopes != 0:
		return errors.New("has both a role and scopes")
	case r.Role != "" && !r.Role.Known():
		return errors.New("role " + spend.RoleForm)
	case unknown(r.Scopes):
		return errors.New("scopes " + spend.ScopeForm())
	case r.Scopes.Conflict() != 0:
		return fmt.Errorf("checks:write excludes %s", r.Scopes.Conflict())
	case !r.permits() && len(r.Groups) == 0:
		return errors.New("gives nothing: neither a role, nor scopes, nor groups")
	case !r.permits() && (r.PolicyIDs != nil || r.AgentIDs != nil):
		return errors.New("binds no role")
	}
	for _, list := range []struct {
		name   string
		values []string
		most   int
	}{
		{spend.MemberPolicyIDs, r.PolicyIDs, spend.MaxBindings},
		{spend.MemberAgentIDs, r.AgentIDs, spend.MaxBindings},
		{spend.MemberGroups, r.Groups, spend.MaxGroups},
	} {
		if list.values == nil {
			continue
		}
		if n := len(list.values); n < 1 || n > list.most || slices.ContainsFunc(list.values, unfit) {
			return fmt.Errorf("%s must have 1 to %d entries of 1 to %d characters", list.name, list.most, spend.MaxPrincipal)
		}
	}
	return nil
}

// unknown reports whether the set has a scope that this build does not know.
func unknown(s spend.Scopes) bool {
	var known spend.Scopes
	for _, name := range s.Names() {
		scope, _ := spend.ParseScope(name)
		known |= scope
	}
	return known != s
}

func unfit(s string) bool {
	return spend.Blank(s) || !utf8.ValidString(s) || utf8.RuneCountInString(s) > spend.MaxPrincipal
}

// grantsOf returns the rights that the provider's groups give: the role, or scopes, and bindings of
// the first group that gives any, and the groups of all. It fails with ErrNoRole if none gives a role.
func grantsOf(roles []Role, groups []string) (g spend.Grants, err error) {
	permitted := false
	for i := range roles {
		r := &roles[i]
		if !slices.Contains(groups, r.Group) {
			continue
		}
		if r.permits() && !permitted {
			permitted = true
			g.Role, g.Scopes, g.PolicyIDs, g.AgentIDs = r.Role, r.Scopes, r.PolicyIDs, r.AgentIDs
		}
		for _, group := range r.Groups {
			if !slices.ContainsFunc(g.Groups, func(have string) bool { return spend.SameName(have, group) }) {
				g.Groups = append(g.Groups, group)
			}
		}
	}
	if !permitted {
		return spend.Grants{}, ErrNoRole
	}
	if len(g.Groups) > spend.MaxGroups {
		return spend.Grants{}, fmt.Errorf("%w: the roles give more than %d groups", ErrNoRole, spend.MaxGroups)
	}
	return g, nil
}
