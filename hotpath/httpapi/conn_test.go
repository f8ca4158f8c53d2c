package httpapi

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"
)

// socket remembers its deadlines, and how often they were set.
type socket struct {
	net.Conn
	readBy, writeBy time.Time
	set             int
}

func (s *socket) Read(p []byte) (int, error) { return len(p), nil }

func (s *socket) SetReadDeadline(t time.Time) error {
	s.readBy = t
	s.set++
	return nil
}

func (s *socket) SetWriteDeadline(t time.Time) error {
	s.writeBy = t
	s.set++
	return nil
}

// request does to a connection what fasthttp does for one request, which comes
// whole, or in two parts.
func (c *conn) request(t *testing.T, o *fasthttp.Server, parts int) {
	t.Helper()
	s := c.Conn.(*socket)
	bounded := func(what string, by time.Time, timeout time.Duration) {
		left := time.Until(by)
		if least := timeout - timeout/8; left > timeout || left < least {
			t.Errorf("%s %v before its end, of %v", what, left, timeout)
		}
	}
	read := func(what string, timeout time.Duration) {
		_ = c.SetReadDeadline(time.Now().Add(timeout))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		bounded(what, s.readBy, timeout)
	}
	read("waits", o.IdleTimeout)
	if parts > 1 {
		read("reads", o.ReadTimeout)
	}
	_ = c.SetReadDeadline(time.Now().Add(o.ReadTimeout))
	_ = c.SetWriteDeadline(time.Now().Add(o.WriteTimeout))
	bounded("writes", s.writeBy, o.WriteTimeout)
	c.first = time.Time{}
}

// Deadlines hold, but a busy connection does not set three for each request.
func TestDeadlinesOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &fasthttp.Server{ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second}
		s := &socket{}
		c := &conn{Conn: s, open: &openConns{}, server: o, fresh: true}
		const requests = 1000
		for range requests {
			c.request(t, o, 1)
			time.Sleep(10 * time.Millisecond)
		}
		if most := requests / 10; s.set > most {
			t.Errorf("%d deadlines for %d requests", s.set, requests)
		}
		for range 10 {
			c.request(t, o, 2)
			time.Sleep(time.Second)
			c.request(t, o, 1)
			time.Sleep(time.Minute)
		}
	})
}

// The deadlines that hurry sets apply to requests that are being read, and not to answers written
// later (G11).
func TestDeadlinesWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &fasthttp.Server{ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second}
		s := &socket{}
		open := &openConns{}
		c := &conn{Conn: s, open: open, server: o, fresh: true}
		open.add(c)
		c.request(t, o, 1)
		open.hurry()
		_ = c.SetWriteDeadline(time.Now().Add(o.WriteTimeout))
		if left := time.Until(s.writeBy); left != o.WriteTimeout {
			t.Errorf("the answer has %v", left)
		}
		_ = c.SetReadDeadline(time.Now().Add(o.ReadTimeout))
		end := time.Now().Add(finishReading)
		for time.Now().Before(end.Add(finishReading)) { // a byte now and then
			_, _ = c.Read(make([]byte, 1))
			if s.readBy.After(end) {
				t.Errorf("reads until %v later", s.readBy.Sub(end))
			}
			time.Sleep(finishReading / 10)
		}
	})
}
