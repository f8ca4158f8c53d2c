package hotpath

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
	"spendgate/ratelimit"
)

// Admit authenticates the caller, counts the request and then refuses a key without that scope; a zero
// scope asks for none. It is for requests that are not checks. Without Redis, reads are still served
// (G7): the key's state is then taken from the store and requests are counted by this node alone.
// Other requests pass read false. The quota is valid also with ErrRateLimited and a ForbiddenError;
// its Limit is 0 when nothing is known.
func (a *Authorizer) Admit(ctx context.Context, c Caller, scope spend.Scopes, read bool) (Access, ratelimit.Quota, error) {
	var ad admission
	q, err := a.admit(ctx, c, scope, &ad)
	if read && errors.Is(err, ErrUnavailable) {
		return a.admitLocally(ctx, c, scope)
	}
	return ad.access, q, err
}

// Authenticate refuses a caller who may not make checks, before the rest of the request is processed.
// It counts nothing, unless the key is in force and lacks the scope. A key that this node knows costs
// no round trip: Check proves that it is still in force.
func (a *Authorizer) Authenticate(ctx context.Context, c Caller) (ratelimit.Quota, error) {
	view := a.catalog.view()
	id := view.identify(c, a.now)
	if id.err == nil && id.access.permit(spend.ChecksWrite) == nil {
		return ratelimit.Quota{}, nil
	}
	if id.err != nil {
		r, err := a.guard.Ask(ctx, ratelimit.Hit{})
		if err != nil {
			return ratelimit.Quota{}, err
		}
		if r.Generation != view.generation {
			if err := a.catalog.load(ctx, r.Generation); err != nil {
				return ratelimit.Quota{}, err
			}
		}
		if id = a.catalog.view().identify(c, a.now); id.err != nil || id.access.permit(spend.ChecksWrite) == nil {
			return ratelimit.Quota{}, id.err
		}
	}
	_, q, err := a.Admit(ctx, c, spend.ChecksWrite, false) // which proves it
	return q, err
}

// admission collects what is known about a request so far.
type admission struct {
	// fresh: the configuration was loaded, or proved unchanged, since the
	// request began. Whatever changes after that need not bind it (G4, G5), so
	// that a stream of changes starves nobody.
	fresh  bool
	paid   *guard.Reading // in which the request was counted, which is done once
	access Access         // of the caller, whose key is in force
}

// admit proves the caller's identity fresh, counts the request and refuses a key
// without the scope.
func (a *Authorizer) admit(ctx context.Context, c Caller, scope spend.Scopes, ad *admission) (ratelimit.Quota, error) {
	for range maxReclaims {
		view := a.catalog.view()
		id := view.identify(c, a.now)
		id.hit = id.hitOf(scope)
		hit := id.hit
		if ad.paid != nil {
			hit = ratelimit.Hit{}
		}
		r, err := a.guard.Ask(ctx, hit)
		if err != nil {
			return ratelimit.Quota{}, err
		}
		if r.Counted {
			ad.paid = &r
		}
		if !ad.fresh && r.Generation != view.generation {
			if err := a.catalog.load(ctx, r.Generation); err != nil {
				return ratelimit.Quota{}, err
			}
			ad.fresh = true
			continue
		}
		ad.fresh = true
		if id.err != nil {
			return ratelimit.Quota{}, id.err
		}
		ad.access = id.access
		if ad.paid != nil {
			r.Place, r.Counted = ad.paid.Place, true
		}
		q, admitted := r.Place.Judge(id.hit.Limit)
		if admitted {
			return q, id.access.permit(scope)
		}
		if !r.Counted && r.Place.Ended(r.Now) {
			continue // refused from memory, in a window that is over
		}
		a.guard.Refuse(id.hit, r)
		a.metrics.limited.Inc()
		return q, ErrRateLimited
	}
	return ratelimit.Quota{}, fmt.Errorf("%w: a rate window keeps ending", ErrUnavailable)
}

// keyWithin is how long the store may take for a key: less than a check may
// take, for Redis was waited for before.
const keyWithin = 1200 * time.Millisecond

// admitLocally admits a read while Redis is away.
func (a *Authorizer) admitLocally(ctx context.Context, c Caller, scope spend.Scopes) (Access, ratelimit.Quota, error) {
	if !c.keyed {
		return Access{}, ratelimit.Quota{}, ErrUnauthorized
	}
	access := Access{c.session}
	if access.key == nil {
		ctx, cancel := context.WithTimeout(ctx, keyWithin)
		defer cancel()
		k, err := a.store.KeyByHash(ctx, c.hash)
		switch {
		case errors.Is(err, audit.ErrNotFound):
			return Access{}, ratelimit.Quota{}, ErrUnauthorized
		case err != nil:
			return Access{}, ratelimit.Quota{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		access = AccessOf(k)
	}
	if err := access.key.inForce(a.now); err != nil {
		return Access{}, ratelimit.Quota{}, err
	}
	q, admitted := a.local.count(access.key.ID, a.now()).Judge(access.key.RateLimitRPM)
	if !admitted {
		a.metrics.limited.Inc()
		return Access{}, q, ErrRateLimited
	}
	return access, q, access.permit(scope)
}

// localWindows count reads on this node alone while Redis is away.
type localWindows struct {
	mu     sync.Mutex
	places map[spend.ID]ratelimit.Place
}

func newLocalWindows() *localWindows {
	return &localWindows{places: make(map[spend.ID]ratelimit.Place)}
}

func (l *localWindows) count(key spend.ID, now time.Time) ratelimit.Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[key]
	if p.Ended(now) {
		p = ratelimit.Place{ExpiresMS: now.Add(ratelimit.Window).UnixMilli()}
	}
	p.Position++
	l.places[key] = p
	return p
}
