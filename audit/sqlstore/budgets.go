package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// CounterPrincipals implements audit.Budgets.
func (s *Store) CounterPrincipals(ctx context.Context, counter spend.ID) ([]string, error) {
	return list(ctx, s, "cannot read whose checks a counter met", scalar[string],
		"SELECT principal FROM budget_principals WHERE counter_id = $1", counter)
}

// CountersMet implements audit.Budgets.
func (s *Store) CountersMet(ctx context.Context, principal string, counters []spend.ID) ([]spend.ID, error) {
	var w Where
	Among(&w, "counter_id", counters)
	w.And("principal = ", principal)
	return list(ctx, s, "cannot read whose counters are met", scalar[spend.ID],
		"SELECT counter_id FROM budget_principals"+w.String(), w.Args...)
}

// AskedBy implements audit.Budgets. It reads the violations of its window: no index serves it, since one would cost each check.
func (s *Store) AskedBy(ctx context.Context, q audit.AskedQuery) ([]spend.ID, error) {
	var w Where
	from, id := "checks", "check_id"
	if q.Refused {
		from, id = "violations", "id"
	}
	w.Range(id, q.From, q.Before)
	w.And("policy_id = ", q.PolicyID)
	w.And("coalesce(principal, key_id) = ", q.Principal)
	return list(ctx, s, "cannot list the checks of a principal", scalar[spend.ID],
		"SELECT "+id+" FROM "+from+w.String()+fmt.Sprintf(" ORDER BY %s DESC LIMIT %d", id, q.Limit), w.Args...)
}

// Askers implements audit.Keys.
func (s *Store) Askers(ctx context.Context) ([]audit.Asking, error) {
	const doing = "cannot read who could ask for checks"
	people, err := list(ctx, s, doing, func(row Row) (p audit.Asking, err error) {
		return p, row.Scan(&p.Principal, &p.Owner, &p.Since)
	}, "SELECT principal, owner, since FROM session_askers")
	if err != nil {
		return nil, err
	}
	keys, err := list(ctx, s, doing, func(row Row) (p audit.Asking, err error) {
		var c audit.Change
		if err := row.Scan(&c.Subject, &c.Details, &p.Since); err != nil {
			return p, err
		}
		at, err := audit.StandingOf(&c)
		if at.Grants.Permitted().Has(spend.ChecksWrite) {
			p.Party = at.Party
		}
		return p, err
	}, "SELECT subject, details, at FROM changes WHERE kind IN ('key.created', 'key.changed')")
	keys = slices.DeleteFunc(keys, func(p audit.Asking) bool { return p.KeyID == "" })
	return append(keys, people...), err
}
