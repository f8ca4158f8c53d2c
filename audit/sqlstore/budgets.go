package sqlstore

import (
	"context"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// CounterPrincipals implements audit.Budgets.
func (s *Store) CounterPrincipals(ctx context.Context, counter spend.ID) ([]string, error) {
	return list(ctx, s, "cannot read whose checks a counter met", func(row Row) (principal string, err error) {
		return principal, row.Scan(&principal)
	}, "SELECT principal FROM budget_principals WHERE counter_id = $1", counter)
}

// AskedBy implements audit.Budgets.
func (s *Store) AskedBy(ctx context.Context, q audit.AskedQuery) ([]spend.ID, error) {
	var w where
	from, id := "checks", "check_id"
	if q.Refused {
		from, id = "violations", "id"
	}
	w.and(id+" >= ", q.From)
	w.and(id+" < ", q.Before)
	w.and("policy_id = ", q.PolicyID)
	in(&w, "key_id", q.KeyIDs)
	return list(ctx, s, "cannot list the checks of API keys", func(row Row) (found spend.ID, err error) {
		return found, row.Scan(&found)
	}, "SELECT "+id+" FROM "+from+w.String()+fmt.Sprintf(" ORDER BY %s DESC LIMIT %d", id, q.Limit), w.args...)
}

// KeyParties implements audit.Keys.
func (s *Store) KeyParties(ctx context.Context) ([]audit.Party, error) {
	const doing = "cannot read who keys were"
	sessions, err := list(ctx, s, doing, func(row Row) (p audit.Party, err error) {
		var id spend.ID
		var g spend.Grants
		err = row.Scan(&id, parse(&g, spend.ParseGrants))
		return audit.Party{KeyID: id.Text(spend.PrefixSession), Principal: g.Principal, Owner: g.Owner}, err
	}, "SELECT id, grants FROM sessions")
	if err != nil {
		return nil, err
	}
	keys, err := list(ctx, s, doing, func(row Row) (p audit.Party, err error) {
		var c audit.Change
		if err := row.Scan(&c.Subject, &c.Details); err != nil {
			return p, err
		}
		at, err := audit.StandingOf(&c)
		return at.Party, err
	}, "SELECT subject, details FROM changes WHERE kind IN ('key.created', 'key.changed')")
	return append(keys, sessions...), err
}
