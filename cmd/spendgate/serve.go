package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/pause"
	"spendgate/audit/postgres"
	"spendgate/cmd/spendgate/auditcmd"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
	scripts "spendgate/deploy/postgres"
	"spendgate/hotpath/guard"
)

const (
	// The shortest and the longest pause between two looks at the dependencies that a start needs.
	firstWait = 250 * time.Millisecond
	mostWait  = 5 * time.Second
	// lookWithin bounds one look.
	lookWithin = 3 * time.Second
)

// serveCommand runs a node of a fleet, or checks that one could run.
func serveCommand(flags *flag.FlagSet) cli.Action {
	check := flags.Bool("check", false, "look at the settings, ports, PostgreSQL and Redis, change nothing, and end")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if *check {
			return checkServe(ctx, p)
		}
		level := new(slog.LevelVar)
		lines, log := newLogLines(p.Stderr, func(w io.Writer) slog.Handler {
			return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
		})
		defer lines.flush()
		err := serve(ctx, p, lines, log, level)
		if err == nil {
			return nil
		}
		for _, line := range slices.Compact(strings.Split(err.Error(), "\n")) {
			log.Error("cannot serve", "error", line)
		}
		return cli.ExitError{Err: err, Code: 1, Logged: true}
	}
}

func serve(ctx context.Context, p cli.Process, lines *logLines, log *slog.Logger, level *slog.LevelVar) error {
	load := func() (config.Config, error) { return p.Load(config.Serve) }
	c, err := load()
	if err != nil {
		return err
	}
	level.Set(c.LogLevel)
	log = ofDeployment(log, c.Deployment)
	redis.SetLogger(redisLog{log}) // before there is a client
	ops, err := startOperations(c, "node of a fleet", lines, log)
	if err != nil {
		return err
	}
	n, err := newServeNode(ctx, c, ops, log)
	if err != nil {
		stopped := ops.stop(context.Background())
		if ctx.Err() != nil { // a signal came while it waited
			log.Info("stopped")
			return stopped
		}
		return errors.Join(err, stopped)
	}
	n.reload = func() { n.readAgain(load, level) }
	return n.run(ctx, func(context.Context) error { return nil })
}

// ofDeployment adds the name of the deployment to every line, if it has one.
func ofDeployment(log *slog.Logger, name string) *slog.Logger {
	if name == "" {
		return log
	}
	return log.With("deployment", name)
}

// newServeNode makes a node once PostgreSQL and Redis can be used.
func newServeNode(ctx context.Context, c config.Config, ops *operations, log *slog.Logger) (*node, error) {
	store, err := postgres.Open(ctx, postgres.Options{
		URL: string(c.DatabaseURL), Logger: log, MaxPolicyBytes: c.MaxPolicyBytes, Registerer: ops.registry,
	})
	if err != nil {
		return nil, err
	}
	if err := await(ctx, c, store, ops.health); err != nil {
		store.Close()
		return nil, err
	}
	if err := vet(ctx, c, store); errors.As(err, new(*otherRedisError)) { // other errors may go away, and /readyz shows them
		store.Close()
		return nil, err
	}
	warmUp(ctx, store, log)
	checkpoints, err := auditcmd.NewCheckpoints(c, store, ops.registry, log)
	if err != nil {
		store.Close()
		return nil, err
	}
	return newNode(c, backends{
		ops: ops, store: store, redis: redisOptions(c.Redis), drainDelay: drainDelay, checkpoints: checkpoints,
		rehearse: store.Rehearse, fleet: store,
	}, log)
}

// warmUp connects for commits, so that the first check need not. A commit that fails is no reason
// not to start: later failures show in /readyz.
func warmUp(ctx context.Context, store *postgres.Store, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	if err := store.Rehearse(ctx); err != nil {
		log.Warn("commits fail", "error", err)
	}
}

