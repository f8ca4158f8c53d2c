package hotpath

import (
	"context"
	"fmt"
	"sync"

	"spendgate/audit/spend"
)

// redeemTerms returns the terms of redemption of the policy version that allowed a check.
func (a *Authorizer) redeemTerms(ctx context.Context, check *spend.Check) (spend.RedeemTerms, error) {
	version := policyVersion{check.Action.PolicyID, check.Decision.PolicyVersion}
	if p, _ := a.catalog.cached(version.id); p != nil && p.Version() == version.version {
		return p.RedeemTerms(), nil
	}
	if t, ok := a.terms.of(version); ok {
		return t, nil
	}
	p, err := a.store.Policy(ctx, version.id, version.version)
	if err != nil {
		return spend.RedeemTerms{}, fmt.Errorf("%w: cannot read the policy of a check: %w", ErrUnavailable, err)
	}
	a.terms.keep(version, p.Redeem)
	return p.Redeem, nil
}

type policyVersion struct {
	id      string
	version int
}

// redeemTerms are the terms of versions that are not in memory; versions never change.
type redeemTerms struct {
	mu    sync.Mutex
	known map[policyVersion]spend.RedeemTerms
	last  map[string]int // the version of a policy that was asked for last
}

func (t *redeemTerms) of(v policyVersion) (spend.RedeemTerms, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	terms, ok := t.known[v]
	if ok {
		t.last[v.id] = v.version
	}
	return terms, ok
}

// ofLast returns the version of a policy that was asked for last; 0 is none.
func (t *redeemTerms) ofLast(policyID string) (version int, terms spend.RedeemTerms) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version = t.last[policyID]
	return version, t.known[policyVersion{policyID, version}]
}

func (t *redeemTerms) keep(v policyVersion, terms spend.RedeemTerms) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxPrograms {
		t.known, t.last = make(map[policyVersion]spend.RedeemTerms), make(map[string]int)
	}
	t.known[v], t.last[v.id] = terms, v.version
}
