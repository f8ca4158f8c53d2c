package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
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
	cmd := exec.Command(u.Command[0], u.Command[1:]...) //nolint:noctx // it ends with its conn
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
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	// Pipes of its own: cmd.Wait must not close the output before it is read.
	stdout, says, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	stderr, complaints, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	cmd.Stdout, cmd.Stderr = says, complaints
	err = cmd.Start()
	says.Close()       //nolint:errcheck // the child has it
	complaints.Close() //nolint:errcheck // the child has it
	if err != nil {
		stdout.Close() //nolint:errcheck // nothing was read
		stderr.Close() //nolint:errcheck // nothing was read
		return nil, fmt.Errorf("%w: cannot start %s: %w", errNotSent, u.Command[0], err)
	}
	go logLines(stderr, u.name, c.log)
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the end of its output is noticed anyway
		close(ended)
		time.Sleep(childGrace) // output may still be in the pipe
		stdout.Close()         //nolint:errcheck // a child of the child may have it still
	}()
	return newChildConn(output{&messages{next: lines(bufio.NewReaderSize(stdout, 64<<10))}, sync.OnceFunc(func() {
		stdin.Close() //nolint:errcheck // it may have ended before
		go stop(cmd.Process, ended)
	})}, stdin)
}

// stop ends a process: by itself, by SIGTERM, by SIGKILL.
func stop(process *os.Process, ended <-chan struct{}) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-ended:
			return
		case <-time.After(childGrace):
			_ = process.Signal(signal) // it may have ended meanwhile
		}
	}
}

// logLines logs what a server says on its standard error.
func logLines(r io.ReadCloser, name string, log *slog.Logger) {
	defer r.Close() //nolint:errcheck // only read
	const most = 4 << 10
	in := bufio.NewReaderSize(r, most)
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
