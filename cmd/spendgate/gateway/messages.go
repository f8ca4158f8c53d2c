package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sending tells whether anything of a call was sent to a server. Until then the call can be taken back.
type sending struct{ state atomic.Int32 }

// The states of a sending, after that in which neither is decided.
const (
	begun int32 = iota + 1
	takenBack
)

type sendingKey struct{}

// watch returns a context whose call of a tool is watched.
func watch(ctx context.Context) (context.Context, *sending) {
	s := new(sending)
	return context.WithValue(ctx, sendingKey{}, s), s
}

// watched returns what watches a message; nil if nothing does.
func watched(ctx context.Context, m jsonrpc.Message) *sending {
	s, _ := ctx.Value(sendingKey{}).(*sending)
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "tools/call" {
		return s
	}
	return nil
}

// begin is called before the first byte is sent. It reports whether the call may be sent.
func (s *sending) begin() bool {
	return s == nil || s.state.CompareAndSwap(0, begun) || s.state.Load() == begun
}

// takeBack reports whether nothing was sent. From then on nothing will be.
func (s *sending) takeBack() bool { return s.state.CompareAndSwap(0, takenBack) }

var (
	errTakenBack = errors.New("the call was taken back")
	errTooLong   = errors.New("a message that is too long")
)

// kept is how much of a line that is too long is kept of either end.
const kept = 1 << 10

// readLine reads a line without its end. Of a line that is too long it returns the ends, with errTooLong.
func readLine(in *bufio.Reader) (line []byte, err error) {
	var long error
	for {
		piece, err := in.ReadSlice('\n')
		if line = append(line, piece...); len(line) > maxServerMessage || long != nil && len(line) > 2*kept {
			line, long = append(line[:kept], line[len(line)-kept:]...), errTooLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if line = bytes.TrimSpace(line); len(line) > 0 { // the last one may have no end
			err = long
		}
		return line, err
	}
}

// readable returns a message of a server; nil if a text is none. An answer with neither a result nor an error is made an error.
func readable(text []byte) jsonrpc.Message {
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil || !jsontext.Value(text).IsValid(lax()) {
		return nil
	}
	if a, ok := m.(*jsonrpc.Response); ok && a.Error == nil {
		if jsontext.Value(a.Result).Kind() != '{' {
			return noAnswer(a.ID, codeUnavailable, "a result of another kind")
		}
		a.Result = quoted(a.Result)
	}
	return m
}

// quoted has the structuredContent of a result as text: the SDK would read its numbers as floats.
func quoted(result []byte) []byte {
	d := jsontext.NewDecoder(bytes.NewReader(result), lax())
	for d.PeekKind() == '{' || d.PeekKind() == '"' {
		name, _ := d.ReadToken() // the result is valid
		if name.Kind() == '{' {
			continue
		}
		found := name.String() == "structuredContent"
		value, _ := d.ReadValue()
		if end := int(d.InputOffset()); found && value.Kind() != 'n' {
			text, _ := jsontext.AppendQuote(nil, value)
			return slices.Concat(result[:end-len(value)], text, result[end:])
		}
	}
	return result
}

// unquoted undoes quoted.
func unquoted(r *mcp.CallToolResult) {
	if text, ok := r.StructuredContent.(string); ok && jsontext.Value(text).IsValid(lax()) {
		r.StructuredContent = jsontext.Value(text)
	}
}

// written returns the text of a message.
func written(m jsonrpc.Message) []byte {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}

// noAnswer makes the answer to a call to which a server gave something else.
func noAnswer(call jsonrpc.ID, code int64, but string) *jsonrpc.Response {
	return &jsonrpc.Response{ID: call, Error: &jsonrpc.Error{Code: code, Message: "the server did not answer the call, but gave " + but}}
}

// childGrace is how long a server may take to end once its input is closed, and
// again once it was asked to by a signal.
const childGrace = 2 * time.Second

// child is the transport to a server that is a child process, over its standard streams.
type child struct {
	l       *link
	environ []string
}

// childConn is the connection to a child: a message is a line. What else a server prints is left out.
type childConn struct {
	in   *bufio.Reader
	out  io.Writer
	end  func()
	turn chan struct{} // has an element while a message is written

	arrived func(jsonrpc.Message)
}

func newChildConn(in io.Reader, out io.Writer, end func(), arrived func(jsonrpc.Message)) *childConn {
	return &childConn{bufio.NewReaderSize(in, 64<<10), out, end, make(chan struct{}, 1), arrived}
}

// SessionID returns nothing: the connection is the session.
func (c *childConn) SessionID() string { return "" }

// Close ends the child, and what is read from it.
func (c *childConn) Close() error { c.end(); return nil }

// Read returns the next message. A line that is too long is an answer to the call that it names, or left out if it is no answer; one
// that may be an answer and names none ends the connection.
func (c *childConn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := readLine(c.in)
		m := readable(line)
		if errors.Is(err, errTooLong) {
			var unnamed bool
			if m, unnamed = tooLong(line); !unnamed {
				err = nil
			}
		}
		if m != nil {
			c.arrived(m)
		}
		if m != nil || err != nil {
			return m, err
		}
	}
}

// tooLong makes the answer in place of one of which only the ends are known; nil if they are of no answer, or if they are of an
// unnamed one.
func tooLong(ends []byte) (m jsonrpc.Message, unnamed bool) {
	head, _, _ := bytes.Cut(ends[1:], []byte("{"))
	if ends[0] != '{' || bytes.Contains(head, []byte(`"method"`)) {
		return nil, false
	}
	named := regexp.MustCompile(`^\{[^{}]*"id"\s*:\s*(\d+)|"id"\s*:\s*(\d+)[^{}]*\}$`).FindSubmatch(ends)
	if named == nil {
		return nil, true
	}
	number, _ := strconv.ParseFloat(string(named[1])+string(named[2]), 64)
	call, _ := jsonrpc.MakeID(number)
	return noAnswer(call, codeUnavailable, errTooLong.Error()), false
}

// Write writes a message, after those before it. It does not wait longer than its context for a child that does not read.
func (c *childConn) Write(ctx context.Context, m jsonrpc.Message) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	watching, done := watched(ctx, m), make(chan error, 1)
	go func() {
		defer func() { <-c.turn }()
		err := errTakenBack
		if watching.begin() {
			_, err = c.out.Write(append(written(m), '\n'))
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Connect starts the child. It gets this process' environment without the settings of spendgate,
// which have keys that the child must not know.
func (c *child) Connect(context.Context) (mcp.Connection, error) {
	u := c.l.u
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
	go logLines(stderr, u.name, c.l.log)
	go func() {
		_ = cmd.Wait() // the end of its output is noticed
		end()
		_, _ = says.Close(), complaints.Close() // a pipe's Close does not fail
	}()
	return newChildConn(stdout, stdin, sync.OnceFunc(func() {
		_, _ = stdin.Close(), stdout.Close() // it may have ended before
		time.AfterFunc(childGrace, end)
	}), c.l.arrived), nil
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
