package fleet

import (
	"cmp"
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
	"strings"
	"sync"
	"syscall"
)

func findRedis() (string, error) { return find("TEST_REDIS_SERVER", "redis-server") }

// findHAProxy also searches Debian's folder, which is not on the PATH of users.
func findHAProxy() (string, error) { return find("TEST_HAPROXY", "haproxy", "/usr/sbin/haproxy") }

func findPgBouncer() (string, error) {
	return find("TEST_PGBOUNCER", "pgbouncer", "/usr/sbin/pgbouncer")
}

func findPrometheus() (string, error) { return find("TEST_PROMETHEUS", "prometheus") }

// find returns the path of a program, which a variable may name.
func find(variable string, names ...string) (string, error) {
	if name := os.Getenv(variable); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot find %s; install it or name it by %s", names[0], variable)
}

// findPostgres returns the folder of PostgreSQL's programs.
func findPostgres() (string, error) {
	candidates := []string{os.Getenv("TEST_POSTGRES_BIN")}
	if candidates[0] == "" {
		candidates = postgresFolders()
	}
	for _, dir := range candidates {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("cannot find initdb and postgres in %q; install PostgreSQL or name their folder by TEST_POSTGRES_BIN", candidates)
}

// postgresFolders returns the folders where PostgreSQL's programs may be.
func postgresFolders() (folders []string) {
	if dir, err := exec.Command("pg_config", "--bindir").Output(); err == nil { //nolint:noctx // it prints and ends
		folders = append(folders, strings.TrimSpace(string(dir)))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(path))
		}
	}
	// Debian keeps each version in a folder of its own, off the PATH. Take the newest.
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is right
	version := func(path string) float64 {
		n, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(path)), 64)
		return n
	}
	slices.SortFunc(versions, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	return append(folders, versions...)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// postgresUser returns the user who must run PostgreSQL, which refuses root; nil means the caller.
func postgresUser() (*user.User, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	names := []string{"postgres", "nobody"}
	if name := os.Getenv("TEST_POSTGRES_USER"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if u, err := user.Lookup(name); err == nil {
			return u, nil
		}
	}
	return nil, fmt.Errorf("cannot run PostgreSQL as root, nor as any of %q, who do not exist", names)
}

func postgresCredential() (*syscall.Credential, error) {
	u, err := postgresUser()
	if u == nil || err != nil {
		return nil, err
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("cannot run PostgreSQL as %s: %w", u.Username, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// Environ returns this program's environment with the variables by which
// another one finds the same servers. Those of programs that are not installed
// are left out.
func Environ() []string {
	env := os.Environ()
	for variable, find := range map[string]func() (string, error){
		"TEST_REDIS_SERVER": findRedis, "TEST_POSTGRES_BIN": findPostgres, "TEST_HAPROXY": findHAProxy, "TEST_PROMETHEUS": findPrometheus,
		"TEST_PGBOUNCER": findPgBouncer,
		"TEST_POSTGRES_USER": func() (string, error) {
			u, err := postgresUser()
			if u == nil {
				return "", err
			}
			return u.Username, nil
		},
	} {
		if value, err := find(); err == nil && value != "" {
			env = append(env, variable+"="+value)
		}
	}
	return env
}

// reserved has a UDP socket for the port of each of this process's servers, while the process lives. A server
// that does not listen yet, or was killed, must be able to use its port again, and no other program that chooses
// one by freePort may take it meanwhile.
var reserved sync.Map

// freePort returns a loopback port on which nothing listens, never the same twice. The port lies
// below the range that the kernel uses for outgoing connections, so that it is still free when a
// killed server restarts on it.
func freePort() (int, error) {
	const first, count, tries = 20000, 12000, 50
	for range tries {
		port := first + rand.IntN(count)
		mine, err := net.ListenPacket("udp", loopback(port))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			_ = mine.Close() // nothing is lost with it
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("cannot find a free port: %w", err)
		}
		reserved.Store(port, mine)
		return port, nil
	}
	return 0, fmt.Errorf("cannot find a free port in %d tries", tries)
}

// endpoint is where a server listens, and its password.
type endpoint struct {
	Port     int
	Password string
}

// onFreePort chooses a free port if there is none.
func (e endpoint) onFreePort() (endpoint, error) {
	var err error
	if e.Port == 0 {
		e.Port, err = freePort()
	}
	return e, err
}

// FreeAddr returns a loopback address on which nothing listens.
func FreeAddr() (string, error) {
	port, err := freePort()
	return loopback(port), err
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
