package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"spendgate/bench/fleet"
)

const nodeCount = 3

// deployment is a fleet behind a load balancer, with a network between each node and
// its servers.
type deployment struct {
	*fleet.Fleet
	balancer *fleet.Balancer
	redis    []*fleet.Proxy // of each node
	postgres []*fleet.Proxy
	dir      string
}

// startDeployment starts everything and waits until it is ready.
func startDeployment(ctx context.Context, binary string) (*deployment, error) {
	dir, err := os.MkdirTemp("", "spendgate-chaos-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for the balancer and the checkpoints: %w", err)
	}
	settings := fleet.Settings{"TRUSTED_PROXIES": "127.0.0.1/32"}
	maps.Copy(settings, signed(dir))
	f, err := fleet.Start(ctx, fleet.Options{Binary: binary, Settings: settings, Postgres: []string{"track_commit_timestamp=on"}})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &deployment{Fleet: f, dir: dir}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.writeLogs(os.Stderr), s.stop())
	}
	return s, nil
}

// signed returns settings with which nodes append signed checkpoints to one file.
func signed(dir string) fleet.Settings {
	return fleet.Settings{
		"CHECKPOINT_KEY": strings.Repeat("5e", 32), "CHECKPOINT_FILE": filepath.Join(dir, "checkpoints.jsonl"), "CHECKPOINT_INTERVAL": "1s",
	}
}

// proveTrail runs `spendgate audit verify` on the trail and returns its findings.
func (s *deployment) proveTrail(ctx context.Context, binary string) (string, error) {
	settings := signed(s.dir)
	settings["DATABASE_URL"] = s.Postgres.URL
	code, output, err := fleet.Run(ctx, binary, s.dir, settings, "audit", "verify", "--checkpoint", settings["CHECKPOINT_FILE"])
	if err != nil || code == 0 {
		return "", err
	}
	return output, nil
}

func (s *deployment) start(ctx context.Context) error {
	for range nodeCount {
		redis, redisURL, err := between(s.Redis.URL)
		if err != nil {
			return err
		}
		s.redis = append(s.redis, redis)
		postgres, postgresURL, err := between(s.Postgres.URL)
		if err != nil {
			return err
		}
		s.postgres = append(s.postgres, postgres)
		if _, err := s.AddNode(fleet.Settings{"REDIS_URL": redisURL, "DATABASE_URL": postgresURL}); err != nil {
			return err
		}
	}
	if err := s.StartNodes(ctx); err != nil {
		return err
	}
	var err error
	s.balancer, err = fleet.StartBalancer(ctx, s.dir, s.Nodes)
	return err
}

// between starts a proxy of a server and returns the URL through it.
func between(server string) (*fleet.Proxy, string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, "", fmt.Errorf("cannot put a proxy before a server: %w", err)
	}
	p, err := fleet.NewProxy(u.Host)
	if err != nil {
		return nil, "", err
	}
	u.Host = p.Addr
	return p, u.String(), nil
}

// stop ends everything and removes its files.
func (s *deployment) stop() error {
	var failures []error
	if s.balancer != nil {
		failures = append(failures, s.balancer.Kill())
	}
	failures = append(failures, s.Close())
	for _, p := range append(s.redis, s.postgres...) {
		failures = append(failures, p.Close())
	}
	return errors.Join(append(failures, os.RemoveAll(s.dir))...)
}

func (s *deployment) writeLogs(w io.Writer) error {
	err := s.WriteLogs(w)
	if s.balancer != nil {
		_, balancerErr := fmt.Fprintf(w, "--- haproxy\n%s\n", s.balancer.Log())
		err = errors.Join(err, balancerErr)
	}
	return err
}
