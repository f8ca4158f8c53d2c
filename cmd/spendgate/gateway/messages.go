package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// messages are what a server sends, without what is no message: for the SDK that would be the end of the connection, and
// every call over it would be in doubt.
type messages struct {
	next func() ([]byte, error) // the next part of the stream; empty if it was left out
	rest []byte
}

// Read implements io.Reader.
func (m *messages) Read(to []byte) (int, error) {
	for len(m.rest) == 0 {
		var err error
		if m.rest, err = m.next(); err != nil {
			return 0, err
		}
	}
	n := copy(to, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// lines returns the messages of a child, each on a line: servers write other things to standard output, too.
func lines(in *bufio.Reader) func() ([]byte, error) {
	return func() ([]byte, error) {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, errTooLong) {
			return nil, err
		}
		if line = readable(line); line != nil {
			line = append(line, '\n')
		}
		return line, nil
	}
}

// events returns the events of a stream over HTTP. last follows the last one.
func events(in *bufio.Reader, last string) func() ([]byte, error) {
	over := false
	return func() ([]byte, error) {
		var event, data []byte
		for !over {
			line, err := readLine(in)
			if over = err != nil || len(data)+len(event) > maxServerMessage; len(line) == 0 {
				break
			}
			switch field, value, _ := bytes.Cut(line, []byte(":")); string(field) {
			case "data":
				data = append(append(data, value...), '\n')
			case "event", "id", "retry":
				event = append(append(event, line...), '\n')
			}
		}
		if message := readable(bytes.TrimSpace(data)); message != nil {
			event = append(append(event, "data: "...), bytes.ReplaceAll(message, []byte("\n"), []byte("\ndata: "))...)
		}
		if event = append(event, "\n\n"...); over {
			if event, last = append(event, last...), ""; len(event) == len("\n\n") {
				return nil, io.EOF
			}
		}
		return event, nil
	}
}

var errTooLong = errors.New("the server's message is too long")

// readLine reads a line without its end. It reads all of a line that is too long, and fails with errTooLong.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		var piece []byte
		piece, err = in.ReadSlice('\n')
		if len(line) <= maxServerMessage {
			line = append(line, piece...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if line = bytes.TrimSpace(line); len(line) > maxServerMessage {
			return nil, errTooLong
		}
		if len(line) > 0 { // the last one may have no end
			err = nil
		}
		return line, err
	}
}

// readable returns a message of a server in a form that the SDK can read; nil if a text is none. An answer with neither a
// result nor an error is turned into an error.
func readable(text []byte) []byte {
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil || !jsontext.Value(text).IsValid(lax()) {
		return nil
	}
	if a, ok := m.(*jsonrpc.Response); ok && a.Error == nil && jsontext.Value(a.Result).Kind() != '{' {
		return noAnswer(a.ID, codeUnavailable, "a result of another kind")
	}
	return text
}

// noAnswer makes the answer to a call to which a server gave something else.
func noAnswer(call jsonrpc.ID, code int64, but string) []byte {
	text, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: call, Error: &jsonrpc.Error{
		Code: code, Message: "the server did not answer the call, but gave " + but,
	}})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}
