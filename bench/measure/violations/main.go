package violations

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/postgres"
	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

// Run measures what lists many rows.
func Run(ctx context.Context, c *load.Call) error {
	flags, out := c.Flags, c.Out
	table := flags.Bool("table", false, "print existing results")
	most := flags.Int("rows", 10_000_000, "violations in the largest table, or checks")
	checks := flags.Bool("checks", false, "measure what reads recorded checks")
	if err := c.Parse(); err != nil {
		return err
	}
	if *checks {
		return measureChecks(ctx, out, *most)
	}
	path := filepath.Join(c.Results, "violations.json")
	if *table {
		return printTable(out, path)
	}
	b := &bench{out: out, report: report{Machine: load.ThisMachine(c.Version)}}
	if err := b.run(ctx, *most); err != nil {
		return err
	}
	if err := load.WriteJSON(path, b.report); err != nil {
		return err
	}
	return printTable(out, path)
}

// bench is a database of its own.
type bench struct {
	out    io.Writer
	report report
	db     *pgx.Conn
	store  *postgres.Store
}

func (b *bench) run(ctx context.Context, most int) (err error) {
	if err := fleet.Install(ctx, os.Stderr, "redis-server", "postgresql"); err != nil {
		return err
	}
	f, err := fleet.Start(ctx, fleet.Options{Postgres: fleet.AdvisedSettings()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if b.db, err = pgx.Connect(ctx, f.Postgres.URL); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.db.Close(context.WithoutCancel(ctx))) }()
	b.store, err = postgres.Open(ctx, postgres.Options{URL: f.Postgres.URL, Logger: slog.New(slog.DiscardHandler), Migrate: true})
	if err != nil {
		return err
	}
	defer b.store.Close()
	return b.measure(ctx, most)
}
