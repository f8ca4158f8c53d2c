package instructions

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// recording keeps what a node says to PostgreSQL, on its way there, so that another
// server with the same data can be told the same, slower than a node would wait.
type recording struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	conns int
	said  []exchange
}

// exchange is what a client says until it waits for the server to be ready again.
type exchange struct {
	conn int
	text []byte
}

func newRecording(server string) (*recording, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot record: %w", err)
	}
	r := &recording{listener: l, server: server}
	go r.accept()
	return r, nil
}

func (r *recording) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", r.server)
		if err != nil {
			_ = client.Close() // the client sees that there is no server
			continue
		}
		r.mu.Lock()
		conn := r.conns
		r.conns++
		r.mu.Unlock()
		go func() {
			_, _ = io.Copy(client, server) // until one of them ends
			_ = client.Close()
		}()
		go func() {
			_ = r.carry(conn, server, client) // until one of them ends
			_ = server.Close()
		}()
	}
}

// carry passes messages on and keeps them.
func (r *recording) carry(conn int, server, client net.Conn) error {
	var text []byte
	for first := true; ; first = false {
		message, waits, err := readMessage(client, first)
		if err != nil {
			return err
		}
		text = append(text, message...)
		if waits {
			r.mu.Lock()
			r.said = append(r.said, exchange{conn, text})
			r.mu.Unlock()
			text = nil
		}
		if _, err := server.Write(message); err != nil {
			return err
		}
	}
}

// take returns what was said since it was called before.
func (r *recording) take() []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.said
	r.said = nil
	return said
}

// readMessage reads a client's message and reports whether the server answers that it is
// ready. The first has no type; it is answered by the request for a password.
func readMessage(from io.Reader, first bool) (message []byte, waits bool, err error) {
	var head [5]byte
	begin := head[:]
	if first {
		begin = head[:4]
	}
	if _, err := io.ReadFull(from, begin); err != nil {
		return nil, false, err
	}
	size := int(binary.BigEndian.Uint32(begin[len(begin)-4:])) - 4
	message = make([]byte, len(begin)+size)
	if _, err := io.ReadFull(from, message[copy(message, begin):]); err != nil {
		return nil, false, err
	}
	const password, query, sync = 'p', 'Q', 'S'
	kind := message[0]
	return message, !first && (kind == password || kind == query || kind == sync), nil
}

// replay says to a server what was recorded, one exchange after the other.
type replay struct {
	server  string
	conns   map[int]net.Conn
	refused map[int]bool
	pids    map[int]int // of the server's processes, by connection
}

func newReplay(server string) *replay {
	return &replay{server: server, conns: make(map[int]net.Conn), refused: make(map[int]bool), pids: make(map[int]int)}
}

// recorders returns the connections whose clients commit checks or look payments up. The others do what goes
// by the clock.
func recorders(said []exchange) (conns []int) {
	for _, e := range said {
		counts := bytes.Contains(e.text, []byte("commit_checks")) || bytes.Contains(e.text, []byte("FROM payments WHERE"))
		if counts && !slices.Contains(conns, e.conn) {
			conns = append(conns, e.conn)
		}
	}
	return conns
}

// say replays. Who is no recorder may be refused: it held a transaction for too long, by the
// clock of a server that is emulated. A recorder may be refused as it was before: with its first commit a node
// learns what was stopped before it started (S87).
func (r *replay) say(said []exchange, recorders []int) error {
	for i, e := range said {
		if r.refused[e.conn] {
			continue
		}
		if r.conns[e.conn] == nil {
			c, err := new(net.Dialer).DialContext(context.Background(), "tcp", r.server)
			if err != nil {
				return fmt.Errorf("cannot replay: %w", err)
			}
			r.conns[e.conn] = c
		}
		err := r.ask(e.conn, e.text)
		if errors.Is(err, errStopped) {
			continue
		}
		if err != nil && slices.Contains(recorders, e.conn) {
			return fmt.Errorf("cannot replay exchange %d of %d: %w", i, len(said), err)
		}
		r.refused[e.conn] = err != nil
	}
	return nil
}

// mark has the recorders' processes call a function that nothing else calls.
func (r *replay) mark(recorders []int) error {
	query := []byte("SELECT " + markFunction + "()\x00")
	message := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(query)+4))
	for _, i := range recorders {
		if err := r.ask(i, append(message, query...)); err != nil {
			return fmt.Errorf("cannot mark: %w", err)
		}
	}
	return nil
}

const markFunction = "pg_backend_pid"

func (r *replay) close() {
	for i, c := range r.conns {
		_ = c.Close() // nothing is in progress
		delete(r.conns, i)
	}
}

// errStopped is the refusal of a commit that was judged before the last stop.
var errStopped = errors.New("something was stopped meanwhile")

// ask sends an exchange and waits until the server is ready.
func (r *replay) ask(conn int, text []byte) error {
	server := r.conns[conn]
	if err := server.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := server.Write(text); err != nil {
		return err
	}
	head := make([]byte, 5)
	var refusal error
	for {
		if _, err := io.ReadFull(server, head); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return err
		}
		const ready, key, failure = 'Z', 'K', 'E'
		switch head[0] {
		case ready:
			return refusal
		case key:
			r.pids[conn] = int(binary.BigEndian.Uint32(body))
		case failure:
			if refusal = fmt.Errorf("the server refuses: %q", body); bytes.Contains(body, []byte("\x00CSG021\x00")) {
				refusal = errStopped
			}
		}
	}
}
