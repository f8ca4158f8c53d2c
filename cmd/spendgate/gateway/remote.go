package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	typeEvents    = "text/event-stream"
	typeJSON      = "application/json"
	maxTelling    = 64
)

// remote is a conn to a server over Streamable HTTP. Each message is sent by a POST of its
// own, whose response or stream has the messages that belong to it. The stream of one GET
// has the other messages.
type remote struct {
	u      *upstream
	client *http.Client
	ctx    context.Context //nolint:containedctx // of all exchanges; ends with the conn
	cancel context.CancelFunc
	in     chan message
	// telling bounds how many notifications and responses are being posted at once: a server that hangs
	// must not keep the agent's other messages waiting.
	telling chan struct{}

	mu       sync.Mutex
	session  string
	version  string
	postings map[string]*posting // the requests that have no response yet
}

func newRemote(u *upstream) *remote {
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
	}
	// A redirect would take the headers, with their secrets, to another address.
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &remote{
		u: u, client: client, ctx: ctx, cancel: cancel, in: make(chan message), telling: make(chan struct{}, maxTelling),
		postings: make(map[string]*posting),
	}
}

func (r *remote) read() (message, error) {
	select {
	case m := <-r.in:
		return m, nil
	case <-r.ctx.Done():
		return message{}, io.EOF
	}
}

// write sends a message. The response to a request is returned by read, even if the exchange
// fails.
func (r *remote) write(m message) error {
	if r.ctx.Err() != nil {
		return errLost
	}
	if m.isCall() {
		body, err := r.posting(m)
		if err == nil {
			go r.exchange(m, body)
		}
		return err
	}
	if m.Method == noteInitialized { // it must arrive before all requests
		if err := r.tell(m); err != nil {
			return err
		}
		go r.listen()
		return nil
	}
	select {
	case r.telling <- struct{}{}:
		go func() {
			defer func() { <-r.telling }()
			_ = r.tell(m) // a notification has no answer
		}()
		return nil
	default:
		return fmt.Errorf("%w: it does not take notifications", errLost)
	}
}

// tell posts a message that has no response.
func (r *remote) tell(m message) error {
	text, err := encodeMessage(m)
	if err != nil {
		return fmt.Errorf("cannot write a message: %w", err)
	}
	response, err := r.send(r.ctx, http.MethodPost, bytes.NewReader(text), int64(len(text)), "")
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	return r.accepted(response)
}

// deliver hands a message to read.
func (r *remote) deliver(m message) {
	select {
	case r.in <- m:
	case <-r.ctx.Done():
	}
}

// exchange posts a request and delivers the messages that come back, the response last.
func (r *remote) exchange(m message, body *posting) {
	defer r.forget(m, body)
	id := string(m.ID)
	err := func() error {
		response, err := r.send(body.ctx, http.MethodPost, body, int64(body.text.Len()), "")
		if err != nil {
			return err
		}
		defer response.Body.Close() //nolint:errcheck // only read
		if err := r.accepted(response); err != nil {
			return err
		}
		if m.Method == methodInitialize {
			r.mu.Lock()
			r.session = response.Header.Get(headerSession)
			r.mu.Unlock()
		}
		if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != typeEvents {
			return r.whole(response.Body, m)
		}
		return r.stream(response.Body, id)
	}()
	if err != nil {
		r.deliver(message{ID: m.ID, failure: err})
	}
}

// whole reads a response that is one JSON text.
func (r *remote) whole(body io.Reader, request message) error {
	text, err := io.ReadAll(io.LimitReader(body, maxServerMessage+1))
	if err != nil || len(text) > maxServerMessage {
		return fmt.Errorf("%w: its answer broke off", errLost)
	}
	m, err := decodeMessage(text)
	if err != nil || !m.isResponse() || string(m.ID) != string(request.ID) {
		return fmt.Errorf("%w: its answer cannot be understood", errLost)
	}
	m.about = string(request.ID)
	r.deliver(m)
	return nil
}

// setVersion sets the version of the protocol that was agreed on.
func (r *remote) setVersion(version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = version
}

// stream delivers the events of a stream until the response to a request has come. A stream
// that ends earlier is resumed if its events have identifiers.
func (r *remote) stream(body io.Reader, id string) error {
	var last string
	var retry time.Duration
	for {
		seen, pause, done := r.events(body, id)
		last, retry = cmp.Or(seen, last), cmp.Or(pause, retry)
		switch {
		case done:
			return nil
		case last == "" || r.ctx.Err() != nil:
			return fmt.Errorf("%w: its stream broke off", errLost)
		}
		response, err := r.resume(last, retry)
		if err != nil {
			return fmt.Errorf("%w: %w", errLost, err)
		}
		defer response.Body.Close() //nolint:errcheck // only read
		body = response.Body
	}
}

