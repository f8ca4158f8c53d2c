package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// messages filters lines that are no messages from an input. The SDK would end
// the session at the first of them; here each is answered with its JSON-RPC
// error, and the session goes on.
type messages struct {
	lines *bufio.Reader
	out   io.Writer // where the errors go; safe for concurrent use
	rest  []byte    // of a message that Read has returned in part
}

func newMessages(in io.Reader, out io.Writer) *messages {
	return &messages{lines: bufio.NewReader(in), out: out}
}

// Read implements io.Reader.
func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := m.line()
		text := bytes.TrimSpace(line)
		if fault := checkLine(text); fault != nil {
			if err := m.refuse(fault); err != nil {
				return 0, err
			}
		} else if len(text) > 0 {
			m.rest = append(text, '\n')
			break // the next read returns the same error
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// line reads the next line. If the line is too long it keeps little more than the limit.
func (m *messages) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := m.lines.ReadSlice('\n')
		if len(line) <= maxBody {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// lineError is why a line is no message.
type lineError struct {
	code    int
	problem string
}

// checkLine returns nil for a message and for an empty line.
func checkLine(text []byte) *lineError {
	switch {
	case len(text) == 0:
		return nil
	case len(text) > maxBody:
		return &lineError{jsonrpc.CodeParseError, fmt.Sprintf("a message has at most %d bytes", maxBody)}
	case !json.Valid(text):
		return &lineError{jsonrpc.CodeParseError, "each line must be one message in JSON"}
	case text[0] == '[':
		return batchRefused()
	}
	if _, err := jsonrpc.DecodeMessage(text); err != nil {
		return &lineError{jsonrpc.CodeInvalidRequest, "this is no message of JSON-RPC 2.0"}
	}
	return nil
}

func (m *messages) refuse(fault *lineError) error {
	if _, err := io.WriteString(m.out, fault.answer()); err != nil {
		return fmt.Errorf("cannot answer what is no message: %w", err)
	}
	return nil
}

// output writes whole messages, one at a time. It does not close the stream, which belongs to the
// process.
type output struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.out.Write(p)
}

// Close implements io.Closer.
func (o *output) Close() error { return nil }
