package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// sending tells whether anything of a request was sent to a server. Until then the request can be taken back.
type sending struct {
	mu                        sync.Mutex
	attached, begun, takenOff bool
}

type sendingKey struct{}

// watch returns a context whose first request to a server is watched.
func watch(ctx context.Context) (context.Context, *sending) {
	s := new(sending)
	return context.WithValue(ctx, sendingKey{}, s), s
}

// watched returns what watches the next request of a context; nil if nothing does.
func watched(ctx context.Context) *sending {
	s, _ := ctx.Value(sendingKey{}).(*sending)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached { // a later message, such as that the request is cancelled
		return nil
	}
	s.attached = true
	return s
}

// begin is called before the first byte is sent. It reports whether the request may be sent.
func (s *sending) begin() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = !s.takenOff
	return s.begun
}

// takeBack reports whether nothing was sent. From then on nothing will be.
func (s *sending) takeBack() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takenOff = !s.begun
	return s.takenOff
}

var errTakenBack = errors.New("the request was taken back")

// body is the body of a watched request over HTTP. The transport begins to read it when it has a
// connection; no server carries out a call without its body.
type body struct {
	io.ReadCloser
	sending *sending
}

func (b *body) Read(to []byte) (int, error) {
	if !b.sending.begin() {
		return 0, errTakenBack
	}
	return b.ReadCloser.Read(to)
}

// remote is the HTTP transport to a server.
type remote struct {
	u    *upstream
	base http.RoundTripper
}

func newRemote(u *upstream) *http.Client {
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
	}
	// A redirect would take the headers, with their secrets, to another address.
	stays := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: &remote{u, base}, CheckRedirect: stays}
}

// RoundTrip adds the headers of the file to a request, and watches whether it is sent.
func (t *remote) RoundTrip(r *http.Request) (*http.Response, error) {
	watching := watched(r.Context())
	r = r.Clone(r.Context())
	for name, v := range t.u.Headers {
		r.Header.Set(name, v.now())
	}
	if watching != nil && r.Body != nil {
		r.Body, r.GetBody = &body{r.Body, watching}, nil // with GetBody, it could be sent twice
	}
	response, err := t.base.RoundTrip(r)
	if err == nil && response.Header.Get("Content-Type") != "text/event-stream" {
		response.Body = &limited{response.Body, maxServerMessage}
	}
	return response, err
}

// limited is a body that breaks off when it is too long.
type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(to []byte) (int, error) {
	n, err := l.ReadCloser.Read(to)
	if l.left -= n; l.left < 0 {
		return 0, errors.New("the server's answer is too long")
	}
	return n, err
}
