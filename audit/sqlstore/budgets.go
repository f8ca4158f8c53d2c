package sqlstore

import (
	"context"
	"fmt"
	"strings"

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
	keys := where{args: w.args}
	keys.in("key_id", q.KeyIDs)
	w.args = keys.args
	w.text += " AND (principal = " + w.arg(q.Principal) + " OR owner = " + w.arg(q.Owner) +
		strings.Replace(keys.text, " AND ", " OR ", 1) + ")"
	return list(ctx, s, "cannot list the checks of a person", func(row Row) (found spend.ID, err error) {
		return found, row.Scan(&found)
	}, "SELECT "+id+" FROM "+from+w.String()+fmt.Sprintf(" ORDER BY %s DESC LIMIT %d", id, q.Limit), w.args...)
}
