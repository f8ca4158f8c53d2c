package spend

import (
	"encoding/json"
	"slices"
	"strings"
)

// Scopes are the set of rights of an API key (S30).
type Scopes uint32

// The scopes.
const (
	ChecksWrite Scopes = 1 << iota
	ChecksRead
	PoliciesRead
	PoliciesWrite
	BudgetsRead
	OutcomesWrite
	OutcomesRelease
	ApprovalsRead
	ApprovalsDecide
	BacktestsWrite
	EventsRead
	ChecksRedeem
	FreezesWrite
	FreezesRead
	FreezesRelease
	BudgetsGrant

	// unknownScope stands for a scope in a stored key that this build does not know: it permits
	// nothing, but the set is not empty.
	unknownScope Scopes = 1 << 31
)

// scopeNames has the name of each scope, at the number of its bit.
var scopeNames = [...]string{
	"checks:write", "checks:read", "policies:read", "policies:write", "budgets:read", "outcomes:write",
	"outcomes:release", "approvals:read", "approvals:decide", "backtests:write", "events:read",
	"checks:redeem", "freezes:write", "freezes:read", "freezes:release", "budgets:grant",
}

// ScopeForm describes what ParseScope accepts, for messages.
func ScopeForm() string { return "must be one of " + strings.Join(scopeNames[:], ", ") }

// ParseScope returns the scope with that name.
func ParseScope(name string) (Scopes, bool) {
	i := slices.Index(scopeNames[:], name)
	if i < 0 {
		return 0, false
	}
	return 1 << i, true
}

// Has reports whether all of those scopes are in the set.
func (s Scopes) Has(all Scopes) bool { return s&all == all }

// Names returns the names of the scopes in the set, in a fixed order.
func (s Scopes) Names() []string {
	var names []string
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func (s Scopes) String() string { return strings.Join(s.Names(), ", ") }

// MarshalJSON implements json.Marshaler: a list of names.
func (s Scopes) MarshalJSON() ([]byte, error) { return json.Marshal(s.Names()) }

// UnmarshalJSON implements json.Unmarshaler. A name that is not known permits
// nothing.
func (s *Scopes) UnmarshalJSON(b []byte) error {
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return err
	}
	*s = 0
	for _, name := range names {
		scope, known := ParseScope(name)
		if !known {
			scope = unknownScope
		}
		*s |= scope
	}
	return nil
}

// checksAlone are the scopes that must not be combined with checks:write: a key that asks for money
// writes no rules, decides no approval, raises and refills no budget, does not redeem and releases no freeze.
const checksAlone = PoliciesWrite | ApprovalsDecide | OutcomesRelease | ChecksRedeem | FreezesRelease | BudgetsGrant

// Conflict returns the scopes of the set that must not be given together with
// checks:write, if that is in it (S30).
func (s Scopes) Conflict() Scopes {
	if !s.Has(ChecksWrite) {
		return 0
	}
	return s & checksAlone
}

const freezes = FreezesWrite | FreezesRead

// Role is a name for a set of scopes.
type Role string

// The roles. Agent also reads only the records of its own principal.
const (
	Agent    Role = "agent"
	Author   Role = "author"
	Approver Role = "approver"
	Executor Role = "executor"
	Gateway  Role = "gateway" // for a proxy between agents and tools that move money: asks and redeems
	Auditor  Role = "auditor"
	Full     Role = "full"
)

// RoleForm describes what Role.Known accepts, for messages.
const RoleForm = "must be agent, author, approver, executor, gateway, auditor or full"

// Known reports whether there is such a role.
func (r Role) Known() bool { return r.Scopes() != unknownScope }

// Scopes returns the scopes of a role; a name that is no role has no scopes, which permits nothing.
func (r Role) Scopes() Scopes {
	switch r {
	case Agent:
		return ChecksWrite | PoliciesRead | OutcomesWrite | ChecksRead | BudgetsRead | ApprovalsRead | FreezesWrite
	case Author:
		return PoliciesRead | PoliciesWrite | ChecksRead | BudgetsRead | BacktestsWrite | freezes
	case Approver:
		return ApprovalsRead | ApprovalsDecide | ChecksRead | PoliciesRead | BudgetsRead | BudgetsGrant | freezes | FreezesRelease
	case Executor:
		return ChecksRedeem | OutcomesWrite | OutcomesRelease | ChecksRead | freezes
	case Gateway:
		return ChecksWrite | ChecksRedeem | OutcomesWrite | OutcomesRelease | PoliciesRead | ChecksRead | BudgetsRead | ApprovalsRead | freezes
	case Auditor:
		return ChecksRead | PoliciesRead | BudgetsRead | ApprovalsRead | EventsRead | FreezesRead
	case Full: // what every key could do before there were scopes, and later scopes except for deciding, granting, releasing and redeeming
		return 1<<len(scopeNames) - 1 - ApprovalsDecide - OutcomesRelease - ChecksRedeem - FreezesRelease - BudgetsGrant
	}
	return unknownScope
}
