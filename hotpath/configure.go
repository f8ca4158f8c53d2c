package hotpath

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"spendgate/audit"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/spend"
)

// rawKeyPrefix begins every raw API key (S25).
const rawKeyPrefix = "svc_live_"

// CreatePolicy stores the next version of a policy whose rules compile. When
// it returns, every check that starts later on any node is judged by it (G4).
// The faults that were found in the rest of the policy, and those in the rules
// with paths rules[i], are returned together as spend.Faults. After another
// error the version may exist all the same; versions stay consecutive. The
// caller was admitted.
func (a *Authorizer) CreatePolicy(ctx context.Context, c Caller, p *audit.Policy, faults spend.Faults) error {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	if err := a.catalog.compiles.take(stored); err != nil {
		return fmt.Errorf("%w: too many policies are compiled: %w", ErrOverloaded, err)
	}
	policy.Compile(p.PolicyID, 0, p.Rules, &faults)
	a.catalog.compiles.free()
	if err := faults.Err(); err != nil {
		return err
	}
	a.catalog.view().identify(c).used.note(a.now())
	err := a.store.CreatePolicy(stored, p, a.now())
	if errors.Is(err, audit.ErrPoliciesFull) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: cannot store policy %s: %w", ErrUnavailable, p.PolicyID, err)
	}
	return a.guard.RaiseGeneration(ctx)
}

// CreateKey makes an API key of 1 to 10,000 requests a minute and gives the raw
// key, which is not kept. After an error the key may exist, and nobody has it.
func (a *Authorizer) CreateKey(ctx context.Context, name string, rateLimitRPM int) (raw string, k *audit.Key, err error) {
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails: the runtime aborts without randomness
	raw = rawKeyPrefix + hex.EncodeToString(secret)
	now := a.now()
	k = &audit.Key{
		ID: spend.NewID(now), Hash: hashRawKey([]byte(raw)), Name: name,
		RateLimitRPM: rateLimitRPM, Active: true, CreatedAt: now,
	}
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	if err := a.store.CreateKey(stored, k); err != nil {
		return "", nil, fmt.Errorf("%w: cannot store a key: %w", ErrUnavailable, err)
	}
	return raw, k, a.guard.RaiseGeneration(ctx)
}

// UpdateKey changes a key, on every node when it returns (G5). An unknown key
// is audit.ErrNotFound.
func (a *Authorizer) UpdateKey(ctx context.Context, id spend.ID, change audit.KeyChange) (*audit.Key, error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	k, err := a.store.UpdateKey(stored, id, change)
	if err != nil {
		return nil, fmt.Errorf("cannot change key %s: %w", id.Text(spend.PrefixKey), err)
	}
	return k, a.guard.RaiseGeneration(ctx)
}
