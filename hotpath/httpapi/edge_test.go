package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/bench/must"
)

// held polls until a budget holds n bytes.
func (b *byteLimit) mustHold(t *testing.T, n int64) {
	t.Helper()
	for due := time.Now().Add(time.Minute); b.held.Load() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(due) {
			t.Fatalf("%d bytes are held, want %d", b.held.Load(), n)
		}
	}
}

// simulationOfSize is a demo simulation without a key, with spaces after it.
func simulationOfSize(n int) string {
	return simulationOf(2) + strings.Repeat(" ", n-len(simulationOf(2)))
}

func demo(headers, body string) string {
	return "POST /v1/simulate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + headers + "\r\n" + body
}

// G9: bodies count as their declared length. Bodies of strangers leave room for those of callers
// with a key, and a body small enough not to be counted is always taken.
func TestBodiesAreBounded(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxBodies = maxBody })
	begun := strings.Repeat(" ", freeBody+1)
	const most = "Content-Length: 1048576\r\n"
	refused := func(request string) {
		t.Helper()
		c := s.dial()
		c.send(request)
		if a := c.receive(); a.status != 500 || a.code(t) != codeInternal || a.header.Get("Retry-After") != "1" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		c.closed()
	}
	taken := func(request string) {
		t.Helper()
		c := s.dial()
		c.send(request)
		c.receive().is(t, "", 200)
	}
	for _, held := range []string{most, "Transfer-Encoding: chunked\r\n"} {
		body, chunk := begun, ""
		if held != most {
			chunk = "100000\r\n"
			body = strings.Repeat(" ", maxBody-1)
		}
		var strangers []*raw
		for range strangersBodies / maxBody {
			c := s.dial()
			c.send(demo(held, chunk+body))
			strangers = append(strangers, c)
		}
		s.api.strangers.mustHold(t, strangersBodies)
		large := simulationOfSize(freeBody + 1)
		refused(demo(length(large), large))
		refused(demo("Transfer-Encoding: chunked\r\n", "1001\r\n"+large+"\r\n0\r\n\r\n"))
		small := simulationOfSize(freeBody)
		taken(demo(length(small), small))

		large = plainCheck + begun
		taken(post(length(large), large))
		known := s.dial()
		known.send(post(held, chunk+body))
		s.api.bodies.mustHold(t, maxBody)
		refused(post(length(large), large))
		taken(post(length(plainCheck), plainCheck))
		// An unknown caller is refused as such first (S1).
		s.do("POST", "/v1/checks", large, "X-API-Key: svc_live_wrong").is(t, "a wrong key", 401)
		_ = known.Close()
		for _, c := range strangers {
			_ = c.Close()
		}
		s.api.bodies.mustHold(t, 0)
		s.api.strangers.mustHold(t, 0)
		taken(post(length(large), large))
	}
}

// A body that is cut off in its counted part is answered as in its beginning.
func TestSlowLargeBodyIsCutOff(t *testing.T) {
	s := start(t, func(o *Options) { o.ReadTimeout = 300 * time.Millisecond })
	c := s.dial()
	c.send(post("Content-Length: 100000\r\n", strings.Repeat(" ", 2*freeBody)))
	c.receive().is(t, "", 408, `"code":"`+codeBadRequest+`"`)
	c.closed()
	s.api.bodies.mustHold(t, 0)
	if len(s.fake.checked) != 0 {
		t.Error("a part of a body was checked")
	}
}

// dialFrom connects from another address of this machine.
func (s *served) dialFrom(address string) *raw {
	s.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := d.Dial("tcp", s.address)
	if err != nil {
		s.t.Skipf("cannot connect from %s: %v", address, err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return &raw{s.t, c, bufio.NewReader(c)}
}

// The oldest of the connections that never sent a request makes room (G9).
func TestSilentConnectionsMakeRoom(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxConnections = 3 })
	asks := func(c *raw) {
		t.Helper()
		c.send(post(length(plainCheck), plainCheck))
		c.receive().is(t, "", 200)
	}
	open := func(n int) {
		t.Helper()
		for due := time.Now().Add(time.Minute); s.api.open.count() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(due) {
				t.Fatalf("%d connections are open, want %d", s.api.open.count(), n)
			}
		}
	}
	asked := s.dial()
	asks(asked)
	silent := s.dial()
	open(2)
	half := s.dial()
	half.send("POST /v1/checks HTTP/1.1\r\n")
	open(3)
	for _, oldest := range []*raw{silent, half} {
		next := s.dial()
		asks(next)
		oldest.closed() // without a word
	}
	asks(asked)
	last := s.dial() // all have asked by now
	last.send(post(length(plainCheck), plainCheck))
	last.receive().is(t, "a fourth connection", 500)
	if strings.Contains(s.logged.String(), "code=bad_request") {
		t.Errorf("what made room is logged as a request: %s", s.logged)
	}
}

