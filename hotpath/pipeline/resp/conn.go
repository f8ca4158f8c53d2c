package resp

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"spendgate/audit/idle"
)

// errProtocol: the input is not RESP2, or larger than any reply here. The connection cannot be used
// any more.
var errProtocol = errors.New("redis sent what is no reply")

const (
	maxLine     = 4096      // a refusal is the longest
	maxBulk     = 1 << 20   // no value of the service comes near
	mostBulk    = 512 << 20 // the server's own limit
	maxElements = 16        // no array of the service comes near
)

// tooLong answers a command in place of a longer value than any of the service:
// the other commands of its pipeline go on.
const tooLong = "TOOLONG the value is longer than any that the service writes"

// Conn is a connection that is authenticated and has its database selected. It
// belongs to one goroutine at a time.
type Conn struct {
	conn  net.Conn
	probe *idle.Probe
	in    *bufio.Reader
}

// NewConn begins to speak on a connection on which nothing is in progress.
func NewConn(conn net.Conn) *Conn {
	return &Conn{conn: conn, probe: idle.NewProbe(conn), in: bufio.NewReaderSize(conn, 16<<10)}
}

// Run sends the pipeline and reads its replies. After an error the connection cannot be used any more,
// the commands without a reply may have been carried out or may still be, and the replies that came
// are valid.
func (c *Conn) Run(p *Pipeline, deadline time.Time) error {
	if err := c.conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("cannot send to redis: %w", err)
	}
	if _, err := c.conn.Write(p.out); err != nil {
		return fmt.Errorf("cannot send to redis: %w", err)
	}
	for range p.commands {
		r, err := c.read(p, true)
		if err != nil {
			return fmt.Errorf("cannot read from redis: %w", err)
		}
		p.replies = append(p.replies, r)
	}
	return nil
}

// read reads one reply; arrays contain no arrays.
func (c *Conn) read(p *Pipeline, arrays bool) (Reply, error) {
	line, err := c.line()
	if err != nil {
		return Reply{}, err
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', '-':
		return Reply{kind: kind, text: p.keep(rest)}, nil
	case ':':
		n, err := parseInt(rest)
		return Reply{kind: kind, number: n}, err
	case '$':
		n, err := length(rest, mostBulk)
		if err != nil || n < 0 {
			return Reply{kind: nilKind}, err
		}
		if n > maxBulk {
			_, err := c.in.Discard(n + len("\r\n"))
			return Reply{kind: '-', text: []byte(tooLong)}, err
		}
		text, err := c.bulk(p, n)
		return Reply{kind: kind, text: text}, err
	case '*':
		n, err := length(rest, maxElements)
		if err != nil || n < 0 {
			return Reply{kind: nilKind}, err
		}
		if !arrays {
			return Reply{}, errProtocol
		}
		return c.array(p, n)
	default:
		return Reply{}, errProtocol
	}
}

func (c *Conn) array(p *Pipeline, n int) (Reply, error) {
	from := len(p.elements)
	for range n {
		r, err := c.read(p, false)
		if err != nil {
			return Reply{}, err
		}
		p.elements = append(p.elements, r)
	}
	return Reply{kind: '*', elements: p.elements[from:]}, nil
}

// line returns the next line without its end, at least one byte long and valid
// until the next read.
func (c *Conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	n := len(line) - len("\r\n")
	if n < 1 || n > maxLine || line[n] != '\r' {
		return nil, errProtocol
	}
	return line[:n], nil
}

// bulk reads n bytes and the end of their line.
func (c *Conn) bulk(p *Pipeline, n int) ([]byte, error) {
	from := len(p.in)
	for need := n + len("\r\n"); need > 0; {
		chunk, err := c.in.Peek(min(need, c.in.Size()))
		if err != nil {
			return nil, err
		}
		p.in = append(p.in, chunk...)
		need -= len(chunk)
		if _, err := c.in.Discard(len(chunk)); err != nil {
			return nil, err
		}
	}
	to := from + n
	if p.in[to] != '\r' || p.in[to+1] != '\n' {
		return nil, errProtocol
	}
	return p.in[from:to:to], nil
}

// keep copies bytes that the next read overwrites.
func (p *Pipeline) keep(line []byte) []byte {
	from := len(p.in)
	p.in = append(p.in, line...)
	return p.in[from:len(p.in):len(p.in)]
}

// length parses the size of a bulk string or an array; -1 is an absent one.
func length(digits []byte, most int64) (int, error) {
	n, err := parseInt(digits)
	if err != nil || n < -1 || n > most {
		return 0, errProtocol
	}
	return int(n), nil
}

func parseInt(digits []byte) (int64, error) {
	negative := len(digits) > 0 && digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 19 { // 19 nines fit an unsigned number
		return 0, errProtocol
	}
	var n uint64
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, errProtocol
		}
		n = n*10 + uint64(d-'0')
	}
	switch {
	case negative && n <= -math.MinInt64:
		return int64(-n), nil
	case !negative && n <= math.MaxInt64:
		return int64(n), nil
	default:
		return 0, errProtocol
	}
}
