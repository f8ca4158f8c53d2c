package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Balancer is an HAProxy before the nodes, configured as deploy/haproxy has it.
type Balancer struct {
	*Process
	API  string // base URL
	http *http.Client
}

// StartBalancer puts an HAProxy before three nodes, with its log in dir, and
// waits until it answers.
func StartBalancer(ctx context.Context, dir string, nodes []*Node) (*Balancer, error) {
	root, err := ModuleRoot()
	if err != nil {
		return nil, err
	}
	path, err := findHAProxy()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	env := append(os.Environ(), "BIND="+loopback(port))
	for i, n := range nodes {
		ops, err := url.Parse(n.Ops)
		if err != nil {
			return nil, fmt.Errorf("cannot start haproxy: %w", err)
		}
		env = append(env, fmt.Sprintf("NODE%d=%s", i+1, strings.TrimPrefix(n.API, "http://")), fmt.Sprintf("NODE%d_OPS=%s", i+1, ops.Port()))
	}
	b := &Balancer{
		Process: &Process{
			name: "haproxy", path: path, env: env, args: []string{"-db", "-f", filepath.Join(root, "deploy", "haproxy", "haproxy.cfg")},
			logPath: filepath.Join(dir, "haproxy.log"),
		},
		API:  "http://" + loopback(port),
		http: newHTTPClient(),
	}
	if err := b.start(); err != nil {
		return nil, err
	}
	err = b.await(ctx, func(ctx context.Context) error {
		answer, err := b.Client("").Do(ctx, http.MethodGet, "/health", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("it answers %s", answer)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, b.Log()), b.Kill())
	}
	time.Sleep(balancerChecks) // it takes servers for good until it has looked
	return b, nil
}

// balancerChecks is when HAProxy has looked at every node.
const balancerChecks = 600 * time.Millisecond

// Client talks to the nodes through the balancer, with an API key.
func (b *Balancer) Client(key string) *Client { return &Client{Base: b.API, Key: key, HTTP: b.http} }

// findHAProxy gives the path of haproxy, which Debian keeps off the PATH of users.
func findHAProxy() (string, error) {
	for _, name := range []string{os.Getenv("TEST_HAPROXY"), "haproxy", "/usr/sbin/haproxy"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("cannot find haproxy; install it or name it by TEST_HAPROXY")
}
