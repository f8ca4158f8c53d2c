// Package resp speaks the Redis protocol (RESP2) on an open connection.
// Every check waits for it, so it allocates nothing per command: commands are
// appended to one buffer, sent in one write, and their replies are read into
// another.
package resp

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ErrNoReply is the error of a command that was not answered: the pipeline was
// not sent, or its connection broke before.
var ErrNoReply = errors.New("redis did not answer")

// Error is a server's refusal of one command. Its first word is a code, such
// as READONLY.
type Error string

func (e Error) Error() string { return string(e) }

// Pipeline is commands that travel in one write, and their replies. The zero
// Pipeline is empty; it belongs to one goroutine at a time.
type Pipeline struct {
	Prefix string // of every key; set while the pipeline is empty

	out      []byte
	commands int
	count    int // where in out the last command counts its arguments

	in       []byte  // the bulk strings of replies point into it
	replies  []Reply // one for each command answered
	elements []Reply // of arrays
}

// Index names a command of a pipeline.
type Index int

// keepBuffer bounds the buffer that Reset keeps of an exceptionally large pipeline.
const keepBuffer = 1 << 20

// Reset empties the pipeline. Replies read from it are void, and so are bytes
// that they gave.
func (p *Pipeline) Reset() {
	if cap(p.out) > keepBuffer || cap(p.in) > keepBuffer {
		*p = Pipeline{Prefix: p.Prefix}
	}
	p.out, p.in, p.replies, p.elements, p.commands = p.out[:0], p.in[:0], p.replies[:0], p.elements[:0], 0
}

// maxArguments of a command, its name included: they are counted in one digit.
const maxArguments = 9

// Command begins the next command. Its arguments follow.
func (p *Pipeline) Command(name string) Index {
	p.out = append(p.out, "*0\r\n"...)
	p.count = len(p.out) - len("0\r\n")
	p.commands++
	p.Text(name)
	return Index(p.commands - 1)
}

// Script begins an EVAL on one key. Its arguments follow.
func (p *Pipeline) Script(script, key string) Index {
	i := p.Command("EVAL")
	p.Text(script)
	p.Int(1)
	p.Key(key)
	return i
}

// Key adds the name of a key to the last command, after the prefix.
func (p *Pipeline) Key(name string) {
	p.argument(len(p.Prefix) + len(name))
	p.out = append(append(append(p.out, p.Prefix...), name...), "\r\n"...)
}

// Text adds an argument to the last command.
func (p *Pipeline) Text(s string) {
	p.argument(len(s))
	p.out = append(append(p.out, s...), "\r\n"...)
}

// Int adds a number to the last command.
func (p *Pipeline) Int(n int64) {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	p.argument(len(text))
	p.out = append(append(p.out, text...), "\r\n"...)
}

func (p *Pipeline) argument(length int) {
	if p.out[p.count] == '0'+maxArguments {
		panic("BUG: a command has too many arguments")
	}
	p.out[p.count]++
	switch { // most are short, and there are twenty a check
	case length < 10:
		p.out = append(p.out, '$', '0'+byte(length), '\r', '\n')
	case length < 100:
		p.out = append(p.out, '$', '0'+byte(length/10), '0'+byte(length%10), '\r', '\n')
	default:
		p.out = append(strconv.AppendInt(append(p.out, '$'), int64(length), 10), "\r\n"...)
	}
}

// Reply returns the reply to a command, or one whose error is ErrNoReply.
func (p *Pipeline) Reply(i Index) Reply {
	if int(i) >= len(p.replies) {
		return Reply{}
	}
	return p.replies[i]
}

// Refused reports whether the server refused any command with a code.
func (p *Pipeline) Refused(code string) bool {
	for i := range p.replies {
		if r := &p.replies[i]; r.kind == '-' && bytes.HasPrefix(r.text, []byte(code)) {
			return true
		}
	}
	return false
}

// Reply is the reply to one command. The zero Reply belongs to no command.
type Reply struct {
	kind     byte // the protocol's: + - : $ *, and nilKind
	text     []byte
	number   int64
	elements []Reply
}

// nilKind marks an absent bulk string or array.
const nilKind = '_'

// Err returns nil for every reply except a refusal (an Error) and a missing one (ErrNoReply).
func (r Reply) Err() error {
	switch r.kind {
	case 0:
		return ErrNoReply
	case '-':
		return Error(r.text)
	default:
		return nil
	}
}

// Text returns a string; absent is "". The bytes are the pipeline's: they are
// void after its Reset.
func (r Reply) Text() ([]byte, error) {
	switch r.kind {
	case '+', '$', nilKind:
		return r.text, nil
	default:
		return nil, r.unexpected("a string")
	}
}

// Int returns an integer.
func (r Reply) Int() (int64, error) {
	if r.kind != ':' {
		return 0, r.unexpected("an integer")
	}
	return r.number, nil
}

// Ints returns two integers.
func (r Reply) Ints() (a, b int64, err error) {
	if r.kind != '*' || len(r.elements) != 2 || r.elements[0].kind != ':' || r.elements[1].kind != ':' {
		return 0, 0, r.unexpected("two integers")
	}
	return r.elements[0].number, r.elements[1].number, nil
}

// Time returns the reply to TIME.
func (r Reply) Time() (time.Time, error) {
	if r.kind != '*' || len(r.elements) != 2 {
		return time.Time{}, r.unexpected("a time")
	}
	seconds, errSeconds := parseInt(r.elements[0].text)
	micros, errMicros := parseInt(r.elements[1].text)
	if err := errors.Join(errSeconds, errMicros); err != nil {
		return time.Time{}, err
	}
	return time.Unix(seconds, micros*int64(time.Microsecond)), nil
}

func (r Reply) unexpected(wanted string) error {
	if err := r.Err(); err != nil {
		return err
	}
	return fmt.Errorf("redis answered %q where %s was expected", r.kind, wanted)
}
