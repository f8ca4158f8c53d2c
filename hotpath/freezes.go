package hotpath

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/metric"
	"spendgate/audit/spend"
	"spendgate/ratelimit"
)

// Errors of freezes (S87).
var (
	ErrFreezeNotFound  = errors.New("no such freeze")
	ErrFreezeNotActive = errors.New("the freeze is not active any more")
	ErrFreezeOwn       = errors.New("the caller is not told apart from the frozen principal")
	ErrTooManyFreezes  = errors.New("too many freezes are active")
)

const (
	// freezeRate is how many freezes and releases a key may request in a minute, refused ones included.
	freezeRate = 10
	// reachWithin bounds the count of what a freeze reaches.
	reachWithin = 200 * time.Millisecond
	reachSince  = 24 * time.Hour
)

// hitOf returns where a request counts: freezes and releases have a limit of their own.
func (id *identity) hitOf(scope spend.Scopes) ratelimit.Hit {
	if id.hit.Key != "" && scope&(spend.FreezesWrite|spend.FreezesRelease) != 0 {
		return ratelimit.Hit{Key: id.hit.Key + ":freezes", Limit: freezeRate}
	}
	return id.hit
}

// FreezeAsked is a request for a freeze.
type FreezeAsked struct {
	audit.NewFreeze
	IdempotencyKey string
}

// FreezeView is a freeze as it is shown.
type FreezeView struct {
	*audit.Freeze
	Required, Missing int
	Reaches           *FreezeReaches // of a new freeze, if it was counted in time
}

// FreezeReaches is what a freeze reaches: checks, and who asked for them.
type FreezeReaches struct{ Checks, Principals int64 }

// Freeze records a freeze. When it returns, the freeze is in force on every node: what was in flight is recorded without it,
// or blocked. The caller was admitted with that access; an admin has none. Errors: a *ForbiddenError, ErrPolicyNotFound,
// spend.Faults, ErrTooManyFreezes.
func (a *Authorizer) Freeze(
	ctx context.Context, access Access, by audit.Actor, asked FreezeAsked,
) (shown *FreezeView, replayed bool, err error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	by = access.actor(a, by)
	asked.Name, _ = access.person()
	if err := access.mayFreeze(asked.Scope); err != nil {
		return nil, false, err
	}
	if asked.Scope.Kind == audit.FreezePolicy {
		if _, err := a.catalog.program(asked.Scope.Value); errors.Is(err, ErrPolicyNotFound) || errors.Is(err, ErrUnavailable) {
			return nil, false, err
		}
	}
	if err := a.prove(stored); err != nil { // without Redis nothing is recorded
		return nil, false, err
	}
	asked.ID = spend.NewID(a.now())
	if asked.IdempotencyKey != "" {
		sum := sha256.Sum256([]byte("spendgate freeze\n" + access.slot() + "\n" + asked.IdempotencyKey))
		asked.ID = spend.ID(sum[:len(asked.ID)])
		if known, err := a.store.Freeze(stored, asked.ID); err == nil {
			return a.sameFreeze(ctx, asked, known)
		} else if !errors.Is(err, audit.ErrNotFound) {
			return nil, false, err
		}
	}
	created, replayed, err := a.createFreeze(stored, access, by, asked)
	if err != nil || replayed {
		if replayed {
			return a.sameFreeze(ctx, asked, created)
		}
		return nil, false, err
	}
	a.log.Warn("frozen", "freeze_id", created.ID.Text(spend.PrefixFreeze), "scope", string(created.Scope.Kind), "", &by)
	shown = a.viewFreeze(created)
	err = a.inForce(ctx, func() { shown.Reaches = a.reach(ctx, created) })
	return shown, false, err
}

