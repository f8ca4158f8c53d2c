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
	"sync"
)

// Options say what a fleet is made of.
type Options struct {
	Binary   string   // of Build
	Nodes    int      // to begin with
	Settings Settings // of every node, besides its ports and servers
	Redis    RedisOptions
	Postgres []string // settings of the server, such as fsync=off
}

// Fleet is some nodes over one Redis and one PostgreSQL.
type Fleet struct {
	Redis    *Redis
	Postgres *Postgres
	Nodes    []*Node
	AdminKey string

	dir    string
	binary string
	common Settings
}

// Start starts servers and nodes and waits until the nodes are ready. On an
// error nothing is left behind.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	dir, err := os.MkdirTemp("", "spendgate-fleet-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for the fleet: %w", err)
	}
	f := &Fleet{dir: dir, binary: o.Binary, AdminKey: rand.Text()}
	if err := f.begin(ctx, o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fleet) begin(ctx context.Context, o Options) error {
	// Whoever runs PostgreSQL has to get at a folder within.
	if err := os.Chmod(f.dir, 0o711); err != nil {
		return fmt.Errorf("cannot open the fleet's folder: %w", err)
	}
	var err error
	if f.Redis, err = StartRedis(ctx, filepath.Join(f.dir, "redis"), o.Redis); err != nil {
		return err
	}
	if f.Postgres, err = StartPostgres(ctx, filepath.Join(f.dir, "postgres"), o.Postgres...); err != nil {
		return err
	}
	f.common = Settings{"REDIS_URL": f.Redis.URL, "DATABASE_URL": f.Postgres.URL, "ADMIN_KEY": f.AdminKey}
	maps.Copy(f.common, o.Settings)
	for range o.Nodes {
		if _, err := f.AddNode(nil); err != nil {
			return err
		}
	}
	return f.startNodes(ctx)
}

// startNodes starts all nodes at once, as an orchestrator would.
func (f *Fleet) startNodes(ctx context.Context) error {
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
	if err == nil {
		f.Nodes = append(f.Nodes, n)
	}
	return n, err
}

// WriteLogs writes what all processes had to say.
func (f *Fleet) WriteLogs(w io.Writer) error {
	write := func(name string, p *Process) error {
		_, err := fmt.Fprintf(w, "--- %s\n%s\n", name, p.Log())
		return err
	}
	var failures []error
	if f.Redis != nil {
		failures = append(failures, write("redis", f.Redis.Process))
	}
	if f.Postgres != nil {
		failures = append(failures, write("postgres", f.Postgres.Process))
	}
	for _, n := range f.Nodes {
		failures = append(failures, write(n.Name, n.Process))
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
	if f.Redis != nil {
		failures = append(failures, f.Redis.Close())
	}
	if f.Postgres != nil {
		failures = append(failures, f.Postgres.Close())
	}
	return errors.Join(append(failures, os.RemoveAll(f.dir))...)
}
