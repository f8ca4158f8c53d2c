package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// conn carries messages to and from one agent or one server. write may be called
// by several at once, read by one; after close both fail.
type conn interface {
	read() (message, error)
	write(m message) error
	close()
}

var (
	errLost    = errors.New("the connection to the server was lost")
	errNotSent = errors.New("the server cannot be reached")
	errMoved   = fmt.Errorf("%w: its connection is another by now", errNotSent)
)

// lines is a conn with a message in each line.
type lines struct {
	in     *bufio.Reader
	most   int // bytes of a message that is read
	mu     sync.Mutex
	out    io.Writer
	end    func()
	refuse bool // answer a line that is no message with an error, instead of skipping it
}

func newLines(in io.Reader, out io.Writer, most int, end func()) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), out: out, most: most, end: sync.OnceFunc(end)}
}

func (l *lines) read() (message, error) {
	for {
		text, err := l.line()
		if err != nil && len(text) == 0 {
			return message{}, err
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var m message
		if len(text) > l.most {
			err = fmt.Errorf("a message has at most %d bytes", l.most)
		} else {
			m, err = decodeMessage(text)
		}
		switch {
		case err == nil:
			return m, nil
		case !l.refuse:
			continue // servers write other things to standard output, too
		}
		if err := l.write(unread(err)); err != nil {
			return message{}, err
		}
	}
}

// line reads the next line. Of a line that is too long, it keeps little more than the limit.
func (l *lines) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := l.in.ReadSlice('\n')
		if len(line) <= l.most {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (l *lines) write(m message) error {
	text, err := encodeMessage(m)
	if err != nil {
		return fmt.Errorf("cannot write a message: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.out.Write(append(text, '\n'))
	return err
}

// unsend takes back a message that was written, and reports whether it did: it does not if
// some of the message may have been sent.
func (l *lines) unsend(m message) bool {
	q, queued := l.out.(*queue)
	text, err := encodeMessage(m)
	return queued && err == nil && q.remove(append(text, '\n'))
}

func (l *lines) close() { l.end() }
