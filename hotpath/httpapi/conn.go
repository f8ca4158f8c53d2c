package httpapi

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// listener wraps what it accepts in a conn.
type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn notes when the first byte of a request is read. None of fasthttp's
// hooks can: RequestCtx.Time is the end of the request, HeaderReceived comes
// after its header, and the connection counts as active before the first byte
// of its first request. One time.Now a request is all it costs.
//
// It also closes so that a client still sending gets to read its refusal.
type conn struct {
	net.Conn

	// first is the time of the first byte of the request being read, zero
	// while none has come. Only the connection's goroutine touches it.
	first time.Time

	linger atomic.Bool // the rest of a request is still to come
	mute   atomic.Bool // nothing more is to be said
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.first.IsZero() {
		c.first = time.Now()
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.mute.Load() {
		return len(p), nil
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
	if c.linger.Swap(false) {
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_ = c.SetReadDeadline(time.Now().Add(lingerTime))
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
	}
	return c.Conn.Close()
}

// startOf is when the first byte of a request was read. A pipelined request
// that had been read along with the one before it starts now.
func startOf(ctx *fasthttp.RequestCtx) time.Time {
	c, ok := ctx.Conn().(*conn)
	if !ok || c.first.IsZero() {
		return time.Now()
	}
	first := c.first
	c.first = time.Time{}
	return first
}
