package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// childGrace is how long a server may take to end once its input is closed, and
// again once it was asked to by a signal.
const childGrace = 2 * time.Second

// child is the transport to a server that is a child process, over its standard streams.
type child struct {
	u       *upstream
	environ []string
	log     *slog.Logger
}

// childConn is the connection to a child. Requests are watched as they are written.
type childConn struct {
	mcp.Connection
	turn chan struct{} // has an element while a message is written
}

func newChildConn(in io.ReadCloser, out io.WriteCloser) (*childConn, error) {
	over, err := (&mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: maxServerMessage}).Connect(context.Background())
	return &childConn{over, make(chan struct{}, 1)}, err
}

// Write writes a message, after those before it. It does not wait longer than its context for a child that does not read.
func (c *childConn) Write(ctx context.Context, m jsonrpc.Message) error {
	watching, written := watched(ctx), make(chan error, 1) // before its turn: what is sent after it under the same key is another message
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	go func() {
		defer func() { <-c.turn }()
		if !watching.begin() {
			written <- errTakenBack
			return
		}
		written <- c.Connection.Write(context.WithoutCancel(ctx), m)
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// output is a child's standard output, whose end ends the child.
type output struct {
	io.Reader
	end func()
}

// Close ends the child.
func (o output) Close() error { o.end(); return nil }

// Connect starts the child. It gets this process' environment without the settings of spendgate,
// which have keys that the child must not know.
func (c *child) Connect(context.Context) (mcp.Connection, error) {
	u := c.u
	life, end := context.WithCancel(context.Background()) // it ends with its conn: by itself, by SIGTERM, by SIGKILL
	cmd := exec.CommandContext(life, u.Command[0], u.Command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childGrace // also of what a child of the child has open
	cmd.Dir = u.folder
	cmd.Env = []string{} // with nil, the child would get everything
	for _, entry := range c.environ {
		if !strings.HasPrefix(entry, "SPENDGATE_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	for name, v := range u.Env {
		cmd.Env = append(cmd.Env, name+"="+v.now())
	}
	stdout, says := io.Pipe()
	stderr, complaints := io.Pipe()
	cmd.Stdout, cmd.Stderr = says, complaints
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("%w: cannot start %s: %w", errNotSent, u.Command[0], err)
	}
	go logLines(stderr, u.name, c.log)
	go func() {
		_ = cmd.Wait() // the end of its output is noticed
		end()
		_, _ = says.Close(), complaints.Close() // a pipe's Close does not fail
	}()
	return newChildConn(output{&messages{next: lines(bufio.NewReaderSize(stdout, 64<<10))}, sync.OnceFunc(func() {
		_, _ = stdin.Close(), stdout.Close() // it may have ended before
		time.AfterFunc(childGrace, end)
	})}, stdin)
}

// logLines logs what a server says on its standard error.
func logLines(r io.Reader, name string, log *slog.Logger) {
	in := bufio.NewReader(r)
	for {
		line, isPrefix, err := in.ReadLine()
		if err != nil {
			return
		}
		if !isPrefix && len(line) > 0 {
			log.Info("upstream says", "upstream", name, "text", string(line))
		}
	}
}
