package guard

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"spendgate/audit/sqlite"
	"spendgate/bench/must"
	"spendgate/hotpath/guard/embedded"
	"spendgate/ratelimit"
)

// inVirtualTime runs a test in which time passes only while all goroutines wait, so that what a busy machine takes
// is no time-out.
func inVirtualTime(t *testing.T, f func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // what still waits is given up
		f(t)
	})
}

func newGuard(t *testing.T) *Guard { return newSlowGuard(t, new(atomic.Int64)) }

// newSlowGuard returns a guard whose writes to Redis take as many nanoseconds
// longer.
func newSlowGuard(t *testing.T, delay *atomic.Int64) *Guard {
	t.Helper()
	return newDialingGuard(t, func(c net.Conn, err error) (net.Conn, error) { return slowConn{c, delay}, err })
}

// newDialingGuard returns a guard whose connections to Redis become what a function makes of them.
func newDialingGuard(t *testing.T, dialed func(net.Conn, error) (net.Conn, error)) *Guard {
	t.Helper()
	store := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"), slog.New(slog.DiscardHandler)))(t)
	server := must.Get(embedded.Start())(t)
	o := server.Options()
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialed(dial(ctx, network, addr))
	}
	g := New(Options{
		Redis: o, Embedded: true, Store: store,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	t.Cleanup(func() {
		_ = g.Close()
		server.Close()
		store.Close()
	})
	return g
}

type slowConn struct {
	net.Conn
	delay *atomic.Int64
}

func (c slowConn) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(c.delay.Load()))
	return c.Conn.Write(b)
}

// newLoadable returns a guard that is in an epoch whose windows are loaded, and the server of its windows, in virtual time.
func newLoadable(t *testing.T) (*Guard, *redis.Client) {
	t.Helper()
	g := newGuard(t)
	must.Get(g.Ask(t.Context(), ratelimit.Hit{}))(t)
	server := must.Get(g.redis.Master(t.Context()))(t)
	synctest.Wait() // for the guard's own loading, which changes the marker
	return g, server
}
