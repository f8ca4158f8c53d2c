package hotpath

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// rawKeyPrefix begins every raw API key (S25).
const rawKeyPrefix = "svc_live_"

// NewVersion is the next version of a policy as it was sent.
type NewVersion struct {
	Policy *audit.Policy // gets its version and author when it is stored
	Drop   []string      // the rule_ids of budgets that it may empty (S63)
	Faults spend.Faults  // that were found in all but its rules
}

// CreatePolicy stores the next version of a policy whose rules compile. When it returns, every check
// that starts later on any node is judged by it (G4). Faults of the version and of its rules (with
// paths rules[i]) are returned together as spend.Faults. A key that is bound to other policies is
// refused by a ForbiddenError, a version that replaces another than the one in force (S54) by an
// audit.VersionError, and a version that would empty budgets by a BudgetsInUseError, unless it drops
// them. A version after one that requires approvals (S80) is refused by a ChangeNeedsApprovalError.
// After any other error the version may exist; versions stay consecutive. The caller must
// have been admitted with that access. by names the address of the request and, for an admin, the
// admin key, which overrides required approvals and nothing else.
func (a *Authorizer) CreatePolicy(ctx context.Context, access Access, by audit.Actor, v NewVersion) error {
	p := v.Policy
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	compiled, err := a.catalog.compileRules(stored, p.PolicyID, 0, p.Rules, &v.Faults)
	if err != nil {
		return err
	}
	p.Changes = policy.CompileChanges(p.Changes, &v.Faults)
	if err := v.Faults.Err(); err != nil {
		return err
	}
	if !access.SeesPolicy(p.PolicyID) {
		return access.notThis("policy_id", access.key.Grants.PolicyIDs)
	}
	by, err = a.unlessForced(stored, access, by, p.PolicyID, func(by audit.Actor) (bool, error) {
		err := a.store.CreatePolicy(stored, by, p, audit.NewBudgets{Identities: compiled.BudgetIdentities(), Drop: v.Drop}, a.now())
		return p.Forced, err
	})
	if refused := a.refusedPolicy(stored, access, p.PolicyID, v.Drop, err); refused != nil {
		return refused
	}
	if err != nil {
		return fmt.Errorf("%w: cannot store policy %s: %w", ErrUnavailable, p.PolicyID, err)
	}
	a.log.Info("policy created", "policy_id", p.PolicyID, "version", p.Version, "", &by)
	return a.guard.RaiseGeneration(ctx)
}

// refusedPolicy returns why the store refused a version of a policy; nil if it did not.
func (a *Authorizer) refusedPolicy(ctx context.Context, access Access, policyID string, drop []string, err error) error {
	if other, ok := errors.AsType[*audit.VersionError](err); ok {
		return other
	}
	if notEnded, ok := errors.AsType[*audit.NotEndedError](err); ok {
		var faults spend.Faults
		for _, id := range notEnded.RuleIDs {
			faults.Add(fmt.Sprintf("drop_budgets[%d]", slices.Index(drop, id)), "is no budget of the version before that ends with this one")
		}
		return faults
	}
	if inUse, ok := errors.AsType[*audit.BudgetsInUseError](err); ok {
		return a.budgetsInUse(ctx, access, policyID, inUse.RuleIDs)
	}
	if _, ok := errors.AsType[*audit.ChangeNeedsApprovalError](err); ok {
		return a.needsApproval(ctx, policyID, drop)
	}
	if errors.Is(err, audit.ErrPoliciesFull) || errors.Is(err, ErrUnauthorized) {
		return err
	}
	return nil
}

// NewKey has the properties of an API key to be made.
type NewKey struct {
	Name         string
	RateLimitRPM int // 1 to 10,000 requests a minute
	Grants       spend.Grants
}

// CreateKey makes an API key and returns the raw key, which is not kept. After an
// error the key may exist, and nobody has it.
func (a *Authorizer) CreateKey(ctx context.Context, by audit.Actor, n NewKey) (raw string, k *audit.Key, err error) {
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails: the runtime aborts without randomness
	raw = rawKeyPrefix + hex.EncodeToString(secret)
	now := a.now()
	k = &audit.Key{
		ID: spend.NewID(now), Hash: sha256.Sum256([]byte(raw)), Name: n.Name,
		RateLimitRPM: n.RateLimitRPM, Active: true, CreatedAt: now, Grants: n.Grants,
	}
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	if err := a.store.CreateKey(stored, by, k); err != nil {
		return "", nil, fmt.Errorf("%w: cannot store a key: %w", ErrUnavailable, err)
	}
	a.log.Info("key created", "key_id", k.ID.Text(spend.PrefixKey), "active", k.Active, "", &by)
	return raw, k, a.guard.RaiseGeneration(ctx)
}

// UpdateKey changes a key, on every node when it returns (G5), and counts what the change stopped. An unknown key
// is audit.ErrNotFound.
func (a *Authorizer) UpdateKey(
	ctx context.Context, by audit.Actor, id spend.ID, change audit.KeyChange,
) (k *audit.Key, stopped Stopped, err error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	if k, err = a.store.UpdateKey(stored, by, id, change); err != nil {
		return nil, stopped, fmt.Errorf("cannot change key %s: %w", id.Text(spend.PrefixKey), err)
	}
	a.log.Info("key changed", "key_id", k.ID.Text(spend.PrefixKey), "active", k.Active, "", &by)
	if change.Stops {
		return k, stopped, a.inForce(ctx, func() { stopped = a.countStopped(ctx, k) })
	}
	return k, Stopped{new(int64), new(int64)}, a.guard.RaiseGeneration(ctx)
}
