package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/postgres"
	"spendgate/bench/load"
)

// version is set when the binary is linked (-X main.version=...).
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "violations:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("violations", flag.ContinueOnError)
	results := flags.String("results", "bench/results", "folder of the results")
	table := flags.Bool("table", false, "print the results that are there")
	most := flags.Int("rows", 10_000_000, "violations in the largest table")
	if err := flags.Parse(args); err != nil {
		return err
	}
	path := filepath.Join(*results, "violations.json")
	if *table {
		return printTable(out, path)
	}
	b := &bench{out: out, report: report{Machine: load.ThisMachine(version)}}
	if err := b.run(ctx, *most); err != nil {
		return err
	}
	if err := load.WriteFile(path, func(w io.Writer) error { return load.WriteJSON(w, b.report) }); err != nil {
		return err
	}
	return printTable(out, path)
}

// bench is a schema of its own in the database of TEST_DATABASE_URL.
type bench struct {
	out    io.Writer
	report report
	db     *pgx.Conn
	store  *postgres.Store
}

func (b *bench) run(ctx context.Context, most int) (err error) {
	base := os.Getenv("TEST_DATABASE_URL")
	if base == "" {
		return errors.New("TEST_DATABASE_URL names no database: see deploy/servers/with-servers.sh")
	}
	target, err := url.Parse(base)
	if err != nil {
		return errors.New("TEST_DATABASE_URL is not a URL") // without its password
	}
	schema := "bench_" + strings.ToLower(rand.Text())
	query := target.Query()
	query.Set("search_path", schema)
	target.RawQuery = query.Encode()
	if b.db, err = pgx.Connect(ctx, target.String()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.db.Close(context.WithoutCancel(ctx))) }()
	if _, err := b.db.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return err
	}
	defer func() {
		_, dropped := b.db.Exec(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE")
		err = errors.Join(err, dropped)
	}()
	b.store, err = postgres.Open(ctx, postgres.Options{URL: target.String(), Logger: slog.New(slog.DiscardHandler), Migrate: true})
	if err != nil {
		return err
	}
	defer b.store.Close()
	return b.measure(ctx, most)
}
