package postgres

import (
	"context"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
)

// byActor completes the call of a function whose last argument is the actor.
func byActor(call string, by audit.Actor, args ...any) textStatement {
	n := len(args)
	call += fmt.Sprintf("ROW($%d, $%d, $%d, $%d, $%d, $%d)::actor)", n+1, n+2, n+3, n+4, n+5, n+6)
	return textCall(call, append(args, by.Kind(), orNull(by.KeyID), orNull(by.Principal), orNull(by.Credential), orNull(by.RequestID),
		orNull(by.Address))...)
}

// Changes implements audit.Changes.
func (s *Store) Changes(ctx context.Context, q audit.ChangeQuery) ([]audit.Change, error) {
	return collect(ctx, s, "cannot read the changes", pg.ScanChange, `SELECT `+pg.ChangeColumns+`
		FROM changes WHERE seq > $1 AND ($2 = '' OR subject = $2 AND kind LIKE 'policy.%')
			AND ($3 = '' OR subject = $3 AND kind NOT LIKE 'policy.%' OR key_id = $3) AND at >= $4 ORDER BY seq LIMIT $5`,
		q.After, q.PolicyID, q.KeyID, q.Since, q.Limit)
}
