package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// findRedis gives the path of redis-server.
func findRedis() (string, error) {
	if path := os.Getenv("TEST_REDIS_SERVER"); path != "" {
		return path, nil
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("cannot find redis-server; install it or name it by TEST_REDIS_SERVER: %w", err)
	}
	return path, nil
}

// findPostgres gives the folder of PostgreSQL's programs.
func findPostgres() (string, error) {
	// Debian keeps each version in a folder of its own, off the PATH.
	candidates, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", fmt.Errorf("cannot look for PostgreSQL: %w", err)
	}
	slices.Reverse(candidates) // the newest first
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			candidates = append([]string{filepath.Dir(path)}, candidates...)
		}
	}
	if dir := os.Getenv("TEST_POSTGRES_BIN"); dir != "" {
		candidates = []string{dir}
	}
	for _, dir := range candidates {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("cannot find initdb and postgres in %q; install PostgreSQL or name their folder by TEST_POSTGRES_BIN", candidates)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// postgresUser is who must run PostgreSQL; nil is the caller.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	names := []string{"postgres", "nobody"}
	if name := os.Getenv("TEST_POSTGRES_USER"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("cannot run PostgreSQL as %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("cannot run PostgreSQL as root, nor as any of %q, who do not exist", names)
}

// given are the ports of this process' servers: one that does not listen yet,
// or was killed, must find its own again.
var given sync.Map

// freePort gives a loopback port on which nothing listens, each once. It lies
// below the range that the kernel gives to outgoing connections, so that it is
// still free when a killed server comes back to it.
func freePort() (int, error) {
	const first, count, tries = 20000, 12000, 50
	for range tries {
		port := first + rand.IntN(count)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("cannot find a free port: %w", err)
		}
		if _, taken := given.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
	return 0, fmt.Errorf("cannot find a free port in %d tries", tries)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