// createFreeze records a freeze, within the bounds on how many are active.
func (a *Authorizer) createFreeze(
	ctx context.Context, access Access, by audit.Actor, asked FreezeAsked,
) (created *audit.Freeze, replayed bool, err error) {
	now, err := a.store.SignInBegins(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if !asked.Until.IsZero() && !asked.Until.After(now) {
		var faults spend.Faults
		faults.Add("until", "must be in the future")
		return nil, false, faults
	}
	for range maxReclaims {
		v := a.catalog.view()
		access, err := v.current(access, spend.FreezesWrite, a.now)
		if err == nil {
			err = access.mayFreeze(asked.Scope)
		}
		if err != nil {
			return nil, false, err
		}
		active, own := 0, 0
		for _, f := range v.freezes.all() {
			if !f.Until.IsZero() && !now.Before(f.Until) {
				continue
			}
			active++
			if spend.SameName(f.By.Principal, access.principal()) {
				own++
			}
		}
		bounded := access.key != nil && asked.Scope.Kind != audit.FreezeAll
		if bounded && active >= audit.MaxFreezes || access.freezesItself() && own > 0 {
			return nil, false, ErrTooManyFreezes
		}
		if asked.Seen = -1; access.key != nil {
			asked.Seen = v.stops
		}
		created, replayed, err = a.store.CreateFreeze(ctx, by, asked.NewFreeze)
		if !errors.Is(err, audit.ErrStaleStops) {
			return created, replayed, err
		}
		if err := a.catalog.reload(ctx); err != nil {
			return nil, false, err
		}
	}
	return nil, false, fmt.Errorf("%w: a freeze was overtaken too often", ErrUnavailable)
}

// sameFreeze answers a repeated request with the freeze as it is now. The first request may not have raised the generation yet.
func (a *Authorizer) sameFreeze(ctx context.Context, asked FreezeAsked, known *audit.Freeze) (*FreezeView, bool, error) {
	if !asked.Same(known) {
		var faults spend.Faults
		faults.Add("idempotency_key", "was used for a different request, that of "+known.ID.Text(spend.PrefixFreeze))
		return nil, false, faults
	}
	if known.Status == audit.FreezeActive {
		if err := a.inForce(ctx, func() {}); err != nil {
			return nil, false, err
		}
	}
	return a.viewFreeze(known), true, nil
}

// slot returns the namespace of the idempotency keys of freezes, in which admins have one of their own.
func (a Access) slot() string {
	if a.key == nil {
		return "\x00admin"
	}
	return a.key.namespace
}

// freezesItself reports whether the key freezes its own principal only.
func (a Access) freezesItself() bool {
	return a.key != nil && (a.key.Grants.Role == spend.Agent || a.key.Grants.Scopes.Has(spend.ChecksWrite|spend.FreezesWrite))
}

// mayFreeze refuses a scope that the caller may not freeze.
func (a Access) mayFreeze(scope audit.FreezeScope) error {
	switch {
	case a.freezesItself():
		if scope.Kind != audit.FreezePrincipal || !spend.SameName(scope.Value, a.principal()) {
			return &ForbiddenError{"the key freezes its own principal only"}
		}
	case !a.freezesInside(scope):
		return &ForbiddenError{"the key freezes and releases only what it is bound to"}
	}
	return nil
}

// freezesInside reports whether the scope is inside the bindings of the key.
func (a Access) freezesInside(scope audit.FreezeScope) bool {
	return a.key == nil || scope.Inside(&a.key.Grants)
}

// seesFreeze reports whether the caller may read a freeze: inside of its bindings, and what stops it.
func (a Access) seesFreeze(scope audit.FreezeScope) bool {
	switch {
	case a.freezesInside(scope):
		return true
	case scope.Kind == audit.FreezePrincipal:
		return slices.Contains(a.key.people, scope.Folded().Value)
	case scope.Kind == audit.FreezePolicy:
		return a.key.Grants.PolicyIDs == nil
	case scope.Kind == audit.FreezeAgent:
		return a.key.Grants.AgentIDs == nil
	}
	return true
}

// reach counts what a freeze reaches; nil if that takes too long.
func (a *Authorizer) reach(ctx context.Context, f *audit.Freeze) *FreezeReaches {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	all, err := a.store.FreezeReach(ctx, f.Scope, a.now().Add(-reachSince))
	if err != nil {
		return nil
	}
	reaches := new(FreezeReaches)
	principals := make(map[string]bool)
	folded := f.Scope.Folded()
	for _, r := range all {
		if folded.Kind == audit.FreezePrincipal && !slices.Contains(namesOf(r.Asker), folded.Value) {
			continue
		}
		reaches.Checks += r.Checks
		principals[spend.FoldName(r.Asker.Principal)] = true
	}
	reaches.Principals = int64(len(principals))
	return reaches
}

// FreezeOf returns a freeze that the caller may read.
func (a *Authorizer) FreezeOf(ctx context.Context, access Access, id spend.ID) (*FreezeView, error) {
	f, err := a.readFreeze(ctx, access, id)
	if err != nil {
		return nil, err
	}
	return a.viewFreeze(f), nil
}

func (a *Authorizer) readFreeze(ctx context.Context, access Access, id spend.ID) (*audit.Freeze, error) {
	f, err := a.store.Freeze(ctx, id)
	if errors.Is(err, audit.ErrNotFound) || err == nil && !access.seesFreeze(f.Scope) {
		return nil, ErrFreezeNotFound
	}
	return f, err
}

// maxFreezesExamined bounds how many freezes a page for a bound key looks at.
const maxFreezesExamined = 10 * 100

// ListFreezes returns a page of the freezes that the caller may read, newest first.
func (a *Authorizer) ListFreezes(ctx context.Context, access Access, q audit.FreezeQuery) (page []FreezeView, more bool, err error) {
	limit := q.Limit
	for range maxFreezesExamined {
		var found []audit.Freeze
		found, more, err = a.store.ListFreezes(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for i := range found {
			f := &found[i]
			q.Before = f.Seq
			if !access.seesFreeze(f.Scope) || q.Active != nil && *q.Active != (f.Status == audit.FreezeActive) { // it may be over unrecorded
				continue
			}
			if len(page) == limit {
				return page, true, nil
			}
			page = append(page, *a.viewFreeze(f))
		}
		if !more {
			break
		}
	}
	return page, more, nil
}

// viewFreeze shows a freeze by the keys as they are now.
func (a *Authorizer) viewFreeze(f *audit.Freeze) *FreezeView {
	shown := &FreezeView{Freeze: f, Required: a.releasesRequired}
	if f.Status == audit.FreezeActive {
		shown.Missing = max(1, a.releasesRequired-len(a.counted(a.catalog.view(), f)))
	}
	return shown
}

// measureFreezes registers how many freezes are active, as this node knows them, and since when the oldest is.
func (a *Authorizer) measureFreezes(reg prometheus.Registerer) {
	with, active := metric.Of(reg, ""), func() []*audit.Freeze { return a.catalog.view().freezes.all() }
	with.Reading("freezes_active", "Active freezes.", func() float64 { return float64(len(active())) })
	with.Reading("freeze_oldest_seconds", "Age of the oldest active freeze; 0 without one.", func() float64 {
		all := active()
		if len(all) == 0 {
			return 0
		}
		return a.now().Sub(all[0].CreatedAt).Seconds()
	})
}

// EndFreezes records that the time of freezes is over. Any node may call it at any time, and some node must every few seconds.
func (a *Authorizer) EndFreezes(ctx context.Context) error {
	var ended bool
	for _, f := range a.catalog.view().freezes.all() {
		if f.Until.IsZero() || a.now().Before(f.Until) {
			continue
		}
		if err := a.store.EndFreeze(ctx, f); err != nil {
			return fmt.Errorf("%w: cannot end a freeze: %w", ErrUnavailable, err)
		}
		ended = true
	}
	if !ended {
		return nil
	}
	return a.catalog.reload(ctx)
}
