// Package auditcmd has the commands about the audit trail, which read a database and need no node.
package auditcmd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/checkpoint"
	"spendgate/audit/postgres"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
)

// Command groups the commands about the trail itself, which talk to the database and not to
// nodes.
func Command() cli.Command {
	return cli.Command{
		Name:    "audit",
		Summary: "prove, show and archive the audit trail",
		Details: "Talks to the database of SPENDGATE_DATABASE_URL itself; no node is needed.",
		Sub: []cli.Command{
			{
				Name: "verify", Summary: "recompute the trail's hash chains and name what is not as it was", Setup: auditVerify,
				Details: "Reads one moment of the database of SPENDGATE_DATABASE_URL, or with --data-dir that of a single node, while nodes go\n" +
					"on writing. Names on standard output, a line each, what was altered, removed or inserted, " +
					"and what cannot be checked. Fails if there is any.\n" +
					"Only with --checkpoint it can show that the end of a chain, or all of one, is missing: it says up to when it vouches.",
			},
			{
				Name: "checkpoint", Summary: "sign the heads of all chains now", Setup: auditCheckpoint,
				Details: "Reads the database of SPENDGATE_DATABASE_URL and appends to SPENDGATE_CHECKPOINT_FILE, signed with\n" +
					"SPENDGATE_CHECKPOINT_KEY, as nodes that have both do every SPENDGATE_CHECKPOINT_INTERVAL (1m). Chains that contradict\n" +
					"an earlier checkpoint are not signed, here or by nodes, until --acknowledge says that the loss is known.",
			},
			{
				Name: "keygen", Summary: "make a key pair for signed checkpoints", Setup: cli.NoFlags(auditKeygen),
				Details: "Prints the secret key for SPENDGATE_CHECKPOINT_KEY, and the public key for those who verify.",
			},
			auditShowCommand(),
			auditChangesCommand(),
			auditExportCommand(),
			auditSumsCommand(),
			auditDetachCommand(),
			auditRestoredCommand(),
		},
	}
}

// auditKeygen prints a new Ed25519 key pair, in base64.
func auditKeygen(_ context.Context, p cli.Process) error {
	public, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("cannot make a key pair: %w", err)
	}
	_, err = fmt.Fprintf(p.Stdout, "secret %s\npublic %s\n",
		base64.StdEncoding.EncodeToString(secret.Seed()), base64.StdEncoding.EncodeToString(public))
	return err
}

// NewCheckpoints makes the writer of checkpoints, nil if the settings ask for none.
func NewCheckpoints(
	c config.Config, store *postgres.Store, registerer prometheus.Registerer, log *slog.Logger,
) (*checkpoint.Writer, error) {
	if c.Checkpoints.Key == "" {
		return nil, nil
	}
	key, err := checkpoint.NewKey([]byte(c.Checkpoints.Key))
	if err != nil {
		return nil, err
	}
	return checkpoint.NewWriter(checkpoint.Options{
		Heads: store.Heads, HeadsAt: store.HeadsAt, Key: key, File: c.Checkpoints.File, Now: time.Now, Logger: log, Registerer: registerer,
	}), nil
}

// auditCheckpoint writes one checkpoint.
func auditCheckpoint(flags *flag.FlagSet) cli.Action {
	var reason string
	flags.Func("acknowledge", "sign also what contradicts an earlier checkpoint, and say so with this `REASON`", func(text string) error {
		return cli.NotEmpty(&reason)(strings.TrimSpace(text))
	})
	return func(ctx context.Context, p cli.Process, _ []string) error {
		return writeCheckpoint(ctx, p, reason)
	}
}

func writeCheckpoint(ctx context.Context, p cli.Process, reason string) error {
	c, err := p.Load(config.Audit)
	if err != nil {
		return err
	}
	if c.Checkpoints.Key == "" || c.Checkpoints.File == "" {
		return errors.New("SPENDGATE_CHECKPOINT_KEY and SPENDGATE_CHECKPOINT_FILE must be set")
	}
	log := slog.New(slog.NewJSONHandler(p.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	store, err := postgres.Open(ctx, postgres.Options{URL: string(c.DatabaseURL), Logger: log})
	if err != nil {
		return err
	}
	defer store.Close()
	checkpoints, err := NewCheckpoints(c, store, nil, log)
	if err != nil {
		return err
	}
	if reason != "" {
		err = checkpoints.Acknowledge(ctx, reason)
	} else {
		err = checkpoints.Write(ctx)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Stdout, "checkpoint written to", c.Checkpoints.File)
	return err
}