// await waits until Redis and PostgreSQL can be used and the schema is up to date, and logs what it
// waits for. It fails at once on errors that waiting does not fix, such as a wrong password.
func await(ctx context.Context, c config.Config, store *postgres.Store, h *health) error {
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		f := lookAhead(ctx, c, store)
		h.last.Store(f)
		if f.ready() {
			// This needs one more connection, which the server may refuse or lose although it answered.
			err := postgres.Migrate(ctx, string(c.DatabaseURL))
			if !errors.Is(err, audit.ErrUnavailable) || hopeless(err) {
				return err
			}
			f = f.with("store", err)
			h.last.Store(f)
		}
		for _, d := range f.dependencies {
			switch {
			case d.err == nil:
			case ctx.Err() != nil:
				return ctx.Err()
			case hopeless(d.err):
				return fmt.Errorf("%s: %w", d.name, d.err)
			default:
				h.log.Warn("waiting for a dependency", "dependency", d.name, "error", d.err)
			}
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// lookAhead checks the dependencies of a node before there is one. It changes nothing.
func lookAhead(ctx context.Context, c config.Config, store *postgres.Store) *findings {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	f := new(findings)
	clock, err := guard.Probe(ctx, guard.Options{Redis: redisOptions(c.Redis), KeyPrefix: c.RedisKeyPrefix})
	f.add("redis", err, clock)
	status, err := store.Status(ctx)
	if err == nil {
		f.status = &status
		if status.Breakable && !c.UnsafeDurability {
			err = unsafeError{status.Durability}
		}
	}
	f.add("store", err, status.Clock)
	return f
}

// unsafeError is the error of a database whose settings could lose recorded checks.
type unsafeError struct{ durability string }

func (e unsafeError) Error() string {
	return "a crash of PostgreSQL's machine can lose answered checks and damage the database (" + e.durability +
		"): turn fsync and full_page_writes on, or set SPENDGATE_ALLOW_UNSAFE_DURABILITY=true"
}

// hopeless reports whether waiting cannot help against the error of a start.
func hopeless(err error) bool {
	return errors.As(err, new(unsafeError)) || redis.IsAuthError(err) || postgres.Refused(err)
}

// openQuietly loads the settings of serve and opens its store, for a command that looks at what serve needs and logs nothing.
func openQuietly(ctx context.Context, p cli.Process) (c config.Config, store *postgres.Store, err error) {
	if c, err = p.Load(config.Serve); err != nil {
		return c, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	redis.SetLogger(redisLog{log}) // before there is a client
	store, err = postgres.Open(ctx, postgres.Options{URL: string(c.DatabaseURL), Logger: log})
	return c, store, err
}

// checkServe checks everything that serve needs.
func checkServe(ctx context.Context, p cli.Process) error {
	c, store, err := openQuietly(ctx, p)
	if err != nil {
		return err
	}
	defer store.Close()
	_, err = auditcmd.NewCheckpoints(c, store, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	faults := []error{err}
	if err == nil && c.Checkpoints.Key != "" {
		if err := writable(c.Checkpoints.File); err != nil {
			faults = append(faults, fmt.Errorf("SPENDGATE_CHECKPOINT_FILE: %w", err))
		}
	}
	f := lookAhead(ctx, c, store)
	for _, d := range append(ports(ctx, c), f.dependencies...) {
		if d.err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", d.name, d.err))
		}
	}
	if f.ready() {
		faults = append(faults, tryUse(ctx, c, store, f.status))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	told := "the settings are right, and PostgreSQL and Redis can be used"
	if forgotten, err := forgotten(ctx, c, store); err != nil {
		return err
	} else if forgotten {
		told += "\nredis knows nothing of what was recorded last: it was emptied, or it is not the one that the other nodes use"
	}
	_, err = fmt.Fprintln(p.Stdout, strings.Join(append([]string{told}, c.Notices...), "\n"))
	return err
}

// migrateCommand brings the schema up to date, grants what nodes need, and ends.
func migrateCommand(flags *flag.FlagSet) cli.Action {
	service := flags.String("service", "", "grant `ROLE`, with which nodes connect, what they need, and revoke the rest")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		c, err := p.Load(config.Migrate)
		if err != nil {
			return err
		}
		if err := postgres.Migrate(ctx, string(c.DatabaseURL)); err != nil {
			return err
		}
		if *service != "" {
			if err := postgres.Grant(ctx, string(c.DatabaseURL), scripts.Grants, *service); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintln(p.Stdout, "the schema is up to date")
		return err
	}
}

// tryUse fails if commits or claims would fail, and changes nothing. With a schema that serve
// will migrate it tries neither.
func tryUse(ctx context.Context, c config.Config, store *postgres.Store, status *audit.Status) error {
	if status.StandbysMissing > 0 {
		return fmt.Errorf("store: commits would wait for a standby that is not connected (%s): start it, "+
			"or take it out of synchronous_standby_names",
			status.Durability)
	}
	migrated, err := postgres.Migrated(ctx, string(c.DatabaseURL))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if !migrated {
		if _, err := store.Deployment(ctx); err == nil {
			return nil // an older schema
		}
		g := newLooker(c, store)
		if err := errors.Join(g.VetNew(ctx), g.Close()); err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		return nil
	}
	if err := postgres.Allowed(ctx, string(c.DatabaseURL), scripts.Grants); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := store.Rehearse(ctx); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return vet(ctx, c, store)
}

// newLooker returns a guard that only looks at Redis.
func newLooker(c config.Config, store *postgres.Store) *guard.Guard {
	return guard.New(guard.Options{
		Redis: redisOptions(c.Redis), KeyPrefix: c.RedisKeyPrefix, Store: store, Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(),
	})
}

// forgotten reports whether Redis knows nothing of the checks that were recorded last. This is how
// another Redis shows if there is nothing else to compare.
func forgotten(ctx context.Context, c config.Config, store *postgres.Store) (bool, error) {
	migrated, err := postgres.Migrated(ctx, string(c.DatabaseURL))
	if err != nil || !migrated {
		return false, err
	}
	g := newLooker(c, store)
	is, err := g.Forgotten(ctx)
	if err = errors.Join(err, g.Close()); err != nil {
		return false, fmt.Errorf("redis: %w", err)
	}
	return is, nil
}

// vet fails if Redis has windows of another deployment, or is not the Redis of the nodes at work.
func vet(ctx context.Context, c config.Config, store *postgres.Store) error {
	g := newLooker(c, store)
	if err := errors.Join(vetPeers(ctx, store, g.Vet), g.Close()); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// redisOptions are the connection settings as go-redis takes them.
func redisOptions(r config.Redis) redis.UniversalOptions {
	o := redis.UniversalOptions{
		Addrs: r.Addrs, Username: r.Username, Password: string(r.Password), DB: r.DB,
		MasterName: r.Master, SentinelUsername: r.SentinelUsername, SentinelPassword: string(r.SentinelPassword),
		IsClusterMode: r.Cluster,
	}
	if r.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o
}

// redisLog receives go-redis' errors about broken connections, whose consequences the guard logs.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, v...))
}
