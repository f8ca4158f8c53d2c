package postgres

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// hosts remembers which of several hosts took writes last. That host is tried first, so that a dead
// machine costs its timeout once and not with every connection.
type hosts struct {
	names sync.Map               // the names of IP addresses, as looked up
	last  atomic.Pointer[string] // host:port
}

// learn makes connections made with c note which host took writes.
func (h *hosts) learn(c *pgconn.Config) {
	lookUp, after := c.LookupFunc, c.AfterConnect
	c.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		addrs, err := lookUp(ctx, host)
		for _, addr := range addrs {
			h.names.Store(addr, host)
		}
		return addrs, err
	}
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		err := after(ctx, conn)
		if err == nil {
			h.tookWrites(conn.Conn().RemoteAddr())
		}
		return err
	}
}

func (h *hosts) tookWrites(addr net.Addr) {
	ip, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return // a Unix socket
	}
	if name, ok := h.names.Load(ip); ok {
		last := net.JoinHostPort(name.(string), port)
		h.last.Store(&last)
	}
}

// order puts the host that took writes last first, and returns c.
func (h *hosts) order(c *pgconn.Config) *pgconn.Config {
	last := h.last.Load()
	if last == nil || len(c.Fallbacks) == 0 {
		return c
	}
	all := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	slices.SortStableFunc(all, func(a, b *pgconn.FallbackConfig) int { return rank(a, *last) - rank(b, *last) })
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
	return c
}

func rank(c *pgconn.FallbackConfig, first string) int {
	if net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) == first {
		return 0
	}
	return 1
}
