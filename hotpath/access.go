package hotpath

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/ratelimit"
)

// ForbiddenError refuses a request that the caller's key, though in force, does not permit (S31).
type ForbiddenError struct{ message string }

func (e *ForbiddenError) Error() string { return e.message }

// key is an API key as nodes use it.
type key struct {
	audit.Key
	name      string // its ID, as checks record it
	namespace string // of its idempotency keys
	counter   string // the name of its rate counter
	scopes    spend.Scopes
	people    []string       // the folded names of who is behind it (S62)
	used      *lastUse       // nil of a session
	session   *audit.Session // nil of a key
}

// ExpiringKeys returns the active keys that expire within some time from now on, as this node knows them.
func (a *Authorizer) ExpiringKeys(now time.Time, within time.Duration) (keys []audit.Key) {
	for _, k := range a.catalog.view().keys {
		if at := k.Grants.ExpiresAt; k.Active && at.After(now) && at.Sub(now) <= within {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// newKey returns a key, or what stands for one, whose ID has that prefix in checks.
func newKey(record *audit.Key, prefix string) *key {
	name := record.ID.Text(prefix)
	k := &key{
		Key: *record, name: name, counter: record.ID.Text(ratelimit.KeyPrefix), namespace: record.Grants.Namespace(name),
		scopes: record.Grants.Permitted(),
	}
	k.people = namesOf(k.party())
	return k
}

// party returns who is behind the key.
func (k *key) party() audit.Party {
	return audit.Party{KeyID: k.name, Principal: k.Grants.Principal, Owner: k.Grants.Owner}
}

// inForce refuses a key that is deactivated or expired.
func (k *key) inForce(now func() time.Time) error {
	switch {
	case !k.Active:
		return ErrKeyInactive
	case !k.Grants.ExpiresAt.IsZero() && !now().Before(k.Grants.ExpiresAt):
		return ErrKeyExpired
	}
	return nil
}

// Access is what an admitted caller may do and see (S30, S31). Without a key it is the zero value.
type Access struct{ key *key }

// AccessOf is the access of a key.
func AccessOf(k *audit.Key) Access { return Access{newKey(k, spend.PrefixKey)} }

// current returns the caller's access by what their key may do in a view: it may have changed since they were admitted.
func (v *view) current(access Access, scope spend.Scopes, now func() time.Time) (Access, error) {
	if k := v.named[access.keyID()]; k != nil {
		if err := k.inForce(now); err != nil {
			return access, err
		}
		access = Access{k}
	}
	return access, access.permit(scope)
}

// KeyHash returns the hash of the caller's key.
func (a Access) KeyHash() spend.Hash { return a.key.Hash }

// keyID returns the ID of the caller's key; empty without one.
func (a Access) keyID() string {
	if a.key == nil {
		return ""
	}
	return a.key.name
}

// used is nil of a caller without a key.
func (a Access) used() *lastUse {
	if a.key == nil {
		return nil
	}
	return a.key.used
}

// permit refuses a scope that the caller's key does not have.
func (a Access) permit(scope spend.Scopes) error {
	if a.key == nil || a.key.scopes.Has(scope) {
		return nil
	}
	return &ForbiddenError{"the key lacks the scope " + scope.String()}
}

// MayRedeem refuses a key that does not redeem.
func (a Access) MayRedeem() error { return a.permit(spend.ChecksRedeem) }

// permitAction refuses an action outside of the bindings of the caller's key.
func (a Access) permitAction(policyID, agentID string) error {
	switch {
	case !a.SeesPolicy(policyID):
		return a.notThis("policy_id", a.key.Grants.PolicyIDs)
	case !a.seesAgent(agentID):
		return a.notThis("agent_id", a.key.Grants.AgentIDs)
	}
	return nil
}

// maxBindingsShown is the maximum size, in bytes, of the bindings in a refusal's text.
const maxBindingsShown = 400

// notThis refuses a value that is not among the bindings of a key, and lists the bindings.
func (Access) notThis(member string, bound []string) error {
	text := "the key is not for this " + member + ", but for "
	for i, id := range bound {
		if i > 0 && len(text)+len(id) > maxBindingsShown {
			return &ForbiddenError{fmt.Sprintf("%s and %d more; GET /v1/keys/self has all", text, len(bound)-i)}
		}
		if i > 0 {
			text += ", "
		}
		text += id
	}
	return &ForbiddenError{text}
}

// SeesPolicy reports whether the bindings of the key include the policy. A policy belongs to no agent.
func (a Access) SeesPolicy(id string) bool {
	return a.key == nil || a.key.Grants.PolicyIDs == nil || slices.Contains(a.key.Grants.PolicyIDs, id)
}

func (a Access) seesAgent(id string) bool {
	return a.key == nil || a.key.Grants.AgentIDs == nil || slices.Contains(a.key.Grants.AgentIDs, id)
}

// own returns the principal whose records the caller may read; empty if the caller may read those of
// everybody.
func (a Access) own() string {
	if a.key == nil || a.key.Grants.Role != spend.Agent {
		return ""
	}
	return a.principal()
}

// namespace returns the namespace of the caller's idempotency keys (S59).
func (a Access) namespace() string {
	if a.key == nil {
		return ""
	}
	return a.key.namespace
}

// Nobody reports whether the namespace is that of this key alone, so that the key which replaces it has another one.
func (a Access) Nobody() bool { return a.key == nil || spend.SameName(a.key.namespace, a.key.name) }

// Payment returns the hash of a payment in the caller's namespace.
func (a Access) Payment(key string) spend.Hash { return spend.PaymentHash(a.namespace(), key) }

// principal returns the principal of the caller's key (S32); empty without a key.
func (a Access) principal() string {
	if a.key == nil {
		return ""
	}
	return cmp.Or(a.key.Grants.Principal, a.key.name)
}

// mayRelease reports whether the caller's reports may give back (S40).
func (a Access) mayRelease() bool { return a.key.scopes.Has(spend.OutcomesRelease) }

// KeyHashes returns the hashes under which the caller's checks with an idempotency key, and with the
// approval if it is not zero, are recorded for 24 hours.
func (a Access) KeyHashes(idempotencyKey string, approval spend.ID) []spend.Hash {
	action := spend.Action{IdempotencyKey: idempotencyKey, ApprovalID: approval}
	return []spend.Hash{action.KeyHash(a.namespace())}
}

// Sees reports whether the caller may read a check.
func (a Access) Sees(c *spend.Check) bool {
	own := a.own()
	return a.permitAction(c.Action.PolicyID, c.Action.AgentID) == nil &&
		(own == "" || spend.SameName(own, c.PrincipalName()))
}

// Bounds returns the records that the caller may read in lists.
func (a Access) Bounds() audit.Bounds {
	if a.key == nil {
		return audit.Bounds{}
	}
	return audit.Bounds{PolicyIDs: a.key.Grants.PolicyIDs, AgentIDs: a.key.Grants.AgentIDs, Principal: a.own()}
}
