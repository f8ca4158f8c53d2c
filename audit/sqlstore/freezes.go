package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const selectFreezeChanges = `SELECT c.seq, c.kind, c.subject, coalesce(c.key_id, ''), coalesce(c.principal, ''),
	coalesce(c.credential, ''), c.at, c.details FROM changes AS c `

func scanFreezeChange(row Row) (c audit.Change, err error) {
	return c, row.Scan(&c.Seq, &c.Kind, &c.Subject, &c.By.KeyID, &c.By.Principal, &c.By.Credential, &c.At, &c.Details)
}

// Freeze implements audit.Freezes.
func (s *Store) Freeze(ctx context.Context, id spend.ID) (*audit.Freeze, error) {
	name := id.Text(spend.PrefixFreeze)
	doing := "cannot read freeze " + name
	changes, err := list(ctx, s, doing, scanFreezeChange, selectFreezeChanges+"WHERE c.subject = $1 ORDER BY c.seq", name)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	found, err := audit.FreezesOf(changes)
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// ListFreezes implements audit.Freezes.
func (s *Store) ListFreezes(ctx context.Context, q audit.FreezeQuery) (page []audit.Freeze, more bool, err error) {
	var w where
	if q.Before > 0 {
		w.and("seq < ", q.Before)
	}
	if q.Scope != nil {
		w.and("hash = ", q.Scope.Hash())
	}
	if q.Active != nil {
		not := map[bool]string{true: "NOT "}[*q.Active]
		w.text += " AND " + not + `EXISTS (SELECT 1 FROM changes AS e
			WHERE e.subject = b.subject AND e.kind IN ('freeze.released', 'freeze.ended'))`
	}
	changes, err := list(ctx, s, "cannot list freezes", scanFreezeChange, selectFreezeChanges+
		"WHERE c.subject IN (SELECT subject FROM changes AS b WHERE kind = 'freeze.created'"+w.text+
		fmt.Sprintf(" ORDER BY seq DESC LIMIT %d) ORDER BY c.seq", q.Limit+1), w.args...)
	if err != nil {
		return nil, false, err
	}
	page, err = audit.FreezesOf(changes)
	if err != nil {
		return nil, false, err
	}
	slices.Reverse(page)
	page, more = audit.Cut(page, q.Limit)
	return page, more, nil
}

// FreezeReach implements audit.Freezes.
func (s *Store) FreezeReach(ctx context.Context, scope audit.FreezeScope, since time.Time) ([]audit.FreezeReach, error) {
	var w where
	w.and("check_id >= ", audit.FirstID(since.UnixMilli()))
	switch scope.Kind {
	case audit.FreezePolicy, audit.FreezeAgent, audit.FreezeCounterparty:
		w.and(string(scope.Kind)+" = ", scope.Value)
	case audit.FreezeAll, audit.FreezePrincipal: // names are compared by the caller
	}
	return list(ctx, s, "cannot count the checks that a freeze reaches", func(row Row) (r audit.FreezeReach, err error) {
		return r, row.Scan(&r.Asker.KeyID, &r.Asker.Principal, &r.Asker.Owner, &r.Checks)
	}, "SELECT key_id, coalesce(principal, key_id), coalesce(owner, ''), count(*) FROM checks"+w.String()+" GROUP BY 1, 2, 3", w.args...)
}
