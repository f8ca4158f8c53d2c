package main

import (
	"context"
	"fmt"
	"log/slog"

	"spendgate/audit/postgres"
	"spendgate/config"
)

// serve runs a node of a fleet.
func serve(ctx context.Context, p process) error {
	c, err := p.load(config.Serve)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	registry := newRegistry()
	store, err := postgres.Open(ctx, postgres.Options{
		URL: string(c.DatabaseURL), Logger: log, Migrate: true, MaxPolicyBytes: c.MaxPolicyBytes, Registerer: registry,
	})
	if err != nil {
		return err
	}
	checkpoints, err := newCheckpoints(c, store, registry, log)
	if err != nil {
		return err
	}
	n, err := newNode(c, backends{
		mode: "node of a fleet", registry: registry, store: store, redis: redisOptions(c.Redis), drainDelay: drainDelay,
		checkpoints: checkpoints,
	}, log)
	if err != nil {
		return err
	}
	return n.run(ctx, func(context.Context) error { return nil })
}

// migrate brings the schema up to date and ends.
func migrate(ctx context.Context, p process) error {
	c, err := p.load(config.Migrate)
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, string(c.DatabaseURL)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, "the schema is up to date")
	return err
}