// events delivers the events of one body, and reports whether the response to the
// request was among them.
func (r *remote) events(body io.Reader, id string) (last string, retry time.Duration, done bool) {
	in := newEvents(body)
	for {
		event, err := in.next()
		if event.id != "" {
			last = event.id
		}
		if event.retry > 0 {
			retry = event.retry
		}
		if len(event.data) > 0 {
			m, err := decodeMessage(event.data)
			if err != nil {
				continue
			}
			m.about = id
			if m.isResponse() && string(m.ID) == id {
				r.deliver(m)
				return last, retry, true
			}
			r.deliver(m)
		}
		if err != nil {
			return last, retry, false
		}
	}
}

func (r *remote) resume(last string, retry time.Duration) (*http.Response, error) {
	const tries = 5
	pause := max(retry, 100*time.Millisecond)
	for i := 0; ; i++ {
		select {
		case <-time.After(pause << i):
		case <-r.ctx.Done():
			return nil, r.ctx.Err()
		}
		response, err := r.send(r.ctx, http.MethodGet, nil, 0, last)
		if err == nil && response.StatusCode == http.StatusOK {
			return response, nil
		}
		if err == nil {
			response.Body.Close() //nolint:errcheck // only read
			err = fmt.Errorf("it answered %d to a resumed stream", response.StatusCode)
		}
		if i+1 == tries {
			return nil, err
		}
	}
}

// listen delivers the messages that the server sends by itself, until the conn is closed or
// the server says that it has no such stream.
func (r *remote) listen() {
	last, streamed := "", false
	var retry time.Duration // as the server asks for
	for pause := time.Second; r.ctx.Err() == nil; pause = min(2*pause, 30*time.Second) {
		response, err := r.send(r.ctx, http.MethodGet, nil, 0, last)
		if err == nil {
			if response.StatusCode == http.StatusOK {
				seen, asked, _ := r.events(response.Body, "")
				last, retry, streamed = cmp.Or(seen, last), cmp.Or(asked, retry), true
				pause = 500 * time.Millisecond
			}
			response.Body.Close() //nolint:errcheck // only read
			switch response.StatusCode {
			case http.StatusNotFound:
				if streamed {
					r.cancel() // the session is over; a server that never had such a stream does not know the address
				}
				return
			case http.StatusMethodNotAllowed:
				return
			}
		}
		select {
		case <-time.After(max(pause, retry)):
		case <-r.ctx.Done():
		}
	}
}

// accepted returns an error unless the response is a success. If the server does not know the
// session any more, the conn ends, so that another one is made.
func (r *remote) accepted(response *http.Response) error {
	switch code := response.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusNotFound && r.hasSession():
		time.AfterFunc(time.Second, r.cancel) // after the response was delivered
		return fmt.Errorf("%w: its session is over", errLost)
	case code/100 == 4:
		// The transport refused the request, with or without an error of JSON-RPC. The request had arrived, so it is
		// unknown what the server did with it before.
		return fmt.Errorf("the server answered %d: %s", code, http.StatusText(code))
	default:
		return fmt.Errorf("%w: it answered %d", errLost, code)
	}
}

func (r *remote) hasSession() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session != ""
}

// send makes a request, whose body has size bytes.
func (r *remote) send(ctx context.Context, method string, body io.Reader, size int64, last string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.u.URL, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	request.ContentLength = size
	for name, v := range r.u.Headers {
		request.Header.Set(name, v.now())
	}
	request.Header.Set("Accept", typeEvents)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", typeJSON)
		request.Header.Set("Accept", typeJSON+", "+typeEvents)
		// With GetBody, a request could be sent twice when a reused connection breaks.
		request.GetBody = nil
	}
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	r.mu.Lock()
	if r.session != "" {
		request.Header.Set(headerSession, r.session)
	}
	if r.version != "" {
		request.Header.Set(headerVersion, r.version)
	}
	r.mu.Unlock()
	response, err := r.client.Do(request)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return nil, fmt.Errorf("%w: %w", errNotSent, op.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLost, errors.Unwrap(err)) // without the address
	}
	return response, nil
}

// close ends the session on the server, too.
func (r *remote) close() {
	if r.ctx.Err() == nil && r.hasSession() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if response, err := r.send(r.ctx, http.MethodDelete, nil, 0, ""); err == nil {
				response.Body.Close() //nolint:errcheck // only read
			}
		}()
		select {
		case <-ended:
		case <-time.After(childGrace):
		}
	}
	r.cancel()
	r.client.CloseIdleConnections()
}
