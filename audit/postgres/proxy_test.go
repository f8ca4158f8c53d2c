package postgres

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"spendgate/bench/must"
)

// proxy stands between a store and the database and loses the messages that a test names. It
// recognizes a commit by its length.
type proxy struct {
	url    string // of the database, through the proxy
	target string

	mu sync.Mutex
	// swallow is how many bytes of the next commit's end stay behind, and
	// silent whether its answer does.
	armed   bool
	swallow int
	kept    []func() error // give the bytes that stayed behind to the database
	instead []byte         // of the answer
}

// commitLength is more than any message but a commit with a long text has.
const commitLength = 4000

func newProxy(t *testing.T, database string) *proxy {
	t.Helper()
	u := must.Get(url.Parse(database))(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	p := &proxy{target: u.Host}
	u.Host = listener.Addr().String()
	p.url = u.String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go p.serve(client)
		}
	}()
	return p
}

// lose makes the next commit's connection die: the last bytes of the commit
// do not reach the database, which is not told that the client has gone, and
// no answer reaches the client.
func (p *proxy) lose(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.swallow = true, bytes
}

// answerInstead lets the next commit through and gives the client, once it is
// answered, something else and the end of the connection.
func (p *proxy) answerInstead(message pgproto3.BackendMessage) error {
	encoded, err := message.Encode(nil)
	p.mu.Lock()
	p.instead = encoded
	p.mu.Unlock()
	p.lose(0)
	return err
}

// deliver returns the database what stayed behind.
func (p *proxy) deliver() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, late := range p.kept {
		if err := late(); err != nil {
			return err
		}
	}
	return nil
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	dead := make(chan struct{})
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			select {
			case <-dead:
				_, _ = client.Write(p.instead) // instead of the answer
				_ = client.Close()
				return
			default:
			}
			if err != nil {
				_ = client.Close()
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 256<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			select {
			case <-dead: // the database shall not know
			default:
				_ = server.Close()
			}
			return
		}
		if p.takes(n) {
			p.kill(server, client, append([]byte(nil), buf[:n]...), dead)
			continue
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) takes(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.armed && n >= commitLength
}

func (p *proxy) kill(server io.Writer, client io.Closer, message []byte, dead chan struct{}) {
	close(dead)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	cut := len(message) - p.swallow
	_, _ = server.Write(message[:cut]) // if it fails, the test sees no commit
	if p.swallow > 0 {
		p.kept = append(p.kept, func() error { _, err := server.Write(message[cut:]); return err })
		_ = client.Close()
	}
}
