package hotpath

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// ErrBacktestEnded refuses to cancel a backtest that has succeeded or failed.
var ErrBacktestEnded = errors.New("the backtest has ended")

// PermitBacktests refuses a key that is bound to agents, since a backtest covers the checks of all
// agents of a policy.
func (a Access) PermitBacktests() error {
	if a.key != nil && a.key.Grants.AgentIDs != nil {
		return &ForbiddenError{"the key is bound to agents, and a backtest is about all of a policy's"}
	}
	return nil
}

// ReadsChecks reports whether the caller may read checks.
func (a Access) ReadsChecks() bool { return a.permit(spend.ChecksRead) == nil }

// CreateBacktest stores a backtest, which some node runs. The faults that were found in
// the rest of the request, and faults of its rules, are returned together as
// spend.Faults. Errors: a ForbiddenError, ErrPolicyNotFound, audit.ErrBacktestsFull.
func (a *Authorizer) CreateBacktest(ctx context.Context, access Access, b *audit.Backtest, faults spend.Faults) error {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	if b.Rules != "" {
		if _, err := a.catalog.compileRules(stored, b.PolicyID, 0, b.Rules, &faults); err != nil {
			return err
		}
	}
	if err := faults.Err(); err != nil {
		return err
	}
	if !access.SeesPolicy(b.PolicyID) {
		return access.notThis("policy_id", access.key.Grants.PolicyIDs)
	}
	if err := access.PermitBacktests(); err != nil {
		return err
	}
	_, err := a.store.Policy(stored, b.PolicyID, b.Version)
	if errors.Is(err, audit.ErrNotFound) {
		return &PolicyNotFoundError{b.PolicyID}
	}
	if err != nil {
		return fmt.Errorf("%w: cannot read policy %s: %w", ErrUnavailable, b.PolicyID, err)
	}
	b.CreatedAt = a.now().UTC().Truncate(time.Millisecond)
	b.ID, b.Status = spend.NewID(b.CreatedAt), audit.BacktestQueued
	b.KeyID, b.Principal = access.keyID(), access.principal()
	return a.store.CreateBacktest(stored, b)
}

// CancelBacktest cancels a backtest that has not ended, and returns its new state. A canceled backtest
// stays canceled. Unless an admin forces it, a caller of another principal than the one that began it is
// refused by a ForbiddenError.
func (a *Authorizer) CancelBacktest(ctx context.Context, access Access, b *audit.Backtest, forced bool) (*audit.Backtest, error) {
	if !forced && !spend.SameName(access.principal(), b.Principal) {
		return nil, &ForbiddenError{"the backtest is of another principal: who began it cancels it, or an admin with the admin key"}
	}
	b, err := a.store.CancelBacktest(ctx, b.ID)
	if err == nil && b.Status != audit.BacktestCanceled {
		return nil, ErrBacktestEnded
	}
	return b, err
}