// exhausted is a listener whose system has no file for the next connections.
type exhausted struct {
	net.Listener
	times *atomic.Int64
}

// Accept implements net.Listener.
func (e exhausted) Accept() (net.Conn, error) {
	if e.times.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return e.Listener.Accept()
}

// A system that has no file for a connection does not end the server: a silent connection gives its
// file.
func TestSilentConnectionsGiveTheirFiles(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close() //nolint:errcheck // nothing is left in it
	ours, silent := net.Pipe()
	var open openConns
	open.add(&conn{Conn: ours, open: &open})
	var logged strings.Builder
	times := new(atomic.Int64)
	times.Store(2)
	served := listener{exhausted{l, times}, &open, nil, slog.New(slog.NewTextHandler(&logged, nil))}
	must.Get(net.Dial("tcp", l.Addr().String()))(t)
	must.Get(served.Accept())(t)
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the silent connection is open: %v", err)
	}
	if n := strings.Count(logged.String(), `msg="cannot accept connections" times=1 error=`); n != 1 {
		t.Errorf("%s", logged.String())
	}
}

// One address does not take all connections, unless it is a proxy (G9).
func TestConnectionsOfOneAddress(t *testing.T) {
	status := func(c *raw) int {
		c.send(post(length(plainCheck), plainCheck))
		return c.receive().status
	}
	s := start(t, func(o *Options) { o.MaxPerAddress = 2 })
	first := s.dial()
	if a, b, c := status(first), status(s.dial()), status(s.dial()); a != 200 || b != 200 || c != 500 {
		t.Errorf("three of one address: %d %d %d", a, b, c)
	}
	if other := status(s.dialFrom("127.0.0.2")); other != 200 {
		t.Errorf("another address: %d", other)
	}
	_ = first.Close()
	for due := time.Now().Add(time.Minute); status(s.dial()) != 200; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(due) {
			t.Fatal("there is no room after one was closed")
		}
	}
	s = start(t, func(o *Options) {
		o.MaxPerAddress, o.TrustedProxies = 2, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	for range 4 {
		if proxied := status(s.dial()); proxied != 200 {
			t.Errorf("a proxy: %d", proxied)
		}
	}
}

// Clients with IPv6 have many addresses.
func TestNetworkOf(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2::9": "2001:db8:1:2::",
	} {
		if got := networkOf(addressOf(&net.TCPAddr{IP: net.ParseIP(text)})); got.String() != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// Nor are those that are to be refused any number.
func TestRefusedConnectionsAreBounded(t *testing.T) {
	o := openConns{most: 1}
	local, remote := net.Pipe()
	defer remote.Close() //nolint:errcheck // a pipe
	add := func() (*conn, bool) {
		c := &conn{Conn: local, open: &o}
		ok := o.add(c)
		return c, ok
	}
	first, _ := add()
	o.hear(first)
	for range refusedConnections {
		if c, ok := add(); !ok || !c.excess {
			t.Fatalf("excess %v, taken %v", c.excess, ok)
		}
	}
	if _, ok := add(); ok {
		t.Error("any number is taken to be refused")
	}
}

// The operations listener takes only tiny bodies and few connections, and stays available.
func TestOpsIsBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, address := startOps(t, OpsOptions{
		Gatherer: registry, Ready: func(context.Context) Readiness { return Readiness{Ready: true} }, Pprof: true,
	})
	s := &served{t: t, address: address}
	for _, headers := range []string{"Content-Length: 1025\r\n", "Transfer-Encoding: chunked\r\n"} {
		c := s.dial()
		c.send("POST /debug/pprof/symbol HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n401\r\n")
		c.receive().is(t, headers, http.StatusBadRequest)
		c.closed()
	}
	var kept int
	for range 3 * opsConnections {
		s.dial() // silent
		c := s.dial()
		c.send("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
		a := c.receive()
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if a.header.Get("Connection") != "close" {
			kept++
		}
	}
	if kept == 0 || kept > opsConnections {
		t.Errorf("%d connections are kept", kept)
	}
}
