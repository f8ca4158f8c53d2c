package embedded

import (
	"bytes"
	"net"
	"sync"
)

// readAhead reads everything that arrives at once. A net.Pipe has no buffer: a client that sends a
// whole pipeline before it reads the first reply, and a server that replies to each command before it
// reads the next, would wait for each other.
type readAhead struct {
	net.Conn
	mu   sync.Mutex
	come *sync.Cond
	in   bytes.Buffer
	err  error // that ended the reading
}

func newReadAhead(c net.Conn) *readAhead {
	r := &readAhead{Conn: c}
	r.come = sync.NewCond(&r.mu)
	go r.fill()
	return r
}

func (r *readAhead) fill() {
	chunk := make([]byte, 16<<10)
	for {
		n, err := r.Conn.Read(chunk)
		r.mu.Lock()
		r.in.Write(chunk[:n])
		r.err = err
		r.mu.Unlock()
		r.come.Signal()
		if err != nil {
			return
		}
	}
}

// Read implements net.Conn for one reader.
func (r *readAhead) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.in.Len() == 0 && r.err == nil {
		r.come.Wait()
	}
	if r.in.Len() == 0 {
		return 0, r.err
	}
	return r.in.Read(p)
}
