package main

import (
	"bufio"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "fleetctl")
	if out, err := fleet.BuildCommand(t.Context(), ".", binary).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// The servers are there while the command runs, and gone afterwards, also when
// a signal ended it.
func TestWithServers(t *testing.T) {
	binary := build(t)
	for name, test := range map[string]struct {
		does   string
		signal syscall.Signal
		code   int
	}{
		"exit code": {does: "read x; exit 7", code: 7},
		"signal":    {does: "exec sleep 600", signal: syscall.SIGTERM, code: 143},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "fleetctl-test-") //nolint:usetesting // PostgreSQL's user needs access
			if err == nil {
				err = os.Chmod(dir, 0o711)
			}
			must.Do(t, err)
			defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
			c := exec.CommandContext(t.Context(), binary, "with-servers", "sh", "-c", "echo $TEST_REDIS_URL; echo $TEST_DATABASE_URL; "+test.does)
			c.Env = append(os.Environ(), "TEST_REDIS_URL=", "TEST_DATABASE_URL=", "TEST_SERVERS_DIR=", "TMPDIR="+dir)
			c.Stderr = t.Output()
			in, inErr := c.StdinPipe()
			out, outErr := c.StdoutPipe()
			if err := c.Start(); err != nil || inErr != nil || outErr != nil {
				t.Fatal(err, inErr, outErr)
			}
			lines := bufio.NewScanner(out)
			var addrs []string
			for range 2 {
				lines.Scan()
				u, err := url.Parse(lines.Text())
				if err != nil || !listens(t, u.Host) {
					t.Errorf("no server at %q: %v", lines.Text(), err)
					continue
				}
				addrs = append(addrs, u.Host)
			}
			if test.signal != 0 {
				must.Check(t, c.Process.Signal(test.signal))
			}
			_ = in.Close()
			_ = c.Wait() // its exit code is checked
			if code := c.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for _, addr := range addrs {
				if listens(t, addr) {
					t.Errorf("%s still listens", addr)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func listens(t *testing.T, addr string) bool {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// Servers that are named from outside are used as they are.
func TestServersFromOutside(t *testing.T) {
	c := exec.CommandContext(t.Context(), build(t), "with-servers", "sh", "-c", "echo $TEST_REDIS_URL $TEST_DATABASE_URL")
	c.Env = append(os.Environ(), "TEST_REDIS_URL=redis://outside", "TEST_DATABASE_URL=postgres://outside", "TEST_REDIS_SERVER=/none",
		"TEST_POSTGRES_BIN=/none")
	if out, err := c.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "redis://outside postgres://outside" {
		t.Errorf("%v: %s", err, out)
	}
}
