package fleet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is a TCP proxy between a node and a server. It can hold back what one of
// them sends and deliver it later, delay all data, drop it silently, and reset
// connections.
type Proxy struct {
	Addr     string // where to connect
	target   string
	listener net.Listener
	returned atomic.Int64

	mu       sync.Mutex
	moved    *sync.Cond
	requests gate
	answers  gate
	conns    map[net.Conn]*link
	delay    time.Duration
	silent   bool
	over     bool
}

// link is a client's connection and the server's.
type link struct {
	silent atomic.Bool // for ever: lost data is not sent again
}

// gate holds back one direction.
type gate struct {
	held   bool
	kept   bool             // something was held back since Hold
	within func([]byte) int // of HoldWithin; nil once the message is found
}

// NewProxy starts a proxy of a TCP address on a port of its own.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot start a proxy: %w", err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: make(map[net.Conn]*link)}
	p.moved = sync.NewCond(&p.mu)
	go p.accept()
	return p, nil
}

// Hold holds back what clients send from now on.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = gate{held: true}
}

// HoldWithin waits for a certain message of a client and holds back its rest and everything after
// it. within gets each chunk and returns how many bytes of it to deliver, or -1 if the message is
// not in it.
func (p *Proxy) HoldWithin(within func(chunk []byte) int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = gate{within: within}
}

// HoldAnswers holds back what the server sends from now on.
func (p *Proxy) HoldAnswers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = gate{held: true}
}

// Kept reports whether anything was held back, in either direction, since the hold began.
func (p *Proxy) Kept() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests.kept || p.answers.kept
}

// Returned counts the bytes that came back from the server so far.
func (p *Proxy) Returned() int64 { return p.returned.Load() }

// Release delivers what was held back, even for clients that are gone.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests.held, p.answers.held = false, false
	p.moved.Broadcast()
}

// Delay delays every chunk, in either direction; 0 ends the delay.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Silence drops all data, in either direction, without closing connections: existing and new
// connections are half open. After Silence(false) new connections work; those that lost data never
// work again.
func (p *Proxy) Silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = on
	for _, l := range p.conns {
		l.silent.Store(l.silent.Load() || on)
	}
}

// Reset breaks all connections (RST). What was held back is lost.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, l := range p.conns {
		l.silent.Store(true)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // on a broken connection there is nothing to reset
		}
		_ = c.Close()
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests.held, p.answers.held, p.over = false, false, true
	p.moved.Broadcast()
	for c := range p.conns {
		_ = c.Close() // ends reads from it
	}
	if err := p.listener.Close(); err != nil {
		return fmt.Errorf("cannot close a proxy: %w", err)
	}
	return nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			_ = client.Close() // the client sees that there is no server
			continue
		}
		l := &link{}
		if p.keep(client, l) && p.keep(server, l) {
			go p.carry(server, client, l, &p.requests, nil)
			go p.carry(client, server, l, &p.answers, &p.returned)
		}
	}
}

func (p *Proxy) keep(c net.Conn, l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		_ = c.Close() // nothing would serve it
		return false
	}
	p.conns[c] = l
	l.silent.Store(p.silent)
	return true
}

// carry delivers what from sends to the other end, when it may.
func (p *Proxy) carry(to, from net.Conn, l *link, g *gate, count *atomic.Int64) {
	defer p.part(to, from, l)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && count != nil {
			count.Add(int64(n))
		}
		first := p.divide(g, buf[:n])
		if first > 0 {
			if _, err := to.Write(buf[:first]); err != nil {
				return
			}
		}
		p.pass(g)
		if n > first && !l.silent.Load() {
			if _, err := to.Write(buf[first:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// halfOpenTimeout is the time after which the end of a connection that lost data is passed on,
// because a half-open connection is eventually noticed.
const halfOpenTimeout = 5 * time.Second

// part ends a connection and closes its other end.
func (p *Proxy) part(to, from net.Conn, l *link) {
	p.mu.Lock()
	delete(p.conns, from)
	p.mu.Unlock()
	if l.silent.Load() {
		time.Sleep(halfOpenTimeout)
	}
	_ = to.Close() // ended, even on an error
}

// divide returns how much of a chunk is delivered before a gate that it closes.
func (p *Proxy) divide(g *gate, chunk []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.within == nil {
		return 0
	}
	first := g.within(chunk)
	if first < 0 {
		return 0
	}
	*g = gate{held: true}
	return first
}

// pass waits while its direction is held, and during a delay.
func (p *Proxy) pass(g *gate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.delay; d > 0 {
		p.mu.Unlock()
		time.Sleep(d)
		p.mu.Lock()
	}
	for g.held {
		g.kept = true
		p.moved.Wait()
	}
}
