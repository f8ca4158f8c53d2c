package main

import (
	"context"
	"fmt"

	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/config"
)

func auditRestoredCommand() command {
	return command{
		name: "restored", summary: "make a database that was restored or cloned fit for nodes", setup: noFlags(auditRestored),
		details: "Run it on every database that was restored or cloned, before the first node starts, " +
			"with the URL of the tables' owner in SPENDGATE_DATABASE_URL. It\n" +
			"begins a new epoch: nothing that was claimed before the restore, in Redis or by a node that was forgotten, counts any more.\n" +
			"Violations that were counted on another server are counted anew. Webhooks are disabled\n" +
			"until an admin enables them. It refuses while nodes are connected.",
	}
}

// auditRestored begins an epoch on a restored database.
func auditRestored(ctx context.Context, p process) error {
	c, err := p.load(config.Migrate)
	if err != nil {
		return err
	}
	r, err := postgres.BeginRestored(ctx, string(c.DatabaseURL))
	if err != nil {
		return err
	}
	ends := "the record is empty"
	if !r.Last.IsZero() {
		ends = fmt.Sprintf("the record ends with %s of %s: what was answered later is not in it",
			r.Last.Text(spend.PrefixCheck), r.Last.Time().Format("2006-01-02T15:04:05.000Z"))
	}
	_, err = fmt.Fprintf(p.stdout, "%s\na new epoch began: what was claimed before cannot be recorded any more\nwebhooks disabled: %d\n", ends,
		r.Webhooks)
	return err
}
