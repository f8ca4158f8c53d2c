package fleet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy stands between a node and a server and can keep back what one of them
// sends, to deliver it later: a network that lost nothing, but was slow.
type Proxy struct {
	Addr     string // where to connect
	target   string
	listener net.Listener
	returned atomic.Int64

	mu       sync.Mutex
	moved    *sync.Cond
	requests gate
	answers  gate
	conns    map[net.Conn]struct{}
	over     bool
}

// gate is one direction.
type gate struct {
	held bool
	kept bool // something was kept back since it was held
}

// NewProxy starts a proxy of a TCP address on a port of its own.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot start a proxy: %w", err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: make(map[net.Conn]struct{})}
	p.moved = sync.NewCond(&p.mu)
	go p.accept()
	return p, nil
}

// Hold keeps back what clients send from now on.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = gate{held: true}
}

// HoldAnswers keeps back what the server sends from now on.
func (p *Proxy) HoldAnswers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = gate{held: true}
}

// Kept reports whether anything was kept back, either way, since it was held.
func (p *Proxy) Kept() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests.kept || p.answers.kept
}

// Returned counts the bytes that came back from the server so far.
func (p *Proxy) Returned() int64 { return p.returned.Load() }

// Release delivers what was kept back, also for clients that are gone.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests.held, p.answers.held = false, false
	p.moved.Broadcast()
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests.held, p.answers.held, p.over = false, false, true
	p.moved.Broadcast()
	for c := range p.conns {
		_ = c.Close() // wakes whoever reads from it
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
		if p.keep(client) && p.keep(server) {
			go p.carry(server, client, &p.requests, nil)
			go p.carry(client, server, &p.answers, &p.returned)
		}
	}
}

func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		_ = c.Close() // there is nobody to serve it
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// carry delivers what from sends to the other end, when it may.
func (p *Proxy) carry(to, from net.Conn, g *gate, count *atomic.Int64) {
	defer to.Close() //nolint:errcheck // the end, whatever it says
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && count != nil {
			count.Add(int64(n))
		}
		p.pass(g)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while a direction is held.
func (p *Proxy) pass(g *gate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for g.held {
		g.kept = true
		p.moved.Wait()
	}
}
