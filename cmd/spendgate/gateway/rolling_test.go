package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
)

// balanced are two gateways that are processes, behind deploy/haproxy/gateways.cfg.
type balanced struct {
	*enforced
	address  string
	files    [2]string
	ops      [2]string
	gateways [2]*exec.Cmd
}

func startBalanced(t *testing.T) *balanced {
	t.Helper()
	program := os.Getenv("TEST_HAPROXY")
	if program == "" {
		program = "/usr/sbin/haproxy"
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("needs HAProxy")
	}
	b := &balanced{enforced: startEnforced(t, "")}
	lock := must.Get(os.ReadFile(b.file + ".lock"))(t)
	b.address = freeAddress(t)
	c := exec.Command(program, "-db", "-f", "../../../deploy/haproxy/gateways.cfg")
	c.Env = append(os.Environ(), "BIND="+b.address)
	folder := filepath.Dir(b.file)
	for i := range b.files {
		listen := freeAddress(t)
		b.ops[i] = freeAddress(t)
		_, port, _ := net.SplitHostPort(b.ops[i])
		c.Env = append(c.Env, fmt.Sprintf("GATEWAY%d=%s", i+1, listen), fmt.Sprintf("GATEWAY%d_OPS=%s", i+1, port))
		head := fmt.Sprintf("spendgate: {url: %q, key_file: gateway.key}\nlisten: %s\nmetrics: %s\n", b.API, listen, b.ops[i])
		b.files[i] = write(t, folder, fmt.Sprintf("g%d.yaml", i), gatewayFile(b.service, b.provider, head, ""))
		write(t, folder, fmt.Sprintf("g%d.yaml.lock", i), string(lock))
		b.start(t, i)
	}
	must.Do(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	within(t, "the balancer sends", func() bool {
		r, err := http.Get("http://" + b.address + Path)
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil && r.StatusCode != http.StatusServiceUnavailable
	})
	return b
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close() //nolint:errcheck // it listens to nobody
	return l.Addr().String()
}

// start starts a gateway, and waits until it is ready.
func (b *balanced) start(t *testing.T, i int) {
	t.Helper()
	c := b.command("gateway", b.files[i])
	must.Do(t, c.Start())
	b.gateways[i] = c
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	within(t, "ready", func() bool {
		r, err := http.Get("http://" + b.ops[i] + "/readyz")
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
}

// TestRollingRestart: two gateways behind HAProxy are restarted, and no call fails or pays twice.
func TestRollingRestart(t *testing.T) {
	b := startBalanced(t)
	b.provider.slow = 2 * time.Millisecond
	done, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	var made atomic.Int64
	for i := range 12 {
		agent := connect(t, agentClient(), &sdk.StreamableClientTransport{Endpoint: "http://" + b.address + Path}, latestVersion)
		calls.Go(func() {
			for n := 0; done.Err() == nil; n++ {
				state, text := refund(t, agent, fmt.Sprintf("ch_%d_%d", i, n), 1)
				if made.Add(1); state != stateExecuted {
					t.Errorf("call %d of agent %d: %s %s", n, i, state, text)
				}
			}
		})
	}
	session := connect(t, agentClient(), &sdk.StreamableClientTransport{Endpoint: "http://" + b.address + Path}, legacyVersion)
	for i := range 3 { // stays with its gateway, whichever that is
		wants(t, session, fmt.Sprint("ch_session_", i), 1, stateExecuted, "")
	}
	for i, c := range b.gateways {
		before := made.Load()
		must.Do(t, c.Process.Signal(syscall.SIGTERM))
		if err := c.Wait(); err != nil {
			t.Errorf("gateway %d: %v", i, err)
		}
		if made.Load() == before {
			t.Error("nothing was called meanwhile")
		}
		b.start(t, i)
		time.Sleep(time.Second) // HAProxy sees it
	}
	stop()
	calls.Wait()
	for _, charge := range b.provider.paid() {
		if !strings.HasSuffix(charge, " 1") {
			t.Error(charge)
		}
	}
	b.judge(t)
	t.Logf("%d calls", made.Load())
}
