package httpapi

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// grantsReader reads the members of a key's body that say what the key may do (S29).
type grantsReader struct {
	spend.Grants
	named   []string // the members that were there, null or not
	cleared []string // the members that were null
}

// read takes the member that next found.
func (g *grantsReader) read(r *reader, now time.Time) {
	name := r.name
	known := true
	if r.kind() == jsontext.KindNull {
		switch name {
		case spend.MemberRole, spend.MemberScopes, spend.MemberPolicyIDs, spend.MemberAgentIDs,
			spend.MemberPrincipal, spend.MemberOwner, spend.MemberGroups, spend.MemberExpiresAt:
			g.cleared = append(g.cleared, name)
		default:
			known = false
		}
	} else {
		known = g.readValue(r, now)
	}
	if !known {
		r.unknown()
		return
	}
	g.named = append(g.named, name)
}

// readValue takes a value that is not null; false is a member that is not known.
func (g *grantsReader) readValue(r *reader, now time.Time) (known bool) {
	switch r.name {
	case spend.MemberRole:
		if s, ok := r.string(); ok {
			if g.Role = spend.Role(s); !g.Role.Known() {
				r.fault(r.name, spend.RoleForm)
			}
		}
	case spend.MemberScopes:
		r.bindings(func(path, s string) {
			scope, ok := spend.ParseScope(s)
			if !ok {
				r.fault(path, spend.ScopeForm())
			}
			g.Scopes |= scope
		})
	case spend.MemberPolicyIDs:
		g.PolicyIDs = r.bindings(func(path, s string) {
			if !spend.ValidPolicyID(s) {
				r.fault(path, spend.PolicyIDForm)
			}
		})
	case spend.MemberAgentIDs:
		g.AgentIDs = r.bindings(r.bounded)
	case spend.MemberPrincipal:
		g.Principal = r.principal()
	case spend.MemberOwner:
		g.Owner = r.principal()
	case spend.MemberGroups:
		g.Groups = r.groups()
	case spend.MemberExpiresAt:
		g.ExpiresAt = r.future(now)
	default:
		return false
	}
	return true
}

// judge adds the faults of members that do not go together.
func (g *grantsReader) judge(r *reader) {
	if g.Role != "" && slices.Contains(g.named, spend.MemberScopes) && !slices.Contains(g.cleared, spend.MemberScopes) {
		r.fault(spend.MemberScopes, "and role exclude each other")
	}
	if conflict := g.Scopes.Conflict(); conflict != 0 {
		r.fault(spend.MemberScopes, "must not have checks:write together with "+conflict.String())
	}
}

// change returns the change that a PATCH makes. Role and scopes replace each other, and null for one
// needs the other: a restricted key never becomes full by omission.
func (g *grantsReader) change(r *reader) spend.GrantsChange {
	other := map[string]string{spend.MemberRole: spend.MemberScopes, spend.MemberScopes: spend.MemberRole}
	for _, name := range g.cleared {
		if needed := other[name]; needed != "" && (!slices.Contains(g.named, needed) || slices.Contains(g.cleared, needed)) {
			r.fault(name, "must not be null without "+needed+" in the same request")
		}
	}
	for _, name := range slices.Clone(g.named) {
		if replaced := other[name]; replaced != "" && !slices.Contains(g.named, replaced) {
			g.named = append(g.named, replaced)
		}
	}
	return spend.GrantsChange{Grants: g.Grants, Named: g.named}
}

// string returns a string and whether it was one.
func (r *reader) string() (string, bool) {
	if r.kind() != jsontext.KindString {
		r.fault(r.name, "must be a string")
		return "", false
	}
	return r.unquote(r.value()), true
}

// principal returns the name of a person or an organisation.
func (r *reader) principal() string {
	s, ok := r.string()
	if ok && !spend.ValidName(s) {
		r.fault(r.name, spend.NameForm)
	}
	return s
}

// groups returns the names of groups, without duplicates (S62).
func (r *reader) groups() []string {
	var before []string
	return r.list(1, spend.MaxGroups, func(path, s string) {
		same := func(other string) bool { return other != s && spend.SameName(other, s) }
		if !spend.ValidName(s) {
			r.fault(path, spend.NameForm)
		} else if slices.ContainsFunc(before, same) {
			r.fault(path, "is there twice")
		}
		before = append(before, s)
	})
}

// dropBudgets reads which budgets may be emptied (S63).
func (r *reader) dropBudgets() []string {
	if r.kind() == jsontext.KindNull {
		return nil
	}
	return r.list(0, spend.MaxRules, r.bounded)
}

// bounded judges an identifier.
func (r *reader) bounded(path, s string) {
	if spend.Blank(s) || spend.TooLong(s, spend.MaxIdentifier) {
		r.fault(path, fmt.Sprintf("must be 1-%d characters that are not all white space", spend.MaxIdentifier))
	}
}

// future returns an instant after now, to the millisecond.
func (r *reader) future(now time.Time) time.Time {
	s, ok := r.string()
	if !ok {
		return time.Time{}
	}
	var at time.Time
	err := at.UnmarshalText([]byte(s)) // stricter than time.Parse
	at = at.UTC().Truncate(time.Millisecond)
	if err != nil || !at.After(now) || at.After(latestInstant) {
		r.fault(r.name, "must be an RFC 3339 time in the future: 2030-01-31T12:00:00Z")
	}
	return at
}

// bindings returns the list of a key's or a webhook's bindings.
func (r *reader) bindings(judge func(path, s string)) []string {
	return r.list(1, spend.MaxBindings, judge)
}

// list returns the strings of a list of least to most entries, no two of them equal; judge adds the
// faults of an entry.
func (r *reader) list(least, most int, judge func(path, s string)) []string {
	name := r.name
	if r.kind() != jsontext.KindBeginArray {
		r.fault(name, "must be a list of strings")
		return nil
	}
	form := fmt.Sprintf("must have %d-%d entries", least, most)
	all := []string{}
	r.token()
	n := 0
	for ; r.failed == nil && r.kind() != jsontext.KindEndArray; n++ {
		if n >= most {
			if n == most {
				r.fault(name, form)
			}
			r.skip()
			continue
		}
		path := fmt.Sprintf("%s[%d]", name, n)
		if r.kind() != jsontext.KindString {
			r.fault(path, "must be a string")
			r.skip()
			continue
		}
		s := r.unquote(r.value())
		if slices.Contains(all, s) {
			r.fault(path, "is there twice")
		} else {
			judge(path, s)
		}
		all = append(all, s)
	}
	r.token()
	if n < least && r.failed == nil {
		r.fault(name, form)
	}
	return all
}
