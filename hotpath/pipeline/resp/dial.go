package resp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"spendgate/audit/idle"
)

// Server is where a server is, and how to log in to it.
type Server struct {
	Addr string
	// Dial connects in place of TCP and TLS; nil for those.
	Dial               func(ctx context.Context, network, addr string) (net.Conn, error)
	TLS                *tls.Config // nil for none
	Username, Password string
	DB                 int
	Name               string // of the connection, as CLIENT LIST shows it
}

// Dial returns a connection that is logged in and has its database selected.
// dialTimeout bounds connecting and the TLS handshake, ctx everything.
func Dial(ctx context.Context, s Server, dialTimeout time.Duration) (*Conn, error) {
	socket, err := s.connect(ctx, dialTimeout)
	if err != nil {
		return nil, err
	}
	c := NewConn(socket)
	if err := s.login(ctx, c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (s Server) connect(ctx context.Context, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case s.Dial != nil:
		return s.Dial(ctx, "tcp", s.Addr)
	case s.TLS != nil:
		return (&tls.Dialer{Config: s.TLS}).DialContext(ctx, "tcp", s.Addr)
	default:
		return new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	}
}

func (s Server) login(ctx context.Context, c *Conn) error {
	var p Pipeline // a pipeline of its own, since it holds the password
	auth, selected := Index(-1), Index(-1)
	if s.Password != "" {
		auth = p.Command("AUTH")
		if s.Username != "" {
			p.Text(s.Username)
		}
		p.Text(s.Password)
	}
	if s.DB != 0 {
		selected = p.Command("SELECT")
		p.Int(int64(s.DB))
	}
	p.Command("CLIENT") // a server that keeps no names will do
	p.Text("SETNAME")
	p.Text(s.Name)
	deadline, _ := ctx.Deadline()
	if err := c.Run(&p, deadline); err != nil {
		return err
	}
	if auth >= 0 {
		if err := p.Reply(auth).Err(); err != nil {
			return fmt.Errorf("cannot log in: %w", err)
		}
	}
	if selected >= 0 {
		if err := p.Reply(selected).Err(); err != nil {
			return fmt.Errorf("cannot select database %d: %w", s.DB, err)
		}
	}
	return nil
}

// Stale reports whether the server has closed the connection, which nobody
// uses just now, or said something unasked for.
func (c *Conn) Stale() bool { return c.probe.Stale() }

// Close closes the connection at once, without a farewell.
func (c *Conn) Close() { _ = idle.Plain(c.conn).Close() } // nothing depends on it any more
