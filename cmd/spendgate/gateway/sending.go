package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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

const headerLastEvent = "Last-Event-ID"

// RoundTrip adds the headers of the file to a request, and watches whether it is sent. What is wrong with the answer to a call is an
// error of that call alone: for the SDK it would be the end of the connection, and every other call over it would be in doubt.
func (t *remote) RoundTrip(r *http.Request) (*http.Response, error) {
	watching, call := watched(r.Context()), callIn(r)
	r = r.Clone(r.Context())
	for name, v := range t.u.Headers {
		r.Header.Set(name, v.now())
	}
	if watching != nil && r.Body != nil {
		r.Body, r.GetBody = &body{r.Body, watching}, nil // with GetBody, it could be sent twice
	}
	if r.Method == http.MethodGet && (r.Header.Get(headerLastEvent) == "" || strings.HasPrefix(r.Header.Get(headerLastEvent), ownEvent)) {
		return t.listen(r)
	}
	response, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	in, good := response.Body, response.StatusCode/100 == 2
	switch {
	case good && mediaType(response) == typeEvents:
		response.Body = stream{&messages{next: events(bufio.NewReader(in), "")}, in}
	case call.IsValid():
		text, err := io.ReadAll(http.MaxBytesReader(nil, in, maxServerMessage))
		_ = in.Close() // only read
		m, _ := jsonrpc.DecodeMessage(text)
		if a, ok := m.(*jsonrpc.Response); err != nil || !ok || a.ID != call {
			text = nil
		}
		if text = readable(text); text == nil {
			code := int64(codeUnavailable)
			if lost := response.StatusCode; r.Header.Get(headerSession) != "" && (lost == http.StatusNotFound || lost == http.StatusBadRequest) {
				code = codeLost
			}
			text = noAnswer(call, code, "something else, with the HTTP status "+response.Status)
		}
		response.Header.Set("Content-Type", "application/json")
		response.StatusCode, response.Body = http.StatusOK, io.NopCloser(bytes.NewReader(text))
	case r.Method == http.MethodPost: // a notification, or an answer to the server
		response.StatusCode = http.StatusAccepted
	}
	return response, nil
}

const (
	ownEvent   = "gateway-"
	typeEvents = "text/event-stream"
)

type stream struct {
	io.Reader
	io.Closer
}

// listen asks for the stream of messages that belong to no call. For the SDK its end, several times, would be that of the connection.
func (t *remote) listen(r *http.Request) (*http.Response, error) {
	again := r.Header.Get(headerLastEvent) != ""
	r.Header.Del(headerLastEvent)
	response, err := t.base.RoundTrip(r)
	if again && r.Context().Err() == nil && (err != nil || response.StatusCode >= http.StatusInternalServerError) {
		response, err = &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {typeEvents}}, Body: http.NoBody}, nil
	}
	if err == nil && mediaType(response) == typeEvents {
		last := fmt.Sprintf("id: %s%d\n\n", ownEvent, time.Now().UnixNano()) // the next request for the stream is not a repeated failure
		response.Body = stream{&messages{next: events(bufio.NewReader(response.Body), last)}, response.Body}
	}
	return response, err
}

func mediaType(r *http.Response) string {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind
}

// callIn returns the identifier of the call in a request; it is not valid if there is none.
func callIn(r *http.Request) (id jsonrpc.ID) {
	if r.GetBody != nil {
		body, _ := r.GetBody() // of memory: it does not fail
		text, _ := io.ReadAll(body)
		m, _ := jsonrpc.DecodeMessage(text)
		if call, ok := m.(*jsonrpc.Request); ok {
			id = call.ID
		}
	}
	return id
}
