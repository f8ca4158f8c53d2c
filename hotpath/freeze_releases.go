package hotpath

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// counted returns the people whose release of the freeze counts now, each once.
func (a *Authorizer) counted(v *view, f *audit.Freeze) (people []audit.Person) {
	record := v.record()
	for i := range f.Releases {
		r := &f.Releases[i]
		by := record.PersonOf(r, asOfNow)
		if a.releases(v, r, f.Scope) && !slices.ContainsFunc(people, by.Shares) {
			people = append(people, by)
		}
	}
	return people
}

// releases reports whether a release counts by a view, as a decision would (S92): a key may release freezes of that scope now
// and might ever since, and nobody is the frozen principal by now. A session may release, as it could then.
func (a *Authorizer) releases(v *view, r *audit.Release, scope audit.FreezeScope) bool {
	by := r.Party()
	if k := v.named[by.KeyID]; k != nil {
		if r.Lapsed || !k.MayRelease(scope, a.now()) {
			return false
		}
		by = k.party()
	} else if _, err := spend.ParseID(by.KeyID, spend.PrefixSession); err != nil {
		return false
	}
	return scope.Kind != audit.FreezePrincipal || !v.isOf(by, scope.Folded().Value)
}

// ReleaseFreeze records the caller's release of a freeze, and replayed if the same person released it before. The freeze ends
// with the last release that is required. Errors: ErrKeyInactive, ErrKeyExpired, ErrFreezeNotFound, a *ForbiddenError,
// ErrFreezeNotActive, ErrFreezeOwn.
func (a *Authorizer) ReleaseFreeze(
	ctx context.Context, access Access, by audit.Actor, id spend.ID, note string,
) (*FreezeView, bool, error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	for range maxReclaims {
		v := a.catalog.view() // no newer than the freeze, which says whether releases lapsed
		access, err := v.current(access, spend.FreezesRelease, a.now)
		if err != nil {
			return nil, false, err
		}
		f, err := a.readFreeze(stored, access, id)
		if err != nil {
			return nil, false, err
		}
		completes, replayed, err := a.mayReleaseFreeze(v, access, f)
		if err != nil || replayed {
			if replayed { // the first request may not have raised the generation yet
				err = a.guard.RaiseGeneration(ctx)
			}
			return a.viewFreeze(f), replayed, err
		}
		by := access.decider(a, by)
		name, _ := access.person()
		err = a.store.ReleaseFreeze(stored, by, audit.FreezeRelease{Freeze: f, Keys: v.number, Note: note, Name: name, Completes: completes})
		if errors.Is(err, audit.ErrStaleFreeze) {
			if err := a.catalog.reload(stored); err != nil {
				return nil, false, err
			}
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("%w: cannot release a freeze: %w", ErrUnavailable, err)
		}
		a.log.Warn("freeze released", "freeze_id", id.Text(spend.PrefixFreeze), "completes", completes, "", &by)
		if err := a.guard.RaiseGeneration(ctx); err != nil {
			return nil, false, err
		}
		if err := a.catalog.reload(stored); err != nil {
			return nil, false, err
		}
		if f, err = a.store.Freeze(stored, id); err != nil {
			return nil, false, err
		}
		return a.viewFreeze(f), false, nil
	}
	return nil, false, fmt.Errorf("%w: a release was overtaken too often", ErrUnavailable)
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
	by, counted := access.key.party(), a.counted(v, f)
	again := slices.ContainsFunc(counted, audit.Person{by, by}.Shares)
	switch {
	case again && (f.Status != audit.FreezeActive || len(counted) < a.releasesRequired):
		return false, true, nil
	case f.Status != audit.FreezeActive:
		return false, false, ErrFreezeNotActive
	case f.Scope.Kind == audit.FreezePrincipal && v.isOf(by, f.Scope.Folded().Value):
		return false, false, ErrFreezeOwn
	}
	return again || len(counted)+1 >= a.releasesRequired, false, nil
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
