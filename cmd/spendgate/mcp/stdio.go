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

// StopTimeout is how long the calls under way may take when a server is told
// to stop.
const StopTimeout = 8 * time.Second

// ServeStdio speaks with one client over a pair of streams until the input or
// the context ends. Either is a clean end: calls under way are finished, and
// the error is nil. A line that is no message is answered as such, and harms
// nothing.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	answers := &output{out: out}
	streams := &sdk.IOTransport{Reader: io.NopCloser(newMessages(in, answers)), Writer: answers, MaxLineLength: maxBody}
	// The context must not cancel the calls under way.
	session, err := s.mcp.Connect(context.WithoutCancel(ctx), patient{streams, ctx}, nil)
	if err != nil {
		return fmt.Errorf("cannot speak over the standard streams: %w", err)
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
	case <-time.After(StopTimeout): // a call that hangs must not keep the process
		return nil
	}
}

// patient is a transport whose input ends when what came over it is answered;
// it also ends with a context. The SDK gives calls under way up at the end of
// its input and when it is closed: a client that writes its requests and
// closes the stream would get no answers.
type patient struct {
	sdk.Transport
	stop context.Context // the life of what it is handed to
}

func (p patient) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := p.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &patientConn{
		Connection: c, stop: p.stop, slots: make(chan struct{}, maxInFlight), unanswered: make(map[jsonrpc.ID]bool),
	}, nil
}

type patientConn struct {
	sdk.Connection
	stop       context.Context
	slots      chan struct{} // one taken for each of unanswered, and while a message is read
	mu         sync.Mutex
	unanswered map[jsonrpc.ID]bool
	settled    chan struct{} // closed when the input is over and all is answered
}

// Read waits while there are maxInFlight calls without an answer: the SDK
// begins with every call that it is given.
func (c *patientConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.read(ctx)
	if err != nil && c.stop.Err() != nil {
		err = io.EOF
	}
	c.mu.Lock()
	var settled chan struct{}
	if errors.Is(err, io.EOF) && len(c.unanswered) > 0 {
		settled = make(chan struct{})
		c.settled = settled
	}
	c.mu.Unlock()
	if settled != nil {
		select {
		case <-settled:
		case <-time.After(callTimeout):
		}
	}
	return message, err
}

// read takes a slot for the message, which a call keeps until it is answered.
func (c *patientConn) read(ctx context.Context) (jsonrpc.Message, error) {
	stopped, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stop, cancel)()
	select {
	case c.slots <- struct{}{}:
	case <-stopped.Done():
		return nil, stopped.Err()
	}
	message, err := c.Connection.Read(stopped)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := message.(*jsonrpc.Request); ok && r.IsCall() && !c.unanswered[r.ID] {
		c.unanswered[r.ID] = true
	} else {
		<-c.slots
	}
	return message, err
}

func (c *patientConn) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if r, ok := message.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.unanswered[r.ID] {
			delete(c.unanswered, r.ID)
			<-c.slots
		}
		if c.settled != nil && len(c.unanswered) == 0 {
			close(c.settled)
			c.settled = nil
		}
	}
	return err
}
