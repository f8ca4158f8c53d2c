package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/valyala/fasthttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(1)
	}
}

// run serves until the context ends. DATABASE_URL names the database.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("postgres", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "address to listen on")
	connections := flags.Int("connections", 32, "connections to PostgreSQL")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := openService(ctx, os.Getenv("DATABASE_URL"), "peer", *connections)
	if err != nil {
		return err
	}
	defer s.pool.Close()
	server := &fasthttp.Server{Handler: s.handle}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe(*addr) }()
	select {
	case err := <-failed:
		return fmt.Errorf("cannot listen on %s: %w", *addr, err)
	case <-ctx.Done():
		return server.Shutdown()
	}
}
