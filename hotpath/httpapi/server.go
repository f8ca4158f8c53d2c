package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

const (
	maxBody = 1 << 20 // S4
	// maxHeader is the size of the buffer that the request line and the header
	// must fit in. Each open connection has one.
	maxHeader = 16 << 10
	// refusedConnections are those beyond the limit that get to hear so. The
	// next ones are closed with a few words by fasthttp.
	refusedConnections = 1024
)

func (a *API) newServer(o *Options) *fasthttp.Server {
	return &fasthttp.Server{
		Name:           "spendgate",
		Handler:        a.handle,
		ErrorHandler:   a.unreadable,
		HeaderReceived: a.prepareBody,

		ReadBufferSize:     maxHeader,
		MaxRequestBodySize: maxBody,
		Concurrency:        o.MaxConnections + refusedConnections,
		ReadTimeout:        o.ReadTimeout,
		WriteTimeout:       o.WriteTimeout,
		IdleTimeout:        o.IdleTimeout,

		CloseOnShutdown:              true,
		DisablePreParseMultipartForm: true,
		NoDefaultContentType:         true,
		// Headers hold keys: they are never logged.
		SecureErrorLogMessage: true,
		Logger:                serverLog{a.log},
	}
}

// Serve answers requests until Shutdown. It gives nil when it was shut down.
func (a *API) Serve(l net.Listener) error {
	if err := a.server.Serve(listener{l, &a.open, a.server}); err != nil && !a.draining.Load() {
		return fmt.Errorf("cannot serve the API: %w", err)
	}
	return nil
}

// Drain makes every answer from now on close its connection, so that clients
// and balancers go elsewhere before Shutdown. Requests are still taken.
func (a *API) Drain() { a.draining.Store(true) }

// Shutdown takes no new connection, finishes the requests in flight and closes
// (G11). It gives the context's error when that ends first.
func (a *API) Shutdown(ctx context.Context) error {
	a.Drain()
	a.open.hurry()
	if err := a.server.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("cannot finish the requests in flight: %w", err)
	}
	return nil
}

// transferCoded marks a request with a Transfer-Encoding. No client can send
// the mark: a header's name never begins with a colon. It is "true" when the
// body is not taken, else how many headers came before a chunked body.
var transferCoded = []byte(":transfer-coded")

// prepareBody is called once a header has been read, before the body. It keeps
// fasthttp from reading a body with a Transfer-Encoding that handle refuses,
// and from inviting one that is too large.
func (a *API) prepareBody(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	coded := namesHeader(h.RawHeaders(), transferEncoding)
	taken := coded && isChunked(h)
	switch {
	case taken:
		a.chunked.keep(h)
		h.SetCanonical(transferCoded, strconv.AppendInt(nil, int64(h.Len()), 10))
	case coded:
		h.SetContentLength(0)
		h.SetCanonical(transferCoded, valueTrue)
	}
	if coded && !taken || h.ContentLength() > maxBody {
		h.Del(fasthttp.HeaderExpect)
	}
	return fasthttp.RequestConfig{}
}

// keptHeaders are copies of those whose chunked body is being read: of one that
// is too large fasthttp drops the request, which is yet to be routed (S1).
type keptHeaders struct {
	mu   sync.Mutex
	kept map[*fasthttp.RequestHeader]*fasthttp.RequestHeader
}

// maxKeptHeaders bounds those of clients that went away amid a body, of which
// nobody tells. Past it all are forgotten, which costs some their routing.
const maxKeptHeaders = 1024

func (k *keptHeaders) keep(h *fasthttp.RequestHeader) {
	c := new(fasthttp.RequestHeader)
	h.CopyTo(c)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= maxKeptHeaders {
		k.kept = make(map[*fasthttp.RequestHeader]*fasthttp.RequestHeader)
	}
	k.kept[h] = c
}

// take gives the copy back, once, or nil.
func (k *keptHeaders) take(h *fasthttp.RequestHeader) *fasthttp.RequestHeader {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.kept[h]
	delete(k.kept, h)
	return c
}

// isChunked reports a body whose end no two servers can see differently: just
// chunked, without a Content-Length beside it, where a body is usual. (In
// HTTP/1.0 fasthttp refuses it.)
func isChunked(h *fasthttp.RequestHeader) bool {
	const chunked = -1
	return h.ContentLength() == chunked && !h.IsGet() && !h.IsHead() && !namesHeader(h.RawHeaders(), contentLength)
}

// namesHeader looks for a header's name, in lower case, since fasthttp tells
// only of transfer codings that it knows, and not of a Content-Length beside.
func namesHeader(raw, name []byte) bool {
	for len(raw) > 0 {
		var line []byte
		line, raw, _ = bytes.Cut(raw, newline)
		if len(line) > len(name) && line[0]|0x20 == name[0] && bytes.EqualFold(line[:len(name)], name) {
			return true
		}
	}
	return false
}

var (
	newline          = []byte("\n")
	transferEncoding = []byte("transfer-encoding")
	contentLength    = []byte("content-length")
)

// bodyFault is what is wrong with a body that has a Transfer-Encoding. Trailers
// come after it, and could add headers behind the back of a proxy.
func (a *API) bodyFault(h *fasthttp.RequestHeader) error {
	mark := h.PeekCanonical(transferCoded)
	if len(mark) == 0 {
		return nil
	}
	a.chunked.take(h)
	before, err := strconv.Atoi(string(mark))
	if err != nil {
		return errLengthRequired
	}
	if h.Len() > before+1 { // the mark itself
		return errTrailers
	}
	return nil
}

// handle is called with every request that could be read.
func (a *API) handle(ctx *fasthttp.RequestCtx) {
	unread := a.bodyFault(&ctx.Request.Header)
	if unread != nil {
		lingerOn(ctx)
	}
	a.serve(ctx, unread)
}

// unreadable is called with a request that could not be read; the connection
// is closed afterwards. A body that is too large is answered in its turn, like
// any other fault of a body. For the rest there is no request to be routed.
func (a *API) unreadable(ctx *fasthttp.RequestCtx, err error) {
	var header *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		lingerOn(ctx)
		if h := &ctx.Request.Header; len(h.RawHeaders()) == 0 { // chunked
			kept := a.chunked.take(h)
			if kept == nil {
				a.refuse(ctx, errBodyTooLarge)
				return
			}
			kept.CopyTo(h)
		}
		a.serve(ctx, errBodyTooLarge)
	case errors.As(err, &header):
		lingerOn(ctx)
		a.refuse(ctx, errHeaderTooLarge)
	case errors.As(err, &network) && network.Timeout():
		if c, ok := ctx.Conn().(*conn); ok && c.first.IsZero() {
			// Nothing was asked. An answer would be taken for that of the
			// request that a client may be about to send.
			c.mute.Store(true)
			return
		}
		a.refuse(ctx, errSlowClient)
	default:
		lingerOn(ctx)
		a.refuse(ctx, errBadHTTP)
	}
}

// refuse answers what is no request.
func (a *API) refuse(ctx *fasthttp.RequestCtx, err error) {
	x := &exchange{ctx: ctx, id: newRequestIDs()[:requestIDSize], started: startOf(ctx), endpoint: a.unrouted}
	a.fail(x, err)
	x.writeHeaders()
	a.metrics.observe(x)
	a.logFailure(x)
}

func lingerOn(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger.Store(true)
	}
}

// serverLog takes what fasthttp has to say of broken connections.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Printf(format string, args ...any) {
	l.log.Debug("http server: " + fmt.Sprintf(format, args...))
}
