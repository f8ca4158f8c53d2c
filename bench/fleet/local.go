package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Local is a fleet in the background, which one command starts and another
// stops: three nodes behind HAProxy, their Redis and PostgreSQL, a gateway before a
// payment provider to try, and a Prometheus that scrapes all. Nodes connect to PostgreSQL with a role that
// owns nothing there, as deploy/postgres has it.
type Local struct {
	Dir        string // holds all files; "" while there is no fleet
	API        string // base URL of HAProxy
	Prometheus string // base URL
	Gateway    string // URL of its MCP server
	Nodes      []*Node

	link   string // to Dir
	binary string
	log    io.Writer
	lock   *os.File

	redis      *Redis
	postgres   *Postgres
	balancer   *Balancer
	prometheus *prometheus
	gateway    *Process
	gatewayAt  nodeState
}

// state is what one command leaves for the next, in fleet.json.
type state struct {
	API        string // host:port
	Prometheus string // host:port
	Nodes      []nodeState
	Gateway    nodeState
	Redis      endpoint
	Postgres   endpoint
}

type nodeState struct{ API, Ops string } // host:port

const (
	localNodes = 3
	stateFile  = "fleet.json"
	// startTime is far more than anything needs to become ready.
	startTime = 30 * time.Second
)

// OpenLocal finds the fleet that a link leads to, if there is one, and keeps
// other programs from it until Close.
func OpenLocal(link, binary string, log io.Writer) (*Local, error) {
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the fleet's folder: %w", err)
	}
	lock, err := os.OpenFile(link+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the fleet: %w", err)
	}
	l := &Local{link: link, binary: binary, log: log, lock: lock}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another command is at work on %s: %w", link, err), l.Close())
	}
	if dir, err := filepath.EvalSymlinks(link); err == nil {
		if _, err := os.Stat(filepath.Join(dir, stateFile)); err == nil {
			l.Dir = dir
		}
	}
	return l, nil
}

// Close unlocks the fleet for other programs.
func (l *Local) Close() error { return l.lock.Close() }

// Up starts everything that does not run and waits until all is ready. HAProxy of a new fleet
// listens on port; 0 means a free one. A new fleet whose start fails is stopped.
func (l *Local) Up(ctx context.Context, port int) (err error) {
	if !executable(l.binary) {
		return fmt.Errorf("there is no %s: build it with `make build`", l.binary)
	}
	if err := Install(ctx, l.log, "redis-server", "postgresql", "haproxy", "prometheus"); err != nil {
		return fmt.Errorf("cannot start the fleet: %w", err)
	}
	isNew := l.Dir == ""
	if isNew {
		if err := l.create(port); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, l.Down(), fmt.Errorf("stopped; logs are in %s", l.Dir))
			}
		}()
	}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	defer l.postgres.Pool.Close()
	if err := l.startServers(ctx, isNew); err != nil {
		return err
	}
	for _, n := range l.Nodes {
		if !n.adopt() {
			if err := n.Launch(); err != nil {
				return err
			}
		}
	}
	for _, n := range l.Nodes {
		if err := l.ready(ctx, n.Process, n.WaitReady); err != nil {
			return err
		}
	}
	if err := l.ready(ctx, l.balancer.Process, l.balancer.Start); err != nil {
		return err
	}
	if err := l.ready(ctx, l.prometheus.Process, l.prometheus.Start); err != nil {
		return err
	}
	if err := l.addSamples(ctx); err != nil {
		return err
	}
	return l.startGateway(ctx)
}

// ready waits for a process that must be ready in time.
func (l *Local) ready(ctx context.Context, p *Process, wait func(context.Context) error) error {
	if p.pidPath != "" && !p.Running() && p.adopt() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := wait(ctx); err != nil {
		log := p.Log()
		return fmt.Errorf("%s does not get ready; its log is %s: %w\n%s", p.name, p.logPath, err, log[max(0, len(log)-2000):])
	}
	return nil
}

