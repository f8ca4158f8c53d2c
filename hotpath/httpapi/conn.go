package httpapi

import (
	"bytes"
	"container/list"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// listener wraps what it accepts in a conn.
type listener struct {
	net.Listener
	open   *openConns
	server *fasthttp.Server
}

// Accept implements net.Listener. It fails after Shutdown, which closes only
// listeners that are served already.
func (l listener) Accept() (net.Conn, error) {
	for {
		if l.open.closed.Load() {
			return nil, net.ErrClosed
		}
		accepted, err := l.Listener.Accept()
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

// Close implements net.Listener. Serve and Shutdown both call it.
func (l listener) Close() error {
	if err := l.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// conn notes when the first byte of a request is read. None of fasthttp's
// hooks can: RequestCtx.Time is the end of the request, HeaderReceived comes
// after its header, and the connection counts as active before the first byte
// of its first request. One time.Now a request is all it costs.
//
// It also closes so that a client still sending gets to read its refusal, and
// spares the runtime's timers most of the three deadlines that fasthttp sets for
// each request.
type conn struct {
	net.Conn

	// first is the time of the first byte of the request being read, zero
	// while none has come. Only the connection's goroutine touches it.
	first time.Time
	fresh bool // nothing has ever been read; like first

	// When reading is to end, and what the socket knows of it; like first.
	readBy            time.Time
	readSet, writeSet time.Time
	answering         bool // and how long that may take was said; like first

	// buffer is fasthttp's, of which Read is given what is free: in front of that are the
	// bytes of a header that is not whole. Nil before the first Read; like first.
	buffer []byte
	bareLF bool // the request line ends with a bare LF; like first

	// excess: there are too many connections. The first request is refused, and
	// need not be waited for long.
	excess bool

	network netip.Addr    // that it is counted by; none of a trusted proxy
	silent  *list.Element // among those without a request; open.mu guards it
	asked   bool          // it is not there any more; like first

	open   *openConns
	server *fasthttp.Server
	linger atomic.Bool // the rest of a request is still to come
	mute   atomic.Bool // nothing more is to be said
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
		return 0, errBadHTTP // what would follow is not waited for
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

// SetReadDeadline implements net.Conn. It is for the next Read: most requests
// are read whole at once, and the deadline for the rest of them is not needed.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	return nil
}

// bindRead tells the socket when reading is to end, also while hurry is at it.
func (c *conn) bindRead() error {
	if c.near(c.readSet, c.readBy) {
		return nil
	}
	c.readSet = c.readBy
	err := c.Conn.SetReadDeadline(c.readBy)
	if c.open.closing.Load() {
		// Nor at once: what a client sent that was just accepted is answered,
		// not reset (G11).
		err = c.Conn.SetReadDeadline(time.Now().Add(finishReading))
	}
	return err
}

// SetWriteDeadline implements net.Conn. What hurry allows is for answers that
// are half taken; others have all the time that they need.
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

// Write implements net.Conn. fasthttp sets no deadline before it refuses what it
// cannot read, and before it invites a body: the deadline of the answer before may be
// long over.
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

// What a lingering connection takes in before it is closed for good.
const (
	lingerTime  = time.Second
	lingerBytes = 4 << 20
)

// Close implements net.Conn. To close with bytes unread makes the kernel send
// a reset, which can overtake the answer. So a lingering connection ends its
// own half first, and takes in what the client was still sending.
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
