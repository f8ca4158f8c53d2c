package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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

// remote is the HTTP transport of a connection to a server.
type remote struct {
	l    *link
	base http.RoundTripper
}

// newRemote returns the transport to a server over HTTP.
func newRemote(l *link) *mcp.StreamableClientTransport {
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
	}
	// A redirect would take the headers, with their secrets, to another address.
	stays := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &mcp.StreamableClientTransport{
		Endpoint: l.u.URL, HTTPClient: &http.Client{Transport: &remote{l, base}, CheckRedirect: stays},
		MaxEventSize: maxServerMessage,
	}
}

// RoundTrip adds the headers of the file to a request, and watches whether it is sent. What is wrong with the answer to a call is an
// error of that call alone: for the SDK it would be the end of the connection, and every other call over it would be in doubt.
func (t *remote) RoundTrip(r *http.Request) (*http.Response, error) {
	call, watching := callIn(r)
	r = r.Clone(r.Context())
	for name, v := range t.l.u.Headers {
		r.Header.Set(name, v.now())
	}
	if watching != nil {
		r.Body, r.GetBody = &body{r.Body, watching}, nil // with GetBody, it could be sent twice
	}
	if r.Method == http.MethodGet && (r.Header.Get(headerLastEvent) == "" || strings.HasPrefix(r.Header.Get(headerLastEvent), ownEvent)) {
		return t.listen(r)
	}
	response, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	in := response.Body
	switch {
	case response.StatusCode/100 == 2 && t.readEvents(response, ""):
	case call.IsValid():
		text, err := io.ReadAll(http.MaxBytesReader(nil, in, maxServerMessage))
		_ = in.Close() // only read
		a, ok := readable(text).(*jsonrpc.Response)
		if err != nil || !ok || a.ID != call {
			code := int64(codeUnavailable)
			if lost := response.StatusCode; r.Header.Get(headerSession) != "" && (lost == http.StatusNotFound || lost == http.StatusBadRequest) {
				code = codeLost
			}
			a = noAnswer(call, code, "something else, with the HTTP status "+response.Status)
		}
		response.Header.Set("Content-Type", "application/json")
		response.StatusCode, response.Body = http.StatusOK, io.NopCloser(bytes.NewReader(written(a)))
	case r.Method == http.MethodPost: // a notification, or an answer to the server
		response.StatusCode = http.StatusAccepted
	}
	return response, nil
}

// listen asks for the stream of messages that belong to no call. For the SDK its end, several times, would be that of the connection.
func (t *remote) listen(r *http.Request) (*http.Response, error) {
	again := r.Header.Get(headerLastEvent) != ""
	r.Header.Del(headerLastEvent)
	response, err := t.base.RoundTrip(r)
	if again && r.Context().Err() == nil && (err != nil || response.StatusCode >= http.StatusInternalServerError) {
		response, err = &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {typeEvents}}, Body: http.NoBody}, nil
	}
	if err == nil { // what follows the last event makes that the next request for the stream is not a repeated failure
		t.readEvents(response, fmt.Sprintf("id: %s%d\n\n", ownEvent, time.Now().UnixNano()))
	}
	return response, err
}

const (
	headerLastEvent = "Last-Event-ID"
	ownEvent        = "gateway-"
	typeEvents      = "text/event-stream"
)

// events are those of a stream, without what is no message: for the SDK that would be the end of the connection.
type events struct {
	in *bufio.Reader
	io.Closer
	rest []byte // of the event that is being read
	last string // follows the last event
	over bool

	arrived func(jsonrpc.Message)
}

// readEvents has the events of a response read, if it has any. last follows them.
func (t *remote) readEvents(r *http.Response, last string) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == typeEvents {
		r.Body = &events{in: bufio.NewReader(r.Body), Closer: r.Body, last: last, arrived: t.l.arrived}
	}
	return kind == typeEvents
}

// Read implements io.Reader.
func (e *events) Read(to []byte) (int, error) {
	if len(e.rest) == 0 && e.over {
		return 0, io.EOF
	}
	if len(e.rest) == 0 {
		e.rest = e.next()
	}
	n := copy(to, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// next returns the next event, its data in one line.
func (e *events) next() (event []byte) {
	var data []byte
	for {
		line, err := readLine(e.in)
		if e.over = err != nil || len(data)+len(event) > maxServerMessage; e.over || len(line) == 0 {
			break
		}
		switch field, value, _ := bytes.Cut(line, []byte(":")); string(field) {
		case "data":
			data = append(append(data, value...), '\n')
		case "event", "id", "retry":
			event = append(append(event, line...), '\n')
		}
	}
	if m := readable(bytes.TrimSpace(data)); m != nil {
		e.arrived(m)
		event = append(append(event, "data: "...), written(m)...)
	}
	if event = append(event, "\n\n"...); e.over {
		event = append(event, e.last...)
	}
	return event
}

// callIn returns the identifier of the call in a request, which is not valid if there is none, and what watches the call.
func callIn(r *http.Request) (id jsonrpc.ID, watching *sending) {
	if r.GetBody != nil {
		body, _ := r.GetBody() // of memory: it does not fail
		text, _ := io.ReadAll(body)
		m, _ := jsonrpc.DecodeMessage(text)
		if call, ok := m.(*jsonrpc.Request); ok {
			id, watching = call.ID, watched(r.Context(), m)
		}
	}
	return id, watching
}
