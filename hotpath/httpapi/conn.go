package httpapi

import (
	"bytes"
	"container/list"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// listener wraps each accepted connection in a conn.
type listener struct {
	net.Listener
	open   *openConns
	server *fasthttp.Server
	log    *slog.Logger
}

// Accept implements net.Listener. It fails after Shutdown, which closes only
// listeners that are served already.
func (l listener) Accept() (net.Conn, error) {
	for {
		if l.open.closed.Load() {
			return nil, net.ErrClosed
		}
		accepted, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM) {
			l.makeRoom(err)
			continue
		}
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, open: l.open, server: l.server, fresh: true}
		if l.open.add(c) {
			return c, nil
		}
		_ = accepted.Close()
	}
}

// makeRoom closes the connection that has been silent longest, since the system has no file or
// memory for another one. fasthttp would end the server.
func (l listener) makeRoom(err error) {
	const pause = 10 * time.Millisecond
	closed := l.open.closeSilent()
	if n, due := l.open.failed.add(time.Now()); due {
		l.log.Warn("cannot accept connections", "times", n, "error", err.Error())
	}
	if !closed {
		time.Sleep(pause)
	}
}

// Close implements net.Listener. Serve and Shutdown both call it.
func (l listener) Close() error {
	if err := l.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// conn notes when the first byte of a request is read. None of fasthttp's hooks can do so:
// RequestCtx.Time is the end of the request, HeaderReceived comes after its header, and the connection
// counts as active before the first byte of its first request. It costs one time.Now a request.
//
// It also closes in a way that lets a client that is still sending read its refusal, and saves most of
// the three deadlines that fasthttp sets for each request.
type conn struct {
	net.Conn

	// first is the time of the first byte of the request that is being read, zero if none has come.
	// Only the connection's goroutine uses it.
	first time.Time
	fresh bool // nothing has ever been read; like first

	// The deadline for reading, and the deadline that the socket has; like first.
	readBy            time.Time
	readSet, writeSet time.Time
	answering         bool // and how long that may take was said; like first

	// buffer is fasthttp's buffer, of which Read gets the free part: the bytes before it are those of
	// an incomplete header. Nil before the first Read; like first.
	buffer []byte
	bareLF bool // the request line ends with a bare LF; like first

	// excess: there are too many connections. The first request is refused, and
	// need not be waited for long.
	excess bool

	network netip.Addr    // the network that it is counted by; zero for a trusted proxy
	silent  *list.Element // the place in open.silent; open.mu guards it
	asked   bool          // a request came, so the connection left open.silent; like first

	open   *openConns
	server *fasthttp.Server
	linger atomic.Bool // the rest of a request is still to come
	mute   atomic.Bool // nothing more is to be written
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case c.fresh && c.excess:
		c.allow(min(finishReading, c.server.IdleTimeout))
	case c.fresh:
		// As long as before any other request: fasthttp's ReadTimeout would
		// close a connection that a client opened for later.
		c.allow(c.server.IdleTimeout)
	}
	if err := c.bindRead(); err != nil {
		return 0, err
	}
	c.answering = false
	if c.buffer == nil {
		c.buffer = p
	}
	held := max(len(c.buffer)-len(p), 0)
	if hasBareLF(c.buffer[:held]) {
		return 0, errBadHTTP // the rest is not awaited
	}
	n, err := c.Conn.Read(p)
	if held > 0 || c.first.IsZero() {
		c.bareLF = endsBare(c.buffer[:min(held+n, len(c.buffer))])
	}
	if n > 0 && c.fresh {
		c.allow(c.server.ReadTimeout)
	}
	if n > 0 && c.first.IsZero() {
		c.first, c.fresh = time.Now(), false
	}
	return n, err
}

// hasBareLF reports whether a line ends with LF alone.
func hasBareLF(text []byte) bool {
	for line := range bytes.Lines(text) {
		if endsBare(line) {
			return true
		}
	}
	return false
}

// endsBare reports whether the first line does.
func endsBare(text []byte) bool {
	i := bytes.IndexByte(text, '\n')
	return i == 0 || i > 0 && text[i-1] != '\r'
}

