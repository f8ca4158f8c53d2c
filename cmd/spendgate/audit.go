package main

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
	"spendgate/config"
)

// auditCommand groups the commands about the trail itself, which talk to the database and not to
// nodes.
func auditCommand() command {
	return command{
		name:    "audit",
		summary: "prove, show and archive the audit trail",
		details: "Talks to the database of SPENDGATE_DATABASE_URL itself; no node is needed.",
		sub: []command{
			{
				name: "verify", summary: "recompute the trail's hash chains and name what is not as it was", setup: auditVerify,
				details: "Reads one moment of the database of SPENDGATE_DATABASE_URL, or with --data-dir that of a single node, while nodes go\n" +
					"on writing. Names on standard output, a line each, what was altered, removed or inserted, " +
					"and what cannot be checked. Fails if there is any.\n" +
					"Only with --checkpoint it can show that the end of a chain, or all of one, is missing: it says up to when it vouches.",
			},
			{
				name: "checkpoint", summary: "sign the heads of all chains now", setup: auditCheckpoint,
				details: "Reads the database of SPENDGATE_DATABASE_URL and appends to SPENDGATE_CHECKPOINT_FILE, signed with\n" +
					"SPENDGATE_CHECKPOINT_KEY, as nodes that have both do every SPENDGATE_CHECKPOINT_INTERVAL (1m). Chains that contradict\n" +
					"an earlier checkpoint are not signed, here or by nodes, until --acknowledge says that the loss is known.",
			},
			{
				name: "keygen", summary: "make a key pair for signed checkpoints", setup: noFlags(auditKeygen),
				details: "Prints the secret key for SPENDGATE_CHECKPOINT_KEY, and the public key for those who verify.",
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
func auditKeygen(_ context.Context, p process) error {
	public, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("cannot make a key pair: %w", err)
	}
	_, err = fmt.Fprintf(p.stdout, "secret %s\npublic %s\n",
		base64.StdEncoding.EncodeToString(secret.Seed()), base64.StdEncoding.EncodeToString(public))
	return err
}

// newCheckpoints makes the writer of checkpoints, nil if the settings ask for none.
func newCheckpoints(
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
func auditCheckpoint(flags *flag.FlagSet) action {
	var reason string
	flags.Func("acknowledge", "sign also what contradicts an earlier checkpoint, and say so with this `REASON`", func(text string) error {
		return notEmpty(&reason)(strings.TrimSpace(text))
	})
	return func(ctx context.Context, p process, _ []string) error {
		return writeCheckpoint(ctx, p, reason)
	}
}

func writeCheckpoint(ctx context.Context, p process, reason string) error {
	c, err := p.load(config.Audit)
	if err != nil {
		return err
	}
	if c.Checkpoints.Key == "" || c.Checkpoints.File == "" {
		return errors.New("SPENDGATE_CHECKPOINT_KEY and SPENDGATE_CHECKPOINT_FILE must be set")
	}
	log := slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	store, err := postgres.Open(ctx, postgres.Options{URL: string(c.DatabaseURL), Logger: log})
	if err != nil {
		return err
	}
	defer store.Close()
	checkpoints, err := newCheckpoints(c, store, nil, log)
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
	_, err = fmt.Fprintln(p.stdout, "checkpoint written to", c.Checkpoints.File)
	return err
}

// timeFlag is an instant, or a date, which means the whole UTC day.
type timeFlag struct {
	at   time.Time
	last bool // of a day the last millisecond counts
	date bool // it was given as a date
}

// untilFlag is an instant to come, also as how long from now.
type untilFlag struct{ timeFlag }

func (f *untilFlag) Set(text string) error {
	if left, err := time.ParseDuration(text); err == nil && left > 0 {
		f.at = time.Now().Add(left)
		return nil
	}
	if err := f.timeFlag.Set(text); err != nil {
		return fmt.Errorf("%w, or how long from now (2h)", err)
	}
	return nil
}

func (f *timeFlag) String() string { return "" }

func (f *timeFlag) Set(text string) (err error) {
	if f.at, err = time.Parse(time.DateOnly, text); err == nil {
		f.date = true
		f.in(time.UTC)
		return nil
	}
	if f.at, err = time.Parse(time.RFC3339, text); err != nil {
		return errors.New("must be a date (2026-03-01) or a time (2026-03-01T12:00:00Z)")
	}
	return nil
}

// in has a date be one of a zone.
func (f *timeFlag) in(zone *time.Location) {
	if !f.date {
		return
	}
	year, month, day := f.at.Date()
	if f.at = time.Date(year, month, day, 0, 0, 0, 0, zone); f.last {
		f.at = time.Date(year, month, day+1, 0, 0, 0, 0, zone).Add(-time.Millisecond)
	}
}

var _ flag.Value = (*timeFlag)(nil)

// notEmpty stores a flag's value and refuses an empty one: a variable that a script never set
// must not have the effect of a flag that was left out.
func notEmpty(to *string) func(string) error {
	return func(text string) error {
		if text == "" {
			return errors.New("must not be empty")
		}
		*to = text
		return nil
	}
}

// eachNotEmpty is like notEmpty, for a flag that may be given more than once.
func eachNotEmpty(to *[]string) func(string) error {
	return func(text string) error {
		var one string
		err := notEmpty(&one)(text)
		*to = append(*to, one)
		return err
	}
}
