package hotpath

import (
	"context"
	"errors"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/spend"
	"spendgate/ratelimit"
)

// What the Authorizer refuses with; httpapi maps each to its answer.
var (
	ErrUnauthorized   = errors.New("missing or unknown API key")
	ErrKeyInactive    = errors.New("API key is deactivated")
	ErrRateLimited    = errors.New("rate limit reached")
	ErrPolicyNotFound = errors.New("no such policy")
	ErrKeyReused      = errors.New("idempotency key was used for a different request")
	ErrOverloaded     = errors.New("too many checks in flight")
	ErrUnavailable    = errors.New("a dependency cannot be reached")
)

// Authorizer answers checks and simulations.
type Authorizer struct{}

// Caller is who sent a request, as far as this node knows before it has asked
// Redis whether it knows the latest.
type Caller struct {
	hash  spend.Hash // of the raw API key
	demo  string     // the client address of a caller without a key
	noKey bool
}

// KeyCaller is the caller with that raw API key; an empty one is unauthorized.
func KeyCaller(raw []byte) Caller { return Caller{} }

// DemoCaller is a caller without a key, known by its address (S24).
func DemoCaller(address string) Caller { return Caller{} }

// Request is what a check or a simulation needs besides its body.
type Request struct {
	Caller  Caller
	ID      string    // req_...
	Started time.Time // when its first byte was read
}

// Answer is the outcome of a check.
type Answer struct {
	Check    *spend.Check
	Replayed bool // the recorded answer of an earlier request
}

// Admit authenticates the caller and counts the request. It is for requests
// that are not checks: reads go on without Redis (G7), others pass read false.
// The quota is valid also with ErrRateLimited; its Limit is 0 when unknown.
func (a *Authorizer) Admit(ctx context.Context, c Caller, read bool) (ratelimit.Quota, error) {
	panic("todo")
}

// Check authenticates, counts, guards, judges and records one action. The
// quota is as with Admit; the action is owned by the Authorizer from now on.
func (a *Authorizer) Check(ctx context.Context, r Request, action *spend.Action) (Answer, ratelimit.Quota, error) {
	panic("todo")
}

// Simulate judges the actions against the latest version of a policy and
// writes nothing (G10). The checks are in the order of the actions.
func (a *Authorizer) Simulate(ctx context.Context, r Request, policyID string, actions []*spend.Action) (checks []*spend.Check, policyVersion int, q ratelimit.Quota, err error) {
	panic("todo")
}

// CreatePolicy stores the next version of a policy whose rules compile. When
// it returns, every check that starts later on any node is judged by it (G4).
// Faults in the rules are spend.Faults with paths rules[i]...
func (a *Authorizer) CreatePolicy(ctx context.Context, p *audit.Policy) error { panic("todo") }

// CreateKey makes an API key and gives the raw key, which is not kept.
func (a *Authorizer) CreateKey(ctx context.Context, name string, rateLimitRPM int) (raw string, k *audit.Key, err error) {
	panic("todo")
}

// UpdateKey changes a key; on every node when it returns (G5).
func (a *Authorizer) UpdateKey(ctx context.Context, id spend.ID, change audit.KeyChange) (*audit.Key, error) {
	panic("todo")
}