// create makes the folder, ports and secrets of a new fleet.
func (l *Local) create(port int) error {
	s := state{Nodes: make([]nodeState, localNodes)}
	var failures []error
	addr := func() string {
		addr, err := FreeAddr()
		failures = append(failures, err)
		return addr
	}
	if s.API = loopback(port); port == 0 {
		s.API = addr()
	}
	listener, err := net.Listen("tcp", s.API)
	if err != nil {
		return fmt.Errorf("port %d is taken (by `make run`, or another fleet?): choose another one with API_PORT=8090: %w", port, err)
	}
	failures = append(failures, listener.Close())
	for i := range s.Nodes {
		s.Nodes[i] = nodeState{addr(), addr()}
	}
	s.Gateway, s.Prometheus = nodeState{addr(), addr()}, addr()
	for _, e := range []*endpoint{&s.Redis, &s.Postgres} {
		var err error
		*e, err = endpoint{Password: rand.Text()}.onFreePort()
		failures = append(failures, err)
	}
	if old, err := os.Readlink(l.link); err == nil {
		failures = append(failures, os.RemoveAll(old)) // logs of the fleet before
	}
	failures = append(failures, os.RemoveAll(l.link))
	dir, err := os.MkdirTemp("", "spendgate-fleet.")
	if err != nil {
		return fmt.Errorf("cannot make the fleet's folder: %w", err)
	}
	l.Dir = dir
	text, err := json.Marshal(s)
	var checkpointKey [32]byte
	_, _ = rand.Read(checkpointKey[:]) // never fails
	failures = append(failures, err,
		os.Chmod(dir, 0o711), // PostgreSQL's user has to get at its subfolder
		os.Symlink(dir, l.link),
		l.write("admin.key", rand.Text()),
		l.write("checkpoint.key", hex.EncodeToString(checkpointKey[:])),
		l.write(stateFile, string(text)))
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("cannot make the fleet's folder: %w", err)
	}
	return nil
}

func (l *Local) path(name string) string { return filepath.Join(l.Dir, name) }

// write keeps a secret in a file.
func (l *Local) write(name, text string) error {
	return os.WriteFile(l.path(name), []byte(text+"\n"), 0o600)
}

func (l *Local) read(name string) (string, error) {
	text, err := os.ReadFile(l.path(name))
	return strings.TrimSpace(string(text)), err
}

// prepare makes the processes described by the state, started or not.
func (l *Local) prepare(ctx context.Context) error {
	text, err := os.ReadFile(l.path(stateFile))
	if err != nil {
		return fmt.Errorf("cannot read the fleet's state: %w", err)
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("cannot read the fleet's state: %w", err)
	}
	if l.redis, err = newRedis("redis", l.Dir, s.Redis, nil); err != nil {
		return err
	}
	if l.postgres, err = newPostgres(ctx, "postgres", l.path("postgres"), s.Postgres, AdvisedSettings()); err != nil {
		return err
	}
	processes := []*Process{l.redis.Process, l.postgres.Process}
	for i, at := range s.Nodes {
		n, err := NewNode(l.binary, "serve", fmt.Sprintf("node%d", i+1), l.Dir, Settings{
			"LISTEN_ADDR": at.API, "OPS_ADDR": at.Ops, "TRUSTED_PROXIES": "127.0.0.1",
			"REDIS_URL_FILE": l.path("redis.url"), "DATABASE_URL_FILE": l.path("database.url"), "ADMIN_KEY_FILE": l.path("admin.key"),
			"CHECKPOINT_KEY_FILE": l.path("checkpoint.key"), "CHECKPOINT_FILE": l.path("checkpoints.jsonl"), "DEPLOYMENT": "local",
		})
		if err != nil {
			return err
		}
		l.Nodes = append(l.Nodes, n)
		processes = append(processes, n.Process)
	}
	if l.balancer, err = newBalancer(l.Dir, s.API, l.Nodes); err != nil {
		return err
	}
	l.newGateway(s.Gateway)
	if l.prometheus, err = newPrometheus(l.Dir, s.Prometheus, l.Nodes, s.Gateway.Ops); err != nil {
		return err
	}
	l.API, l.Prometheus = l.balancer.API, l.prometheus.url
	for _, p := range append(processes, l.balancer.Process, l.gateway, l.prometheus.Process) {
		p.pidPath = l.path(p.name + ".pid")
	}
	return l.write("redis.url", l.redis.URL)
}

// startServers starts Redis and PostgreSQL and brings the schema up to date.
func (l *Local) startServers(ctx context.Context, isNew bool) error {
	if isNew {
		if err := l.postgres.initCluster(ctx); err != nil {
			return err
		}
	}
	if err := l.ready(ctx, l.redis.Process, l.redis.Start); err != nil {
		return err
	}
	// After a kill -9 its children are in the way until they notice, which takes longer on a busy machine.
	err := l.ready(ctx, l.postgres.Process, l.postgres.Start)
	for began := time.Now(); err != nil && !isNew && time.Since(began) < startTime && ctx.Err() == nil; {
		time.Sleep(time.Second)
		err = l.ready(ctx, l.postgres.Process, l.postgres.Start)
	}
	if err != nil {
		return err
	}
	return l.migrate(ctx, isNew)
}

