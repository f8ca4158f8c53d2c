package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync"

	"spendgate/bench/fleet"
)

const nodeCount = 3

// stage is a fleet behind a load balancer, with a network between each node and
// its servers.
type stage struct {
	*fleet.Fleet
	balancer *fleet.Balancer
	redis    []*fleet.Proxy // of each node
	postgres []*fleet.Proxy
	dir      string
}

// setStage starts everything and waits until it is ready.
func setStage(ctx context.Context, binary string) (*stage, error) {
	f, err := fleet.Start(ctx, fleet.Options{Binary: binary, Settings: fleet.Settings{"TRUSTED_PROXIES": "127.0.0.1/32"}})
	if err != nil {
		return nil, err
	}
	s := &stage{Fleet: f}
	if err := s.set(ctx); err != nil {
		return nil, errors.Join(err, s.writeLogs(os.Stderr), s.strike())
	}
	return s, nil
}

func (s *stage) set(ctx context.Context) error {
	var err error
	if s.dir, err = os.MkdirTemp("", "spendgate-balancer-"); err != nil {
		return fmt.Errorf("cannot make a folder for the balancer: %w", err)
	}
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
	failures := make([]error, nodeCount)
	var starting sync.WaitGroup
	for i, n := range s.Nodes {
		starting.Go(func() { failures[i] = n.Start(ctx) })
	}
	starting.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	s.balancer, err = fleet.StartBalancer(ctx, s.dir, s.Nodes)
	return err
}

// between puts a proxy before a server and gives the URL that leads through it.
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

// strike ends everything and removes its files.
func (s *stage) strike() error {
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

func (s *stage) writeLogs(w io.Writer) error {
	err := s.WriteLogs(w)
	if s.balancer != nil {
		_, balancerErr := fmt.Fprintf(w, "--- haproxy\n%s\n", s.balancer.Log())
		err = errors.Join(err, balancerErr)
	}
	return err
}
