package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/valyala/fasthttp"
)

const (
	// maxHeader is the size of the buffer that the request line and the header
	// must fit in. Each open connection has one.
	maxHeader = 16 << 10
	// refusedConnections is how many connections beyond the limit get a refusal. Further ones are
	// closed without a response.
	refusedConnections = 1024
)

func (a *API) newServer(o *Options) *fasthttp.Server {
	return &fasthttp.Server{
		Name:           "spendgate",
		Handler:        a.handle,
		ErrorHandler:   a.unreadable,
		HeaderReceived: a.inspectHeader,

		ReadBufferSize: maxHeader,
		// Streamed, since else memory is taken for the whole of a body before its
		// first byte arrives. So much of it is read before the handler is called.
		StreamRequestBody:  true,
		MaxRequestBodySize: freeBody,
		Concurrency:        o.MaxConnections + 2*refusedConnections, // never reached: openConns bounds them
		ReadTimeout:        o.ReadTimeout,
		WriteTimeout:       o.WriteTimeout,
		IdleTimeout:        o.IdleTimeout,

		CloseOnShutdown:              true,
		DisablePreParseMultipartForm: true,
		NoDefaultContentType:         true,
		// Headers hold keys: they are never logged.
		SecureErrorLogMessage: true,
		Logger:                serverLog{a.Logger},
	}
}

// Serve answers requests until Shutdown. It returns nil after Shutdown.
func (a *API) Serve(l net.Listener) error {
	served := listener{l, &a.open, a.server, a.Logger}
	defer func() { _ = served.Close() }()
	if err := a.server.Serve(served); err != nil && !a.draining.Load() {
		return fmt.Errorf("cannot serve the API: %w", err)
	}
	return nil
}

// Drain makes every answer from now on close its connection, so that clients
// and balancers go elsewhere before Shutdown. Requests are still taken.
func (a *API) Drain() {
	if !a.draining.Swap(true) {
		close(a.drain) // requests that wait for an approval are answered
	}
}

// Shutdown takes no new connection, finishes the requests in flight and closes
// (G11). It returns the context's error when that ends first.
func (a *API) Shutdown(ctx context.Context) error {
	a.Drain()
	a.open.closed.Store(true)
	a.open.hurry()
	if err := a.server.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("cannot finish the requests in flight: %w", err)
	}
	return nil
}

// handle is called with every request whose header could be read.
func (a *API) handle(ctx *fasthttp.RequestCtx) {
	fault := headerFault(&ctx.Request.Header)
	if c, ok := ctx.Conn().(*conn); ok && c.bareLF {
		fault = errBadHTTP
	}
	a.serve(ctx, fault)
}

// unreadable is called for a request whose header, or the beginning of whose body, could not be read;
// the connection is closed afterwards. It cannot be routed.
func (a *API) unreadable(ctx *fasthttp.RequestCtx, err error) {
	var header *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &header):
		lingerOn(ctx)
		a.refuse(ctx, errHeaderTooLarge)
	case errors.Is(err, net.ErrClosed): // by openConns
	case isTimeout(err):
		if c, ok := ctx.Conn().(*conn); ok && c.first.IsZero() {
			// Nothing was asked. An answer would be taken for the answer of the
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

// refuse answers an unreadable request.
func (a *API) refuse(ctx *fasthttp.RequestCtx, err error) {
	x := &exchange{ctx: ctx, id: newRequestIDs()[:requestIDSize], endpoint: a.unrouted}
	x.started, _ = startOf(ctx)
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

// serverLog receives fasthttp's errors about broken connections.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Printf(format string, args ...any) {
	l.log.Debug("http server: " + fmt.Sprintf(format, args...))
}