// migrate follows the runbook: the roles once, then migrate and grant as the
// owner.
func (l *Local) migrate(ctx context.Context, isNew bool) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	scripts := filepath.Join(root, "deploy", "postgres")
	names := map[string]string{"owner": "spendgate_owner", "service": "spendgate", "schema": "spendgate"}
	if isNew {
		if err := l.postgres.Script(ctx, l.postgres.URL, filepath.Join(scripts, "roles.sql"), names); err != nil {
			return err
		}
		for role, file := range map[string]string{names["owner"]: "owner.url", names["service"]: "database.url"} {
			password := rand.Text()
			// A statement that takes long is logged otherwise.
			statement := fmt.Sprintf("SET log_min_duration_statement = -1; ALTER ROLE %s PASSWORD '%s'", role, password)
			if _, err := l.postgres.Pool.Exec(ctx, statement); err != nil {
				return fmt.Errorf("cannot set the password of %s: %w", role, err)
			}
			url, err := l.postgres.As(role, password)
			if err := errors.Join(err, l.write(file, url)); err != nil {
				return err
			}
		}
	}
	code, output, err := Run(ctx, l.binary, l.Dir, Settings{"DATABASE_URL_FILE": l.path("owner.url")}, "migrate", "--service",
		names["service"])
	if err == nil && code != 0 {
		err = fmt.Errorf("cannot migrate: exit code %d\n%s", code, output)
	}
	return err
}

// addSamples stores the policies of deploy/policies and a key to try out with,
// once.
func (l *Local) addSamples(ctx context.Context) error {
	if _, err := os.Stat(l.path("sample.key")); err == nil {
		return nil
	}
	root, rootErr := ModuleRoot()
	admin, err := l.read("admin.key")
	if err := errors.Join(rootErr, err); err != nil {
		return err
	}
	client := &Client{Base: l.API, AdminKey: admin, HTTP: l.balancer.http}
	_, key, err := client.CreateKey(ctx, "sample", 10_000)
	if err != nil {
		return err
	}
	code, output, err := Run(ctx, l.binary, l.Dir, Settings{"API_URL": l.API, "API_KEY": key},
		"policies", "apply", "-f", filepath.Join(root, "deploy", "policies"))
	if err == nil && code != 0 {
		err = fmt.Errorf("cannot store the policies: exit code %d\n%s", code, output)
	}
	return errors.Join(err, l.addGateway(ctx, client), l.write("sample.key", key))
}

// Restart migrates, then restarts the nodes as the runbook says: stop one,
// start it, wait until it is ready, take the next. The gateway is the last.
func (l *Local) Restart(ctx context.Context) error {
	if l.Dir == "" {
		return errors.New("there is no fleet: start one with `make fleet`")
	}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	defer l.postgres.Pool.Close()
	if err := l.migrate(ctx, false); err != nil {
		return err
	}
	for _, n := range l.Nodes {
		fmt.Fprintf(l.log, "restarting %s\n", n.Name) //nolint:errcheck // only says how far it is
		if n.adopt() {
			if err := n.End(); err != nil {
				fmt.Fprintln(l.log, err) //nolint:errcheck // the node is replaced anyway
			}
		}
		if err := l.ready(ctx, n.Process, n.Start); err != nil {
			return err
		}
	}
	if l.gateway.adopt() {
		if _, err := l.gateway.endBy(syscall.SIGTERM); err != nil {
			return err
		}
	}
	return l.startGateway(ctx)
}

// Down stops everything and removes all files but the logs.
func (l *Local) Down() error {
	var failures []error
	end := func(signal syscall.Signal, names ...string) {
		var running []*Process
		for _, name := range names {
			p := &Process{name: name, pidPath: l.path(name + ".pid")}
			if p.adopt() {
				running = append(running, p)
				failures = append(failures, p.signal(signal))
			}
		}
		for _, p := range running {
			_, err := p.endBy(signal)
			failures = append(failures, err)
		}
	}
	end(syscall.SIGTERM, "gateway", "prometheus", "haproxy")
	end(syscall.SIGTERM, "node1", "node2", "node3")
	end(syscall.SIGTERM, "redis")
	end(syscall.SIGQUIT, "postgres") // at once: nothing is kept
	_ = os.Rename(l.path("postgres/postgres.log"), l.path("postgres.log"))
	entries, err := os.ReadDir(l.Dir)
	failures = append(failures, err)
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".log" {
			failures = append(failures, os.RemoveAll(l.path(entry.Name())))
		}
	}
	return errors.Join(failures...)
}
