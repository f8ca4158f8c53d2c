package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestConnectionsThatClientsLeave(t *testing.T) {
	s := start(t, nil)
	for _, text := range []string{"", "GET", "POST /v1/checks HTTP/1.1\r\n", post("Content-Length: 100\r\n", "half")} {
		c := s.dial()
		c.send(text)
		_ = c.Close()
	}
	c := s.dial()
	c.send("GET /health HTTP/1.0\r\n\r\n")
	c.receive().is(t, "HTTP/1.0", 200)
	c.closed()
	c = s.dial()
	c.send("GET http://elsewhere/health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if a := c.receive(); a.status != 200 || a.header.Get("Connection") != "close" {
		t.Errorf("absolute form: %d", a.status)
	}
	c.closed()
	if len(s.fake.checked) != 0 {
		t.Error("half a body was checked")
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	s := start(t, func(o *Options) { o.ReadTimeout, o.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond })
	for _, text := range []string{"GET /hea", post("Content-Length: 100\r\n", "half")} {
		c := s.dial()
		c.send(text)
		c.receive().is(t, fmt.Sprintf("%q", text), 408, `"code":"`+codeBadRequest+`"`)
		c.closed()
	}
	// A connection on which nothing was asked is closed without a word.
	s.dial().closed()
	c := s.dial()
	c.send(smuggled)
	c.receive().is(t, "health", 200)
	c.closed()
}

// A response that is written before a request was read has a deadline of its own: the previous
// response's deadline may have passed.
func TestRefusalsOnAnOldConnection(t *testing.T) {
	for status, text := range map[string]string{
		"413": post("Content-Length: 2000000\r\n", "{"),
		"431": "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20000) + "\r\n\r\n",
		"400": "GET\r\n\r\n",
		"100": post("Expect: 100-continue\r\n"+length(plainCheck), ""),
		"408": "GET /hea",
	} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(o *Options) { o.ReadTimeout, o.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond })
			c := s.dial()
			c.send(smuggled)
			if a := c.receive(); a.status != 200 {
				t.Fatalf("health: %d", a.status)
			}
			time.Sleep(400 * time.Millisecond)
			c.send(text)
			line, err := c.r.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+status) {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}

// A connection may be opened long before its first request. The request's own
// time begins with its first byte.
func TestFirstRequestMayComeLate(t *testing.T) {
	const read = 200 * time.Millisecond
	s := start(t, func(o *Options) { o.ReadTimeout = read })
	early, slow := s.dial(), s.dial()
	time.Sleep(2 * read)
	early.send(smuggled)
	early.receive().is(t, "a connection opened early", 200)
	sent := time.Now()
	slow.send("GET /hea")
	if a := slow.receive(); a.status != 408 || time.Since(sent) < read {
		t.Errorf("half a request: %d after %v", a.status, time.Since(sent))
	}
}

// G9: a connection too many is told so in the service's own words, and closed;
// what needs no work is answered. With one less there is room again.
func TestTooManyConnections(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxConnections = 2 })
	first, second := s.dial(), s.dial()
	for _, c := range []*raw{first, second} {
		c.send(post(length(plainCheck), plainCheck))
		if a := c.receive(); a.status != 200 {
			t.Fatalf("one of two: %d %s", a.status, a.body)
		}
	}
	for path, want := range map[string]int{"/v1/checks/chk_0": 500, "/health": 200, "/nowhere": 404} {
		c := s.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\nX-API-Key: " + goodKey + "\r\n\r\n")
		a := c.receive()
		if a.status != want || want == 500 && (a.code(t) != codeInternal || a.header.Get("Retry-After") == "") ||
			a.header.Get("X-RateLimit-Limit") == "" {
			t.Errorf("%s over a connection too many: %d %s %v", path, a.status, a.body, a.header)
		}
		c.closed()
	}
	_ = first.Close()
	for due := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the service has yet to notice
		c := s.dial()
		c.send(post(length(plainCheck), plainCheck))
		if a := c.receive(); a.status == 200 {
			return
		} else if time.Now().After(due) {
			t.Fatalf("there is room again: %d %s", a.status, a.body)
		}
		_ = c.Close()
	}
}
