package postgres

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"spendgate/audit/idle"
)

// losses records connections that gave no answer. Rarely only one is affected: connections that
// have not answered since such a question was asked are made anew, instead of each being waited for
// (G7). Those of reads and controls that were silent for lossWithin are closed even while they are waited
// for, since what does not hurry may wait for minutes, on all connections that there may be.
type losses struct {
	count atomic.Int64
	last  atomic.Pointer[time.Time]
	heard sync.Map // the open connections of reads and controls, as *heard
}

// add notes that a connection was lost that was asked something at a time, and the error. If that is no silence,
// but the server ended the connection, as by a limit of its idle time, queries in progress on others go on.
func (l *losses) add(asked time.Time, err error) {
	for last := l.last.Load(); last == nil || last.Before(asked); last = l.last.Load() {
		if l.last.CompareAndSwap(last, &asked) {
			break
		}
	}
	l.count.Add(1)
	if network, ok := errors.AsType[net.Error](err); !ok || !network.Timeout() {
		return
	}
	l.heard.Range(func(key, _ any) bool {
		c := key.(*heard)
		if at := c.at.Load(); at.Before(asked) && time.Since(*at) >= lossWithin {
			c.giveUp()
		}
		return true
	})
}

// waitedInVain notes that nothing could be asked since a time, because all connections were in use. Those
// that were silent meanwhile are lost, or have a query that takes the place of others for too long.
func (l *losses) waitedInVain(since time.Time, err error) {
	const atLeast = 500 * time.Millisecond
	if errors.Is(err, context.DeadlineExceeded) && time.Since(since) >= atLeast {
		l.add(since, err)
	}
}

// watch makes the connections of a configuration known to losses.
func (l *losses) watch(c *pgconn.Config) {
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &heard{Conn: conn, losses: l}, nil
	}
}

// heard is a connection that knows when the server was last heard from. One that is being made, which has a
// time of its own, is not known to losses before.
type heard struct {
	net.Conn
	losses *losses
	at     atomic.Pointer[time.Time]
	query  atomic.Pointer[context.CancelFunc] // ends the query in progress, if it can be cancelled
}

// heardOf returns the connection below a pooled one.
func heardOf(c *pgx.Conn) *heard { return idle.Plain(c.PgConn().Conn()).(*heard) }

func (h *heard) giveUp() {
	if cancel := h.query.Load(); cancel != nil {
		(*cancel)()
		return
	}
	_ = h.Close() // whoever waits for an answer is told so
}

// Read implements net.Conn.
func (h *heard) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if now := time.Now(); n > 0 && h.at.Swap(&now) == nil {
		h.losses.heard.Store(h, nil)
	}
	return n, err
}

// Close implements net.Conn.
func (h *heard) Close() error {
	h.losses.heard.Delete(h)
	return h.Conn.Close()
}

// SyscallConn implements syscall.Conn, for idle.Probe.
func (h *heard) SyscallConn() (syscall.RawConn, error) {
	socket, ok := h.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return socket.SyscallConn()
}

// asked returns the time of the latest question that got no answer.
func (l *losses) asked() time.Time {
	if last := l.last.Load(); last != nil {
		return *last
	}
	return time.Time{}
}

// cancelPatience is how long the server has to confirm that it cancelled a query. A connection
// without confirmation is lost. A caller waits longer by this much (G7).
const cancelPatience = 40 * time.Millisecond

// cancelling cancels queries whose time is over. Without that the server would go on with them, and
// it would stay unknown whether the server is there. The connection is then given up, since the
// server may cancel the next query on it.
type cancelling struct{ conn *pgconn.PgConn }

func newCancelling(conn *pgconn.PgConn) ctxwatch.Handler { return cancelling{conn} }

// HandleCancel implements ctxwatch.Handler.
func (c cancelling) HandleCancel(context.Context) {
	_ = c.conn.Conn().SetDeadline(time.Now().Add(cancelPatience)) // fails on a closed connection only
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.conn.CancelRequest(ctx) // a server that cannot be told runs its query to the end
	}()
}

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (c cancelling) HandleUnwatchAfterCancel() { _ = c.conn.Conn().SetDeadline(time.Time{}) } // as above
