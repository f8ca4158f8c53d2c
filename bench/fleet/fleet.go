package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Options say what a fleet consists of.
type Options struct {
	Binary   string   // of Build
	Nodes    int      // to start with
	Settings Settings // of every node, besides its ports and servers
	Cluster  bool     // Redis is a Cluster
	Sentinel bool     // Redis is guarded by Sentinels
	Postgres []string // settings of the server, such as fsync=off
	Standby  bool     // PostgreSQL has a synchronous standby
	Seen     Seen     // of all clients of nodes
}

// Fleet is some nodes over one Redis and one PostgreSQL.
type Fleet struct {
	Redis    *Redis    // nil with one of the next two
	Cluster  *Cluster  // or nil
	Sentinel *Sentinel // or nil
	Postgres *Postgres
	Standby  *Postgres // or nil
	Nodes    []*Node
	AdminKey string

	dir      string
	binary   string
	common   Settings
	seen     Seen
	programs []*Process
}

// Start starts servers and nodes and waits until the nodes are ready. On an
// error nothing is left behind.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	dir, err := os.MkdirTemp(os.Getenv("TEST_SERVERS_DIR"), "spendgate-fleet-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for the fleet: %w", err)
	}
	f := &Fleet{dir: dir, binary: o.Binary, seen: o.Seen, AdminKey: rand.Text()}
	if err := f.start(ctx, o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context, o Options) error {
	// PostgreSQL's user needs access to a folder within.
	if err := os.Chmod(f.dir, 0o711); err != nil {
		return fmt.Errorf("cannot open the fleet's folder: %w", err)
	}
	redisURL, err := f.beginRedis(ctx, o)
	if err != nil {
		return err
	}
	if f.Postgres, err = StartPostgres(ctx, filepath.Join(f.dir, "postgres"), o.Postgres...); err != nil {
		return err
	}
	databaseURL := f.Postgres.URL
	if o.Standby {
		if f.Standby, err = startStandby(ctx, filepath.Join(f.dir, "standby"), f.Postgres, o.Postgres...); err != nil {
			return err
		}
		databaseURL = anyOf(f.Postgres, f.Standby)
	}
	f.common = Settings{"REDIS_URL": redisURL, "DATABASE_URL": databaseURL, "ADMIN_KEY": f.AdminKey}
	maps.Copy(f.common, o.Settings)
	for range o.Nodes {
		if _, err := f.AddNode(nil); err != nil {
			return err
		}
	}
	return f.StartNodes(ctx)
}

func (f *Fleet) beginRedis(ctx context.Context, o Options) (url string, err error) {
	dir := filepath.Join(f.dir, "redis")
	switch {
	case o.Cluster:
		if f.Cluster, err = startCluster(ctx, dir); err == nil {
			url = f.Cluster.URL
		}
	case o.Sentinel:
		if f.Sentinel, err = startSentinel(ctx, dir); err == nil {
			url = f.Sentinel.URL
		}
	default:
		if f.Redis, err = StartRedis(ctx, dir); err == nil {
			url = f.Redis.URL
		}
	}
	return url, err
}

// StartNodes starts all nodes at once, as an orchestrator would.
func (f *Fleet) StartNodes(ctx context.Context) error {
	failures := make([]error, len(f.Nodes))
	var starting sync.WaitGroup
	for i, n := range f.Nodes {
		starting.Go(func() { failures[i] = n.Start(ctx) })
	}
	starting.Wait()
	return errors.Join(failures...)
}

// AddNode prepares one more node, not started yet. Its settings win over the
// fleet's.
func (f *Fleet) AddNode(s Settings) (*Node, error) {
	settings := maps.Clone(f.common)
	maps.Copy(settings, s)
	n, err := NewNode(f.binary, "serve", fmt.Sprintf("node%d", len(f.Nodes)), f.dir, settings)
	if err != nil {
		return nil, err
	}
	n.Seen = f.seen
	f.Nodes = append(f.Nodes, n)
	return n, nil
}

// Logs returns the output of all processes so far, by their names.
func (f *Fleet) Logs() map[string]string {
	logs := make(map[string]string)
	for _, r := range f.redises() {
		logs[r.name] = r.Log()
	}
	for _, p := range f.databases() {
		logs[p.name] = p.Log()
	}
	for _, n := range f.Nodes {
		logs[n.Name] = n.Log()
	}
	return logs
}

func (f *Fleet) redises() (all []*Redis) {
	if f.Redis != nil {
		all = append(all, f.Redis)
	}
	if f.Cluster != nil {
		all = append(all, f.Cluster.Servers...)
	}
	if f.Sentinel != nil {
		all = append(append(all, f.Sentinel.Watchers...), f.Sentinel.Servers...)
	}
	return all
}

func (f *Fleet) databases() (all []*Postgres) {
	for _, p := range []*Postgres{f.Postgres, f.Standby} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// WriteLogs writes the output of all processes.
func (f *Fleet) WriteLogs(w io.Writer) error {
	logs := f.Logs()
	var failures []error
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		_, err := fmt.Fprintf(w, "--- %s\n%s\n", name, logs[name])
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// Close kills everything and removes every file.
func (f *Fleet) Close() error {
	var failures []error
	for _, n := range f.Nodes {
		failures = append(failures, n.Kill())
		n.Forget()
	}
	for _, p := range f.programs {
		failures = append(failures, p.Kill())
	}
	for _, r := range f.redises() {
		failures = append(failures, r.Close())
	}
	for _, p := range f.databases() {
		failures = append(failures, p.Close())
	}
	return errors.Join(append(failures, os.RemoveAll(f.dir))...)
}
