package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Balancer is an HAProxy before the nodes, configured as deploy/haproxy has it.
type Balancer struct {
	*Process
	API  string // base URL
	Seen Seen   // of all clients
	http *http.Client
}

// StartBalancer puts an HAProxy before three nodes, with its log in dir, and
// waits until it answers.
func StartBalancer(ctx context.Context, dir string, nodes []*Node) (*Balancer, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	b, err := newBalancer(dir, addr, nodes)
	if err != nil {
		return nil, err
	}
	if err := b.Start(ctx); err != nil {
		return nil, errors.Join(err, b.Kill())
	}
	return b, nil
}

func newBalancer(dir, addr string, nodes []*Node) (*Balancer, error) {
	stats, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	env := []string{"STATS=" + stats}
	for i, n := range nodes {
		ops, err := url.Parse(n.Ops)
		if err != nil {
			return nil, fmt.Errorf("cannot start haproxy: %w", err)
		}
		env = append(env, fmt.Sprintf("NODE%d=%s", i+1, n.Addr), fmt.Sprintf("NODE%d_OPS=%s", i+1, ops.Port()))
	}
	return configured(dir, addr, "haproxy.cfg", nodes[0].Seen, env...)
}

// configured is an HAProxy at an address with a file of deploy/haproxy.
func configured(dir, addr, file string, seen Seen, env ...string) (*Balancer, error) {
	root, err := ModuleRoot()
	if err != nil {
		return nil, err
	}
	path, err := findHAProxy()
	if err != nil {
		return nil, err
	}
	return &Balancer{
		Process: &Process{
			name: "haproxy", path: path, env: append(append(os.Environ(), "BIND="+addr), env...),
			args: []string{"-db", "-f", filepath.Join(root, "deploy", "haproxy", file)}, logPath: filepath.Join(dir, "haproxy.log"),
		},
		API: "http://" + addr, Seen: seen, http: newHTTPClient(),
	}, nil
}

// LaunchCells puts an HAProxy before the nodes of two cells, with its log in dir. It may answer a moment later.
func LaunchCells(dir string, a, b *Node) (*Balancer, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	cells, err := configured(dir, addr, "cells.cfg", a.Seen, "CELL_A="+a.Addr, "CELL_B="+b.Addr)
	if err != nil {
		return nil, err
	}
	return cells, cells.Launch()
}

// Start starts HAProxy, again after its end, and waits until it answers.
func (b *Balancer) Start(ctx context.Context) error {
	if err := b.startServing(ctx, b.API+"/health"); err != nil {
		return err
	}
	time.Sleep(balancerChecks) // until its first check it assumes that servers work
	return nil
}

// balancerChecks is the time in which HAProxy has checked every node.
const balancerChecks = 600 * time.Millisecond

// Client returns a client of the nodes through the balancer, with an API key.
func (b *Balancer) Client(key string) *Client {
	return &Client{Base: b.API, Key: key, HTTP: b.http, Seen: b.Seen}
}
