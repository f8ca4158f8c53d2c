package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// StopTimeout is how long calls in flight may take when a server is stopped.
const StopTimeout = 8 * time.Second

// ServeStdio serves one client over a pair of streams until the input or the
// context ends. In both cases calls in flight are finished and the error is nil.
// A line that is no message is answered with an error.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	answers := &output{out: out}
	streams := &sdk.IOTransport{Reader: io.NopCloser(newMessages(in, answers)), Writer: answers, MaxLineLength: maxBody}
	// The context must not cancel the calls in flight.
	session, err := s.mcp.Connect(context.WithoutCancel(ctx), draining{streams, ctx}, nil)
	if err != nil {
		return fmt.Errorf("cannot serve over the standard streams: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(StopTimeout): // a call that hangs must not block the exit
		return nil
	}
}

// draining is a transport whose input ends once all received calls are answered or its context ends.
// The SDK aborts calls in flight at the end of its input: a client that writes its requests and closes
// the stream would get no answers.
type draining struct {
	sdk.Transport
	stop context.Context // ends the input
}

func (d draining) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := d.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &drainingConn{
		Connection: c, stop: d.stop, places: make(chan struct{}, maxInFlight), unanswered: make(map[jsonrpc.ID]bool),
	}, nil
}

type drainingConn struct {
	sdk.Connection
	stop       context.Context
	places     chan struct{} // one taken for each of unanswered, and while a message is read
	mu         sync.Mutex
	unanswered map[jsonrpc.ID]bool
	drained    chan struct{} // closed when the input is over and all is answered
}

// Read waits while there are maxInFlight unanswered calls: the SDK starts every
// call that it receives.
func (c *drainingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.read(ctx)
	if err != nil && c.stop.Err() != nil {
		err = io.EOF
	}
	c.mu.Lock()
	var drained chan struct{}
	if errors.Is(err, io.EOF) && len(c.unanswered) > 0 {
		drained = make(chan struct{})
		c.drained = drained
	}
	c.mu.Unlock()
	if drained != nil {
		select {
		case <-drained:
		case <-time.After(callTimeout + maxWait):
		}
	}
	return message, err
}

// read takes a slot for the message, which a call keeps until it is answered.
func (c *drainingConn) read(ctx context.Context) (jsonrpc.Message, error) {
	stopped, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stop, cancel)()
	select {
	case c.places <- struct{}{}:
	case <-stopped.Done():
		return nil, stopped.Err()
	}
	message, err := c.Connection.Read(stopped)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := message.(*jsonrpc.Request); ok && r.IsCall() && !c.unanswered[r.ID] {
		c.unanswered[r.ID] = true
	} else {
		<-c.places
	}
	return message, err
}

func (c *drainingConn) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if r, ok := message.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.unanswered[r.ID] {
			delete(c.unanswered, r.ID)
			<-c.places
		}
		if c.drained != nil && len(c.unanswered) == 0 {
			close(c.drained)
			c.drained = nil
		}
	}
	return err
}
