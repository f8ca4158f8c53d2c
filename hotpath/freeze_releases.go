package hotpath

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// counted returns the people whose release of the freeze counts now: of each person the first release.
func (a *Authorizer) counted(v *view, f *audit.Freeze) (people []audit.Party) {
	for i := range f.Releases {
		r := &f.Releases[i]
		by := r.Party()
		if a.releases(v, r, f.Scope) && !slices.ContainsFunc(people, by.Shares) {
			people = append(people, by)
		}
	}
	return people
}

// releases reports whether a release counts by a view, as a decision would (S92): a key may release freezes of that scope now
// and was not stopped since, and nobody is the frozen principal by now. A session may release, as it could then.
func (a *Authorizer) releases(v *view, r *audit.Release, scope audit.FreezeScope) bool {
	by := r.Party()
	if k := v.named[by.KeyID]; k != nil {
		if k.inForce(a.now) != nil || max(k.Stopped, k.GranterSince) > r.Seq ||
			!k.scopes.Has(spend.FreezesRelease) || !(Access{k}).freezesInside(scope) {
			return false
		}
		by = k.party()
	} else if _, err := spend.ParseID(by.KeyID, spend.PrefixSession); err != nil {
		return false
	}
	return scope.Kind != audit.FreezePrincipal || !v.isOf(by, scope.Folded().Value)
}

// ReleaseFreeze records the caller's release of a freeze, and replayed if the same person released it before. The freeze ends
// with the last release that is required. Errors: ErrFreezeNotFound, a *ForbiddenError, ErrFreezeNotActive, ErrFreezeOwn.
func (a *Authorizer) ReleaseFreeze(ctx context.Context, access Access, by audit.Actor, id spend.ID, note string) (FreezeView, bool, error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	by = access.actor(a, by)
	if access.key != nil {
		by.Owner = access.key.Grants.Owner
	}
	name, _ := access.person()
	for range maxReclaims {
		f, err := a.readFreeze(stored, access, id)
		if err != nil {
			return FreezeView{}, false, err
		}
		v := a.catalog.view()
		completes, replayed, err := a.mayReleaseFreeze(v, access, f)
		if err != nil || replayed {
			if replayed { // the first request may not have raised the generation yet
				err = a.guard.RaiseGeneration(ctx)
			}
			return a.viewFreeze(f), replayed, err
		}
		err = a.store.ReleaseFreeze(stored, by, audit.FreezeRelease{Freeze: f, Keys: v.number, Note: note, Name: name, Completes: completes})
		if errors.Is(err, audit.ErrStaleFreeze) {
			if err := a.catalog.reload(stored); err != nil {
				return FreezeView{}, false, err
			}
			continue
		}
		if err != nil {
			return FreezeView{}, false, fmt.Errorf("%w: cannot release a freeze: %w", ErrUnavailable, err)
		}
		a.log.Warn("freeze released", "freeze_id", id.Text(spend.PrefixFreeze), "completes", completes, "", &by)
		if err := a.guard.RaiseGeneration(ctx); err != nil {
			return FreezeView{}, false, err
		}
		if err := a.catalog.reload(stored); err != nil {
			return FreezeView{}, false, err
		}
		if f, err = a.store.Freeze(stored, id); err != nil {
			return FreezeView{}, false, err
		}
		return a.viewFreeze(f), false, nil
	}
	return FreezeView{}, false, fmt.Errorf("%w: a release was overtaken too often", ErrUnavailable)
}

// mayReleaseFreeze refuses a release, and reports whether it completes what is required, or the same person released before.
func (a *Authorizer) mayReleaseFreeze(v *view, access Access, f *audit.Freeze) (completes, replayed bool, err error) {
	if access.key == nil {
		if f.Status != audit.FreezeActive {
			return false, f.Status == audit.FreezeReleased && slices.ContainsFunc(f.Releases, byAdmin), orNotActive(f)
		}
		return true, false, nil
	}
	if !access.freezesInside(f.Scope) {
		return false, false, &ForbiddenError{"the key freezes and releases only what it is bound to"}
	}
	by := audit.Party{KeyID: access.key.name, Principal: access.principal(), Owner: access.key.Grants.Owner}
	counted := a.counted(v, f)
	switch {
	case slices.ContainsFunc(counted, by.Shares):
		return false, true, nil
	case f.Status != audit.FreezeActive:
		return false, false, ErrFreezeNotActive
	case f.Scope.Kind == audit.FreezePrincipal && v.isOf(by, f.Scope.Folded().Value):
		return false, false, ErrFreezeOwn
	}
	return len(counted)+1 >= a.releasesRequired, false, nil
}

func byAdmin(r audit.Release) bool { return r.By.Kind() == audit.KindAdmin }

// orNotActive refuses an admin's release of a freeze that no admin released.
func orNotActive(f *audit.Freeze) error {
	if slices.ContainsFunc(f.Releases, byAdmin) {
		return nil
	}
	return ErrFreezeNotActive
}

// isOf reports whether these people are not told apart from a principal: by its name, or by that of a key of the principal.
func (v *view) isOf(by audit.Party, folded string) bool {
	names := namesOf(by)
	if slices.Contains(names, folded) {
		return true
	}
	for _, k := range v.keys {
		if slices.Contains(k.people, folded) && slices.ContainsFunc(k.people, func(name string) bool { return slices.Contains(names, name) }) {
			return true
		}
	}
	return false
}
