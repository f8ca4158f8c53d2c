package auditcmd

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"spendgate/audit"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/audit/sqlite"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
)

func auditRestoredCommand() cli.Command {
	return cli.Command{
		Name: "restored", Summary: "make a database that was restored or cloned fit for nodes", Setup: auditRestored,
		Details: "Run it on every database that was restored or cloned, before the first node starts, " +
			"with the URL of the tables' owner in SPENDGATE_DATABASE_URL, and\n" +
			"with --data-dir on every copy of a single node's folder. It begins a new epoch: nothing that was claimed before\n" +
			"the restore, in Redis or by a node that was forgotten, counts any more. No check of before is redeemed any more, and open\n" +
			"approvals expire: what was redeemed or used after the backup is not in it. Violations that were counted on another server\n" +
			"are counted anew. Webhooks are disabled until an admin enables them. Everything is frozen until it is released with\n" +
			"`spendgate thaw`, since payments that were carried out after the backup would begin again. It refuses while nodes are connected.",
	}
}

// auditRestored begins an epoch on a restored database, or in a copied folder.
func auditRestored(flags *flag.FlagSet) cli.Action {
	dataDir := flags.String("data-dir", "", "of the single node whose SPENDGATE_DATA_DIR is `DIR`, which must not run")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		begin := restoredDev
		if *dataDir == "" {
			begin = func(ctx context.Context, _ string) (r audit.Restored, err error) {
				c, err := p.Load(config.Migrate)
				if err != nil {
					return r, err
				}
				return postgres.BeginRestored(ctx, string(c.DatabaseURL))
			}
		}
		r, err := begin(ctx, *dataDir)
		if err != nil {
			return err
		}
		ends := "the record is empty"
		if !r.Last.IsZero() {
			ends = fmt.Sprintf("the record ends with %s of %s: what was answered later is not in it",
				r.Last.Text(spend.PrefixCheck), spend.TimeText(r.Last.Time()))
		}
		_, err = fmt.Fprintf(p.Stdout, "%s\na new epoch began: what was claimed before cannot be recorded any more\n"+
			"checks from before are not redeemed any more; payments that were redeemed after the backup may begin again\n"+
			"open approvals expired: %d\nwebhooks disabled: %d\nnobody is signed in any more\n"+
			"everything is frozen by %s: compare with the payment provider's ledger, then release it\n",
			ends, r.Approvals, r.Webhooks, r.Freeze.Text(spend.PrefixFreeze))
		return err
	}
}

// restoredDev does for a single node what restored does for a database.
func restoredDev(ctx context.Context, dataDir string) (r audit.Restored, err error) {
	path := filepath.Join(dataDir, cli.StoreFile)
	if _, err := os.Stat(path); err != nil { // opening a missing file would create it
		return r, fmt.Errorf("--data-dir: %w", err)
	}
	unlock, err := cli.LockFolder(dataDir)
	if err != nil {
		return r, err
	}
	defer unlock()
	store, err := sqlite.Open(ctx, path, slog.New(slog.DiscardHandler))
	if err != nil {
		return r, err
	}
	defer store.Close()
	return store.BeginRestored(ctx)
}
