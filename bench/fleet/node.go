package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Settings are SPENDGATE_ variables without their prefix.
type Settings map[string]string

// Node is one process of the service. A restart keeps its ports and settings.
type Node struct {
	*Process
	Name string
	Addr string // of the API
	API  string // base URL
	Ops  string // base URL
	Seen Seen   // of all clients of the API
	http *http.Client
}

// NewNode prepares `binary mode` (serve or dev) with ports of its own and its
// log in dir. Settings win over the defaults.
func NewNode(binary, mode, name, dir string, s Settings) (*Node, error) {
	settings := maps.Clone(s)
	if settings == nil {
		settings = Settings{}
	}
	for _, name := range []string{"LISTEN_ADDR", "OPS_ADDR"} {
		if settings[name] == "" {
			var err error
			if settings[name], err = FreeAddr(); err != nil {
				return nil, err
			}
		}
	}
	return &Node{
		Process: &Process{
			name: name, path: binary, args: []string{mode}, env: settings.environ(),
			logPath: filepath.Join(dir, name+".log"),
		},
		Name: name,
		Addr: settings["LISTEN_ADDR"],
		API:  "http://" + settings["LISTEN_ADDR"],
		Ops:  "http://" + settings["OPS_ADDR"],
		http: newHTTPClient(),
	}, nil
}

// Run runs the binary to its end with arguments and settings and returns its
// exit code and all that it wrote.
func Run(ctx context.Context, binary, dir string, s Settings, args ...string) (code int, output string, err error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = dir, s.environ()
	text, err := cmd.CombinedOutput()
	var exited *exec.ExitError
	if errors.As(err, &exited) && ctx.Err() == nil {
		err = nil
	}
	if err != nil {
		return 0, string(text), fmt.Errorf("cannot run %s %q: %w", binary, args, err)
	}
	return cmd.ProcessState.ExitCode(), string(text), nil
}

// environ returns the caller's environment with these settings and no others.
func (s Settings) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "SPENDGATE_") })
	for _, name := range slices.Sorted(maps.Keys(s)) {
		env = append(env, "SPENDGATE_"+name+"="+s[name])
	}
	return env
}

// newHTTPClient makes a client that keeps its connections, and never resends a request that a
// server may have seen.
func newHTTPClient() *http.Client {
	const connections = 512
	return &http.Client{
		Transport: &http.Transport{MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute},
		Timeout:   30 * time.Second,
	}
}

// Install sets the binary of the next start.
func (n *Node) Install(binary string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.path = binary
}

// Start starts the node, again after its end, and waits until it is ready.
func (n *Node) Start(ctx context.Context) error {
	if err := n.Launch(); err != nil {
		return err
	}
	if err := n.WaitReady(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, n.Log())
	}
	return nil
}

// WaitReady waits until /readyz says that the node is ready.
func (n *Node) WaitReady(ctx context.Context) error {
	return n.await(ctx, func(ctx context.Context) error {
		answer, err := n.Ready(ctx)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d: %s", answer.Status, answer.Body)
		}
		return err
	})
}

// Ready returns the answer of /readyz.
func (n *Node) Ready(ctx context.Context) (Answer, error) {
	return n.operations().Do(ctx, http.MethodGet, "/readyz", nil)
}

// Metrics returns the answer of /metrics.
func (n *Node) Metrics(ctx context.Context) (Answer, error) {
	return n.operations().Do(ctx, http.MethodGet, "/metrics", nil)
}

// Goroutines returns the stacks of all goroutines, with the setting PPROF.
func (n *Node) Goroutines(ctx context.Context) (Answer, error) {
	return n.operations().Do(ctx, http.MethodGet, "/debug/pprof/goroutine?debug=2", nil)
}

func (n *Node) operations() *Client { return &Client{Base: n.Ops, HTTP: n.http} }

// Client returns a client of the node with an API key; "" sends none.
func (n *Node) Client(key string) *Client {
	return &Client{Base: n.API, Key: key, HTTP: n.http, Seen: n.Seen}
}

// Admin returns a client of the node with an admin key.
func (n *Node) Admin(key string) *Client {
	return &Client{Base: n.API, AdminKey: key, HTTP: n.http, Seen: n.Seen}
}

// Forget closes idle connections.
func (n *Node) Forget() { n.http.CloseIdleConnections() }
