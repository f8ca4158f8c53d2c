package fleet

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy stands between a node and a server and can keep back what the node
// sends, to deliver it later: a network that lost nothing, but was slow.
type Proxy struct {
	Addr     string // where to connect
	target   string
	listener net.Listener

	returned atomic.Int64

	mu    sync.Mutex
	moved *sync.Cond
	held  bool
	kept  bool // something was kept back since the last Hold
	conns map[net.Conn]struct{}
	over  bool
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
	p.held, p.kept = true, false
}

// Kept reports whether anything was kept back since Hold.
func (p *Proxy) Kept() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept
}

// Returned counts the bytes that came back from the server so far.
func (p *Proxy) Returned() int64 { return p.returned.Load() }

// Release delivers what was kept back, also for clients that are gone.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	p.moved.Broadcast()
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.over = false, true
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
			go p.forward(server, client)
			go p.backward(client, server)
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

// forward carries what the client sends, when it may.
func (p *Proxy) forward(server, client net.Conn) {
	defer server.Close() //nolint:errcheck // the end, whatever it says
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if n > 0 {
			p.pass()
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			p.pass()
			return
		}
	}
}

// pass waits while sending is held.
func (p *Proxy) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held {
		p.kept = true
		p.moved.Wait()
	}
}

func (p *Proxy) backward(client, server net.Conn) {
	defer client.Close()                                   //nolint:errcheck // the end, whatever it says
	_, _ = io.Copy(client, io.TeeReader(server, tally{p})) // ends with either connection
}

// tally counts what is written to it.
type tally struct{ proxy *Proxy }

func (t tally) Write(b []byte) (int, error) {
	t.proxy.returned.Add(int64(len(b)))
	return len(b), nil
}
