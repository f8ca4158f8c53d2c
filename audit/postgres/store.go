package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/metric"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/sqlstore"
)

// Options configure a Store.
type Options struct {
	// URL is postgres://...; several hosts are tried in order for the one that
	// accepts writes. The tables are in the first schema of its search_path.
	URL    string
	Logger *slog.Logger
	// Migrate brings the schema up to date first.
	Migrate bool
	// MaxPolicyBytes bounds the total of the texts of all versions of all policies, which are kept
	// for ever; 0 sets no bound.
	MaxPolicyBytes int64
	Registerer     prometheus.Registerer // nil registers nothing
}

// Store is an audit.Store on PostgreSQL. It is safe for concurrent use.
type Store struct {
	*sqlstore.Store

	log      *slog.Logger
	Reads    *pgxpool.Pool
	lookups  *pgxpool.Pool // of look-ups that redemptions and payments wait for; nil if connections are shared through a pooler
	writers  *sessions     // for Commit
	controls *sessions     // for fences and configuration, which must not queue behind writers
	closing  sync.Once

	maxPolicyBytes int64

	// statement is the prefix of the names of prepared commits; empty if connections are shared
	// through a pooler, so that each commit is prepared anew.
	statement string

	losses       losses
	lists        chan struct{} // has an element for each list in progress
	readsReset   reset
	lookupsReset reset
	lookupsQuery atomic.Pointer[dayQuery] // the last
	lookupsFrom  atomic.Int64             // when lookups is used again after it failed, in Unix nanoseconds

	// horizonMS is how far the table horizon is known to reach.
	horizonMS atomic.Int64

	counters   recordings[counterKey] // counters known to have rows
	refusals   recordings[noRoom]     // recorded as exhausted: an agent that keeps hitting one costs nothing more
	remembered remembered
	// partitionsUntil is the time up to which there are partitions, in Unix seconds; 0 before the
	// first Tidy.
	partitionsUntil atomic.Int64
	// defaultOccupied is whether the default partition had rows at the last Tidy.
	defaultOccupied atomic.Bool
	// countedAt is when the counts of violations were last complete, in Unix
	// seconds; 0 before this node has seen it.
	countedAt atomic.Int64
}

var _ audit.Store = (*Store)(nil)

const (
	// writers is how many commits may be in progress at once, each on its own connection. More split
	// the batches without gain.
	writers  = 2
	controls = 4
)

// Open prepares a store. It connects only to migrate; an unreachable database shows in Ping, and is
// reconnected to without another Open.
func Open(ctx context.Context, o Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("cannot read the database URL: %w", err) // pgx leaves the password out
	}
	if err := checkExecMode(config.ConnConfig); err != nil {
		return nil, fmt.Errorf("cannot use the database URL: %w", err)
	}
	pg.PrepareConfig(&config.ConnConfig.Config)
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = applicationName
	}
	hosts := new(hosts)
	hosts.learn(&config.ConnConfig.Config)
	if o.Migrate {
		if err := Migrate(ctx, o.URL); err != nil {
			return nil, err
		}
	}
	s := &Store{log: o.Logger, maxPolicyBytes: cmp.Or(o.MaxPolicyBytes, math.MaxInt64)}
	s.Store = sqlstore.New(database{s}, "events_floor()")
	s.lists = make(chan struct{}, max(config.MaxConns/2, 1))
	committing := config.ConnConfig.Config.Copy()
	if config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		s.statement = "commit_checks"
		prepareCommits(committing)
	}
	s.writers = newSessions(committing, hosts, writers, &s.losses)
	s.losses.watch(&config.ConnConfig.Config)
	s.controls = newSessions(config.ConnConfig.Config.Copy(), hosts, controls, &s.losses)
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		hosts.order(&c.Config)
		return nil
	}
	config.AfterConnect = prepareRead
	config.ConnConfig.BuildContextWatcherHandler = newCancelling
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // read retries
	if s.Reads, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("cannot make a connection pool: %w", err)
	}
	if s.statement != "" {
		if s.lookups, err = newLookups(ctx, config); err != nil {
			return nil, err
		}
	}
	s.register(o.Registerer)
	return s, nil
}

func (s *Store) register(registerer prometheus.Registerer) {
	if registerer == nil {
		return
	}
	s.registerPools(registerer)
	with := metric.Of(registerer, "audit")
	with.Reading("partitions_until_timestamp_seconds",
		"When the last day ends that has a partition, as Unix time; 0 until they were looked at.",
		func() float64 { return float64(s.partitionsUntil.Load()) })
	with.Reading("default_partition_occupied",
		"1 when checks lie in the default partition, which should be empty; looked at every 10 minutes.",
		func() float64 {
			if s.defaultOccupied.Load() {
				return 1
			}
			return 0
		})
	with.Reading("violations_counted_timestamp_seconds",
		"When this node last found or made the counts of violations complete, as Unix time; 0 until then.",
		func() float64 { return float64(s.countedAt.Load()) })
}

// prepareRead makes the server plan each query for its own values: only then are irrelevant
// partitions excluded before they cost anything, and neither a new partition nor fresh statistics
// cause a plan over all of them. It also disables JIT compilation, which a wrong estimate of the
// cost would start.
func prepareRead(ctx context.Context, conn *pgx.Conn) error {
	return conn.PgConn().Exec(ctx, "SET plan_cache_mode = force_custom_plan; SET jit = off").Close()
}

// Close closes all connections; no method may be in use. Further calls do nothing.
func (s *Store) Close() {
	s.closing.Do(func() {
		s.writers.close()
		s.controls.close()
		s.Reads.Close()
		if s.lookups != nil {
			s.lookups.Close()
		}
	})
}

// Ping implements audit.Store. A schema newer than this build needs is fine:
// migrations keep what older builds use.
func (s *Store) Ping(ctx context.Context) error {
	version, err := one(ctx, s, "cannot read the schema's version", pgx.RowTo[int], "SELECT coalesce(max(version), 0) FROM migrations")
	if needed := len(migrations()); err == nil && version < needed {
		return fmt.Errorf("the database's schema is %d, this build needs %d: %w", version, needed, audit.ErrUnavailable)
	}
	return err
}
