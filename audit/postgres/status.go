package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
)

// selectStatus reads the settings in force and the connected synchronous standbys. A role without
// pg_read_all_stats does not see which standbys are synchronous; for it all connected standbys
// count.
const selectStatus = `SELECT clock_timestamp(), current_setting('fsync'), current_setting('full_page_writes'),
	current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
	(SELECT count(*) FROM pg_stat_replication WHERE coalesce(sync_state, 'sync') IN ('sync', 'quorum')), pg_backend_pid()`

// ErrShared says that connections are a pooler's and that the URL does not say so: a statement
// prepared on one connection may be missing on the next, or be another client's.
var ErrShared = errors.New("a pooler such as PgBouncer is between: add default_query_exec_mode=cache_describe to the database URL")

// Status implements audit.Store. It fails with ErrShared behind a pooler, which it recognizes
// because the server's process differs from the one named when the connection was made.
func (s *Store) Status(ctx context.Context) (audit.Status, error) {
	var clock time.Time
	var fsync, pages, commit, standbys string
	var connected int
	var told, serves uint32
	err := s.read(ctx, "cannot read the database's settings", func(ctx context.Context, db *pgx.Conn) error {
		told = db.PgConn().PID()
		return db.QueryRow(ctx, selectStatus, pgx.QueryExecModeExec). // which prepares nothing
										Scan(&clock, &fsync, &pages, &commit, &standbys, &connected, &serves)
	})
	if err == nil && s.statement != "" && told != serves {
		err = ErrShared
	}
	if err != nil {
		return audit.Status{}, err
	}
	status := audit.Status{
		Clock:     clock,
		Breakable: fsync != "on" || pages != "on",
	}
	status.Safe = !status.Breakable && (commit == "on" || commit == "remote_apply")
	replica := "no synchronous standby"
	if needed := standbysNeeded(standbys); needed > 0 {
		replica = "synchronous standbys " + standbys
		if status.StandbysMissing = max(needed-connected, 0); status.StandbysMissing > 0 {
			replica += fmt.Sprintf(" (%d of %d not connected: commits wait)", status.StandbysMissing, needed)
		}
	}
	status.Durability = fmt.Sprintf("fsync %s, full_page_writes %s, synchronous_commit %s, %s", fsync, pages, commit, replica)
	return status, nil
}

// standbysNeeded returns how many standbys a commit waits for, from the value of
// synchronous_standby_names: FIRST 2 (a, b, c), ANY 2 (a, b, c), 2 (a, b), or a, b.
func standbysNeeded(names string) int {
	if names == "" {
		return 0
	}
	if counted := regexp.MustCompile(`(?i)^\s*(?:first\s+|any\s+)?(\d+)\s*\(`).FindStringSubmatch(names); counted != nil {
		if n, err := strconv.Atoi(counted[1]); err == nil {
			return n
		}
	}
	return 1
}

// registerPools registers how many connections of each pool are in use.
func (s *Store) registerPools(registerer prometheus.Registerer) {
	register := func(pool, name, help string, value func() float64) {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "spendgate", Subsystem: "audit", Name: name, Help: help, ConstLabels: prometheus.Labels{"pool": pool},
		}, value))
	}
	pool := func(name string, inUse, limit func() float64) {
		register(name, "connections_in_use", "Connections to the database in use, by pool.", inUse)
		register(name, "connections_limit", "How many may be in use at once; who needs more waits.", limit)
	}
	pool("reads", func() float64 { return float64(s.Reads.Stat().AcquiredConns()) },
		func() float64 { return float64(s.Reads.Stat().MaxConns()) })
	if s.lookups != nil {
		pool("lookups", func() float64 { return float64(s.lookups.Stat().AcquiredConns()) }, func() float64 { return 1 })
	}
	for name, p := range map[string]*sessions{"commits": s.writers, "control": s.controls} {
		pool(name, func() float64 { return float64(cap(p.idle) - len(p.idle)) }, func() float64 { return float64(cap(p.idle)) })
	}
}
