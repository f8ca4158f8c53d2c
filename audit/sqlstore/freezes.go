package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Freeze implements audit.Freezes.
func (s *Store) Freeze(ctx context.Context, id spend.ID) (*audit.Freeze, error) {
	f, err := subject(ctx, s, id.Text(spend.PrefixFreeze), audit.FreezesOf)
	if err == nil {
		err = s.lapse(ctx, f)
	}
	return f, err
}

// lapse marks a freeze by the time, and its releases by the changes of their keys.
func (s *Store) lapse(ctx context.Context, f *audit.Freeze) error {
	if f.Status == audit.FreezeActive && !f.Until.IsZero() {
		now, err := s.SignInBegins(ctx)
		if err != nil {
			return err
		}
		if !now.Before(f.Until) {
			f.Status, f.EndedAt = audit.FreezeOver, f.Until
		}
	}
	for i := range f.Releases {
		r := &f.Releases[i]
		changes, err := list(ctx, s, "cannot read the changes of a key", ScanChange, selectSubject, r.By.KeyID)
		if err == nil {
			err = r.Lapse(f.Scope, changes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BudgetGrant implements audit.BudgetGrants.
func (s *Store) BudgetGrant(ctx context.Context, id spend.ID) (*audit.BudgetGrant, error) {
	return subject(ctx, s, id.Text(spend.PrefixGrant), audit.GrantsOf)
}

const selectSubject = selectChanges + " WHERE subject = $1 ORDER BY seq"

// subject reads what is its changes.
func subject[T any](ctx context.Context, s *Store, name string, of func([]audit.Change) ([]T, error)) (*T, error) {
	doing := "cannot read " + name
	changes, err := list(ctx, s, doing, ScanChange, selectSubject, name)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	found, err := of(changes)
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// subjects reads a page of what is its changes, newest first, by a condition on their creations.
func subjects[T any](
	ctx context.Context, s *Store, kind audit.ChangeKind, w Where, limit int, of func([]audit.Change) ([]T, error),
) (page []T, more bool, err error) {
	stem, _, _ := strings.Cut(string(kind), ".") // the index has all changes of such subjects
	changes, err := list(ctx, s, "cannot list the subjects of "+string(kind), ScanChange, selectChanges+
		" WHERE subject IN (SELECT subject FROM changes AS b WHERE kind LIKE '"+stem+".%' AND kind = '"+string(kind)+"'"+w.Text+
		fmt.Sprintf(" ORDER BY seq DESC LIMIT %d) ORDER BY seq", limit+1), w.Args...)
	if err != nil {
		return nil, false, err
	}
	if page, err = of(changes); err != nil {
		return nil, false, err
	}
	slices.Reverse(page)
	page, more = audit.Cut(page, limit)
	return page, more, nil
}

// ListBudgetGrants implements audit.BudgetGrants.
func (s *Store) ListBudgetGrants(ctx context.Context, q audit.GrantQuery) (page []audit.BudgetGrant, more bool, err error) {
	var w Where
	if q.Before > 0 {
		w.And("seq < ", q.Before)
	}
	return subjects(ctx, s, audit.GrantCreated, w, q.Limit, audit.GrantsOf)
}

// ListFreezes implements audit.Freezes.
func (s *Store) ListFreezes(ctx context.Context, q audit.FreezeQuery) (page []audit.Freeze, more bool, err error) {
	var w Where
	if q.Before > 0 {
		w.And("seq < ", q.Before)
	}
	if q.Scope != nil {
		w.And("hash = ", q.Scope.Hash())
	}
	if q.Active != nil {
		not := map[bool]string{true: "NOT "}[*q.Active]
		w.Text += " AND " + not + `EXISTS (SELECT 1 FROM changes AS e
			WHERE e.subject = b.subject AND e.kind IN ('freeze.released', 'freeze.ended'))`
	}
	page, more, err = subjects(ctx, s, audit.FreezeCreated, w, q.Limit, audit.FreezesOf)
	for i := range page {
		if err == nil && page[i].Status == audit.FreezeActive {
			err = s.lapse(ctx, &page[i])
		}
	}
	return page, more, err
}

// FreezeReach implements audit.Freezes.
func (s *Store) FreezeReach(ctx context.Context, scope audit.FreezeScope, since time.Time) ([]audit.FreezeReach, error) {
	var w Where
	w.And("check_id >= ", audit.FirstID(since.UnixMilli()))
	switch scope.Kind {
	case audit.FreezePolicy, audit.FreezeAgent, audit.FreezeCounterparty:
		w.And(string(scope.Kind)+" = ", scope.Value)
	case audit.FreezeAll, audit.FreezePrincipal: // names are compared by the caller
	}
	return list(ctx, s, "cannot count the checks that a freeze reaches", func(row Row) (r audit.FreezeReach, err error) {
		return r, row.Scan(&r.Asker.KeyID, &r.Asker.Principal, &r.Asker.Owner, &r.Checks)
	}, "SELECT key_id, coalesce(principal, key_id), coalesce(owner, ''), count(*) FROM checks"+w.String()+" GROUP BY 1, 2, 3", w.Args...)
}
