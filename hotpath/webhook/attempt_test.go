package webhook

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"spendgate/audit"
	"spendgate/bench/must"
)

// try makes one attempt over the network.
func try(t *testing.T, private bool, url string, secrets ...audit.Secret) (r audit.DeliveryResult, gone bool) {
	t.Helper()
	w := New(Options{
		InFlight: 1, PrivateAddresses: private, Logger: slog.New(slog.DiscardHandler),
		Encode: func(dst []byte, _ *audit.Event) []byte { return append(dst, `{"type":"key.changed"}`...) },
	})
	defer w.client.CloseIdleConnections()
	task := &audit.WebhookTask{Webhook: audit.Webhook{URL: url}, Secrets: secrets}
	gone, aborted := (&endpoint{Worker: w}).attempt(t.Context(), task, &audit.Event{}, &r)
	if aborted {
		t.Error("aborted")
	}
	return r, gone
}

// counted is a server that counts requests.
func counted(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s, &n
}

func TestAttempts(t *testing.T) {
	elsewhere, reached := counted(t, func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
		status int
		gone   bool
	}{
		"taken": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, "", 202, false},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "status 307: redirects are not followed", 307, false},
		"refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "status 500", 500, false},
		"gone": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, "status 410: the webhook is disabled", 410, true,
		},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		}, "", 200, false},
		"no response": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", 0, false},
		"large header": {
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, errResponse.Error(), 0, false,
		},
	} {
		server, n := counted(t, c.answer)
		r, gone := try(t, true, server.URL+"/?token=secret", NewSecret())
		if r.Error != c.want || r.StatusCode != c.status || gone != c.gone || n.Load() != 1 {
			t.Errorf("%s: %+v, gone %v, %d requests", name, r, gone, n.Load())
		}
	}
	if reached.Load() > 0 {
		t.Error("a redirect was followed")
	}
	if r, _ := try(t, true, "http://127.0.0.1:1/?token=secret", NewSecret()); !strings.Contains(r.Error, "refused") ||
		strings.Contains(r.Error, "token") {
		t.Errorf("logged %q", r.Error)
	}
}

// says is a server that sends a text, at once or after a request, and keeps the connection.
func says(t *testing.T, atOnce bool, text string) (url string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			if !atOnce {
				_, _ = c.Read(make([]byte, 1<<10))
			}
			_, _ = io.WriteString(c, text)
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

// A final status below 200 ends the attempt: what may follow it is read by nobody.
func TestSwitchedProtocols(t *testing.T) {
	began := time.Now()
	r, _ := try(t, true, says(t, false, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), NewSecret())
	if r.Error != "status 101" || r.StatusCode != http.StatusSwitchingProtocols || time.Since(began) > attemptTimeout/3 {
		t.Errorf("%+v after %v", r, time.Since(began))
	}
}

// Errors do not contain the banners of other services.
func TestBanners(t *testing.T) {
	for _, text := range []string{
		"SSH-2.0-secret_9.6\r\n", "220 secret ESMTP\r\n", "-ERR secret\r\n", "\x00secret\n", "HTTP/1.1 secret\r\n\r\n",
		"HTTP/1.1 200 OK\r\nsecret\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: secret\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: secret\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nsecret\r\n\r\n",
	} {
		for _, atOnce := range []bool{false, true} {
			r, _ := try(t, true, says(t, atOnce, text), NewSecret())
			if r.Error != errResponse.Error() {
				t.Errorf("%q, at once %v: %+v", text, atOnce, r)
			}
		}
		if r, _ := try(t, true, strings.Replace(says(t, true, text), "http", "https", 1), NewSecret()); r.Error == "" ||
			strings.Contains(r.Error, "secret") {
			t.Errorf("%q, asked for TLS: %+v", text, r)
		}
	}
}

// Nothing is read of a connection before something was asked, or it is closed.
func TestAskingConn(t *testing.T) {
	for name, end := range map[string]func(*askingConn){
		"asked": func(c *askingConn) { _, _ = c.Write([]byte("?")) }, "closed": func(c *askingConn) { _ = c.Close() },
	} {
		near, far := net.Pipe()
		c, done := &askingConn{Conn: near, asked: make(chan struct{})}, make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, far) }()
		go func() { _, _ = far.Write([]byte("hello")) }()
		go func() {
			defer close(done)
			_, _ = c.Read(make([]byte, 8))
		}()
		select {
		case <-done:
			t.Errorf("%s: read before", name)
		case <-time.After(20 * time.Millisecond):
		}
		end(c)
		<-done
		_ = far.Close()
	}
}

// A real request verifies with the reference library.
func TestRequestVerifies(t *testing.T) {
	secret := NewSecret()
	verifier := must.Get(standard.NewWebhook(string(secret)))(t)
	server, n := counted(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		must.Check(t, err)
	})
	if r, _ := try(t, true, server.URL, secret); r.Error != "" || n.Load() != 1 {
		t.Errorf("%+v, %d requests", r, n.Load())
	}
}

// The address is judged that is dialled, whatever the name meant when the webhook
// was made, and nothing is sent to one that is refused.
func TestRefusedWhenDialled(t *testing.T) {
	server, n := counted(t, func(http.ResponseWriter, *http.Request) {})
	address := netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "http://"))
	names := answerNames(t, netip.MustParseAddr("93.184.215.14"))
	url := "http://rebind.example:" + strings.Split(server.URL, ":")[2] + "/"
	if err := check(t, url, false); err != nil {
		t.Fatalf("a public name is refused: %v", err)
	}
	names.Store(new(address.Addr()))
	if err := check(t, url, false); err == nil {
		t.Error("a name that means a loopback address passes")
	}
	const want = "refused: the URL must not lead to a private, loopback, link-local or other address that is not public"
	for _, url := range []string{url, server.URL, strings.Replace(server.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
		if r, _ := try(t, false, url, NewSecret()); r.Error != want || r.StatusCode != 0 {
			t.Errorf("%s: %+v", url, r)
		}
	}
	if n.Load() > 0 {
		t.Errorf("%d requests arrived", n.Load())
	}
	if r, _ := try(t, true, url, NewSecret()); r.Error != "" || n.Load() != 1 {
		t.Errorf("where it is allowed: %+v", r)
	}
}

// answerNames makes every name mean an address, which may be changed.
func answerNames(t *testing.T, address netip.Addr) *atomic.Pointer[netip.Addr] {
	t.Helper()
	var now atomic.Pointer[netip.Addr]
	now.Store(&address)
	server := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = server.Close()
	})
	go func() {
		for b := make([]byte, 512); ; {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(answerName(b[:n], now.Load().As4()), from)
		}
	}()
	return &now
}

// answerName answers a question of DNS for an A record; it has no others.
func answerName(question []byte, address [4]byte) []byte {
	end := 12
	for question[end] != 0 {
		end += 1 + int(question[end])
	}
	kind := binary.BigEndian.Uint16(question[end+1:])
	end += 5
	answer := append([]byte{question[0], question[1], 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0}, question[12:end]...)
	if kind == 1 {
		answer[7] = 1
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		answer = append(answer, address[:]...)
	}
	return answer
}
