package httpapi

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"spendgate/hotpath"
)

// scripted is a connection from which each Read returns one of the segments, and which notes what is
// written.
type scripted struct {
	net.Conn
	segments func() []byte // nil when the client is done
	rest     []byte
	answered bytes.Buffer
}

func (w *scripted) Read(p []byte) (int, error) {
	if len(w.rest) == 0 {
		w.rest = w.segments()
	}
	if len(w.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

func (w *scripted) Write(p []byte) (int, error) {
	if w.answered.Len() > 1<<20 {
		w.answered.Reset()
	}
	return w.answered.Write(p)
}
func (w *scripted) Close() error                     { return nil }
func (w *scripted) SetReadDeadline(time.Time) error  { return nil }
func (w *scripted) SetWriteDeadline(time.Time) error { return nil }
func (w *scripted) SetDeadline(time.Time) error      { return nil }
func (w *scripted) LocalAddr() net.Addr              { return w.RemoteAddr() }
func (w *scripted) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:1"))
}

// serveWire serves one connection to its end.
func (a *API) serveWire(t testing.TB, w *scripted) {
	c := &conn{Conn: w, open: &a.open, server: a.server, fresh: true}
	if !a.open.add(c) {
		t.Fatal("the connection is not taken")
	}
	// How a connection ends tells nothing here.
	_ = a.server.ServeConn(c)
	_ = c.Close()
}

// BenchmarkCheckOnAConnection is a check with all that HTTP costs, but the kernel.
func BenchmarkCheckOnAConnection(b *testing.B) {
	a := New(Options{Authorizer: instantly{answer: hotpath.Answer{Check: blockedCheck()}}, Store: &fakeStore{}})
	request := []byte(post(length(plainCheck), plainCheck))
	left := b.N
	b.ReportAllocs()
	a.serveWire(b, &scripted{segments: func() []byte {
		if left--; left < 0 {
			return nil
		}
		return request
	}})
}

// taken is a request as the service understood it.
type taken struct{ method, uri, body string }

// understand sends text in segments of a size and returns the requests that the
// service took, body and all.
func understand(t *testing.T, text []byte, size int) []taken {
	a := New(Options{Authorizer: newFake(), Store: &fakeStore{}, MaxInFlight: 1})
	var all []taken
	a.router = router.New()
	a.router.RedirectTrailingSlash, a.router.RedirectFixedPath = false, false
	a.router.NotFound = func(ctx *fasthttp.RequestCtx) {
		x := exchangeOf(ctx)
		if x.unread == nil {
			all = append(all, taken{string(ctx.Method()), string(ctx.Request.Header.RequestURI()), string(x.body)})
		}
		a.fail(x, errPathNotFound)
	}
	a.serveWire(t, &scripted{segments: func() []byte {
		n := min(size, len(text))
		segment := text[:n]
		text = text[n:]
		return segment
	}})
	if n := a.bodies.held.Load() + a.strangers.held.Load(); n != 0 || a.open.count() != 0 {
		t.Errorf("%d bytes stay held, %d connections open", n, a.open.count())
	}
	return all
}

// FuzzWire sends any bytes, in segments of any size: what the service takes for
// requests is what net/http does, one after the other, unless that refuses it. Where
// two servers part them differently, one client's request becomes another's.
func FuzzWire(f *testing.F) {
	const size = 7
	check := post(length(plainCheck), plainCheck)
	chunked := post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n")
	large := post("Content-Length: 5000\r\n", strings.Repeat("x", 5000))
	for _, text := range []string{
		check + smuggled, chunked + smuggled, large + smuggled, smuggled + smuggled, "\r\n" + check,
		post("Expect: 100-continue\r\n"+length("{}"), "{}"), post("Content-Length:\r\n 2\r\n", "{}"+smuggled),
		post("Content-Length: 2\nX: y\r\n", "{}"+smuggled),
		post("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", "0\r\n\r\n"+smuggled),
		post("Transfer-Encoding: chunked\r\n", "0\r\nX: y\r\n\r\n"+smuggled),
		post("Content-Length: 2\r\nContent-Length: 2\r\n", "{}"+smuggled), "GET / HTTP/1.1\nHost: a\r\n\r\n" + smuggled,
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + smuggled,
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + smuggled, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + smuggled,
		post("Transfer-Encoding: chunked\r\n", "1388\r\n"+strings.Repeat("x", 5000)+"\r\n0\r\n\r\n"+smuggled),
	} {
		f.Add([]byte(text), uint16(size))
		f.Add([]byte(text), uint16(maxHeader))
	}
	f.Fuzz(func(t *testing.T, text []byte, size uint16) {
		other := bufio.NewReader(bytes.NewReader(text))
		for i, got := range understand(t, text, max(int(size), 1)) {
			r, err := http.ReadRequest(other)
			if err != nil {
				return // net/http is stricter here
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if want := (taken{r.Method, r.RequestURI, string(body)}); got != want {
				t.Fatalf("request %d is %q, to net/http %q", i, got, want)
			}
		}
	})
}
