package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
)

// byActor completes the call of a function whose last argument is the actor.
func byActor(call string, by audit.Actor, args ...any) textStatement {
	n := len(args)
	call += fmt.Sprintf("ROW($%d, $%d, $%d, $%d, $%d, $%d)::actor)", n+1, n+2, n+3, n+4, n+5, n+6)
	return textCall(call, append(args, by.Kind(), orNull(by.KeyID), orNull(by.Principal), orNull(by.Credential), orNull(by.RequestID),
		orNull(by.Address))...)
}

const changeColumns = `seq, kind, subject, coalesce(version, 0), coalesce(key_id, ''), coalesce(principal, ''), coalesce(credential, ''),
	coalesce(request_id, ''), coalesce(address, ''), at, details, hash, head`

// Changes implements audit.Changes.
func (s *Store) Changes(ctx context.Context, q audit.ChangeQuery) ([]audit.Change, error) {
	return collect(ctx, s, "cannot read the changes", scanChange, `SELECT `+changeColumns+`
		FROM changes WHERE seq > $1 AND ($2 = '' OR subject = $2 AND kind LIKE 'policy.%')
			AND ($3 = '' OR subject = $3 AND kind NOT LIKE 'policy.%' OR key_id = $3) AND at >= $4 ORDER BY seq LIMIT $5`,
		q.After, q.PolicyID, q.KeyID, q.Since, q.Limit)
}

func scanChange(row pgx.CollectableRow) (c audit.Change, err error) {
	err = row.Scan(&c.Seq, &c.Kind, &c.Subject, &c.Version, &c.By.KeyID, &c.By.Principal, &c.By.Credential, &c.By.RequestID, &c.By.Address,
		utc(&c.At), &c.Details, bytea(&c.Hash), bytea(&c.Head))
	return c, err
}
