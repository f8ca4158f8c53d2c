package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"spendgate/bench/load"
)

// Backends are the servers that nodes share.
type Backends struct {
	RedisURL    string
	DatabaseURL string
}

// BackendsFromEnv takes those that with-servers.sh started.
func BackendsFromEnv() (Backends, error) {
	b := Backends{os.Getenv("TEST_REDIS_URL"), os.Getenv("TEST_DATABASE_URL")}
	if b.RedisURL == "" || b.DatabaseURL == "" {
		return b, errors.New("run this inside deploy/servers/with-servers.sh: TEST_REDIS_URL and TEST_DATABASE_URL are not set")
	}
	return b, nil
}

// Processes are the servers' processes, as far as they run on this machine.
func (b Backends) Processes(ctx context.Context) ([]load.Process, error) {
	redisPID, err := b.redisPID(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot find the process of Redis: %w", err)
	}
	postgresPID, err := b.postgresPID(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot find the process of PostgreSQL: %w", err)
	}
	return []load.Process{
		{Name: "redis", PID: redisPID},
		{Name: "postgres", PID: postgresPID, Tree: true},
	}, nil
}

func (b Backends) redisPID(ctx context.Context) (int, error) {
	options, err := redis.ParseURL(b.RedisURL)
	if err != nil {
		return 0, err
	}
	client := redis.NewClient(options)
	defer client.Close() //nolint:errcheck // nothing was written
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if pid, ok := strings.CutPrefix(strings.TrimSpace(line), "process_id:"); ok {
			return strconv.Atoi(pid)
		}
	}
	return 0, errors.New("INFO does not tell")
}

func (b Backends) postgresPID(ctx context.Context) (int, error) {
	conn, err := pgx.Connect(ctx, b.DatabaseURL)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing was written
	var backend int
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0, err
	}
	return load.Parent(backend)
}

// Node is a running node of a fleet.
type Node struct {
	*Server
	Addr string // of the API
	Ops  string // of /metrics and pprof
}

// StartNode starts a node on the backends. Its log goes to a file in dir.
func StartNode(ctx context.Context, b Backends, name, adminKey, dir string) (*Node, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	ops, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	server, err := Start(ctx, Command{
		Name: name, Binary: Binary("spendgate"), Args: []string{"serve"},
		Env: []string{
			"SPENDGATE_LISTEN_ADDR=" + addr, "SPENDGATE_OPS_ADDR=" + ops,
			"SPENDGATE_REDIS_URL=" + b.RedisURL, "SPENDGATE_DATABASE_URL=" + b.DatabaseURL,
			"SPENDGATE_ADMIN_KEY=" + adminKey, "SPENDGATE_PPROF=true", "SPENDGATE_LOG_LEVEL=warn",
			"SPENDGATE_TRUSTED_PROXIES=127.0.0.1", // of others a node takes fewer connections
		},
		Ready: "http://" + ops + "/readyz", Log: filepath.Join(dir, name+".log"),
	})
	if err != nil {
		return nil, err
	}
	return &Node{Server: server, Addr: addr, Ops: ops}, nil
}

// Process is the node's.
func (n *Node) Process() load.Process { return load.Process{Name: "node", PID: n.PID()} }