// allow bounds how long the first request is waited for.
func (c *conn) allow(d time.Duration) { c.readBy = time.Now().Add(d) }

// SetReadDeadline implements net.Conn. The deadline takes effect at the next Read: most requests are
// read whole at once, and need no deadline for the rest.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	return nil
}

// bindRead sets the socket's deadline for reading, also while hurry runs.
func (c *conn) bindRead() error {
	if c.near(c.readSet, c.readBy) {
		return nil
	}
	c.readSet = c.readBy
	err := c.Conn.SetReadDeadline(c.readBy)
	if c.open.closing.Load() {
		// The deadline is not immediate: a request on a connection that was just accepted is answered,
		// not reset (G11).
		err = c.Conn.SetReadDeadline(time.Now().Add(finishReading))
	}
	return err
}

// SetWriteDeadline implements net.Conn. The deadline of hurry is for responses that are half sent;
// others have their full time.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.answering = true
	if c.near(c.writeSet, t) && !c.open.closing.Load() {
		return nil
	}
	c.writeSet = t
	return c.Conn.SetWriteDeadline(t)
}

// near reports whether the deadline that is set will do for the one asked for:
// it ends early by no more than a sixteenth of the shortest timeout.
func (c *conn) near(set, asked time.Time) bool {
	early := asked.Sub(set)
	return early >= 0 && early <= min(c.server.ReadTimeout, c.server.WriteTimeout, c.server.IdleTimeout)/16
}

// Write implements net.Conn. fasthttp sets no deadline before it refuses an unreadable request, and
// before it sends 100 Continue: the deadline of the response before may have passed.
func (c *conn) Write(p []byte) (int, error) {
	if c.mute.Load() {
		return len(p), nil
	}
	if timeout := c.server.WriteTimeout; timeout > 0 && !c.answering && !c.open.closing.Load() {
		if err := c.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// What a lingering connection reads before it is closed.
const (
	lingerTime  = time.Second
	lingerBytes = 4 << 20
)

// Close implements net.Conn. Closing with unread bytes makes the kernel send a reset, which can
// overtake the response. So a lingering connection first ends its own half, and reads what the client
// was still sending.
func (c *conn) Close() error {
	c.open.remove(c)
	if c.linger.Swap(false) {
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_ = c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
	}
	return c.Conn.Close()
}

// closedBy reports whether the client closed its half of the connection. It reads nothing.
func (c *conn) closedBy() bool {
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err == nil && n == 0 || errors.Is(err, syscall.ECONNRESET)
	})
	return closed || err != nil
}

// gonePoll is how often the connection of a client who waits is looked at.
const gonePoll = 200 * time.Millisecond

// watch returns a channel that is closed when the client has closed the connection, or when stop is closed. end ends the watch.
func watch(ctx *fasthttp.RequestCtx, stop <-chan struct{}) (gone <-chan struct{}, end func()) {
	c, ok := ctx.Conn().(*conn)
	if !ok {
		return stop, func() {}
	}
	seen, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(seen)
		ticker := time.NewTicker(gonePoll)
		defer ticker.Stop()
		for !c.closedBy() {
			select {
			case <-ticker.C:
			case <-stop:
				return
			case <-ended:
				return
			}
		}
	}()
	return seen, func() { close(ended) }
}

// onExcess reports whether a request came over one connection too many.
func onExcess(ctx *fasthttp.RequestCtx) bool {
	c, ok := ctx.Conn().(*conn)
	return ok && c.excess
}

// heardFrom notes that a request came whole. Once is enough.
func heardFrom(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*conn); ok && !c.asked {
		c.asked = true
		c.open.hear(c)
	}
}

// startOf is when the first byte of a request was read. A pipelined request
// that had been read along with the one before it starts now.
func startOf(ctx *fasthttp.RequestCtx) (started time.Time, pipelined bool) {
	c, ok := ctx.Conn().(*conn)
	if !ok || c.first.IsZero() {
		return time.Now(), ok
	}
	first := c.first
	c.first = time.Time{}
	return first, false
}
