package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

const (
	maxBody = 1 << 20 // S4
	// freeBody is as much of a body as each connection may hold uncounted. Almost
	// all checks are smaller.
	freeBody = 4 << 10
	// strangersBodies is what is left to the larger bodies of callers whose key
	// this node does not know, all of them together.
	strangersBodies = 4 << 20
)

// byteLimit bounds the bytes of bodies that are received or worked on. A body
// counts as what its header declares, before the first byte of it has arrived.
type byteLimit struct {
	most int64
	held atomic.Int64
}

// take reports whether there were n bytes left, and holds them.
func (b *byteLimit) take(n int) bool {
	if b.held.Add(int64(n)) <= b.most {
		return true
	}
	b.release(n)
	return false
}

func (b *byteLimit) release(n int) { b.held.Add(-int64(n)) }

// receive reads the body of a request as it arrives, into memory that grows with
// it. Whatever it fails with, the rest of the body is still to come.
func (a *API) receive(x *exchange) error {
	x.body = x.body[:0]
	stream := x.ctx.RequestBodyStream()
	if stream == nil {
		x.body = append(x.body, x.ctx.Request.Body()...) // none, or not from the wire
		return nil
	}
	h := &x.ctx.Request.Header
	size := h.ContentLength()
	chunked := size < 0
	headers := 0
	switch {
	case chunked:
		size, headers = maxBody+1, h.Len()
	case size > freeBody && !a.hold(x, size):
		return overloaded
	}
	for {
		if len(x.body) == cap(x.body) {
			x.body = slices.Grow(x.body, min(max(len(x.body), freeBody), size-len(x.body)))
		}
		n, err := stream.Read(x.body[len(x.body):min(cap(x.body), size)])
		x.body = x.body[:len(x.body)+n]
		switch {
		case len(x.body) > maxBody:
			return errBodyTooLarge
		case chunked && len(x.body) > max(freeBody, x.held) && !a.hold(x, min(2*len(x.body), maxBody)):
			return overloaded
		case errors.Is(err, io.EOF) && chunked && h.Len() > headers:
			return errTrailers // they could add headers behind the back of a proxy
		case errors.Is(err, io.EOF):
			return nil
		case isTimeout(err):
			return errSlowClient
		case err != nil:
			return errBadHTTP
		}
	}
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// hold counts the body of a request as n bytes, if there is room for them.
func (a *API) hold(x *exchange, n int) bool {
	if x.counted == nil {
		x.counted = &a.strangers
		if a.authorizer.Knows(x.sender()) {
			x.counted = &a.bodies
		}
	}
	if !x.counted.take(n - x.held) {
		return false
	}
	x.held = n
	return true
}

// release returns back what the body of a request was counted as.
func (x *exchange) release() {
	if x.counted != nil {
		x.counted.release(x.held)
	}
	if cap(x.body) > 2*freeBody {
		x.body = nil
	}
}

// faultMark marks a request whose body must not be read, with why. No client can
// send the mark: a header's name never begins with a colon.
var faultMark = []byte(":fault")

var (
	markLines  = []byte("lines")
	markCoding = []byte("coding")
	markSize   = []byte("size")
)

// inspectHeader is called once a header has been read, before the body. It keeps
// fasthttp from reading, and from inviting, a body that is refused.
func (a *API) inspectHeader(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	const chunked = -1
	f := fieldsOf(h.RawHeaders())
	if f.apiKeys > 1 {
		spoil(h, headerAPIKey)
	}
	if f.adminKeys > 1 {
		spoil(h, headerAdminKey)
	}
	var mark []byte
	switch {
	case f.malformed:
		mark = markLines
	case f.coded && (f.sized || h.ContentLength() != chunked || h.IsGet() || h.IsHead()):
		// Only a body whose end no two servers can see differently is taken: just
		// chunked, without a Content-Length beside it, where a body is usual.
		mark = markCoding
	case h.ContentLength() > maxBody:
		mark = markSize
	default:
		return fasthttp.RequestConfig{}
	}
	h.SetContentLength(0)
	h.Del(fasthttp.HeaderExpect)
	h.SetCanonical(faultMark, mark)
	return fasthttp.RequestConfig{}
}

// spoil makes an empty header of one that was sent more than once: of two keys
// another server may have looked at the other one, so neither authenticates.
func spoil(h *fasthttp.RequestHeader, name []byte) {
	h.DelBytes(name)
	h.SetCanonical(name, nil)
}

// headerFault returns what inspectHeader found.
func headerFault(h *fasthttp.RequestHeader) error {
	switch string(h.PeekCanonical(faultMark)) {
	case "":
		return nil
	case string(markLines):
		return errBadHTTP
	case string(markCoding):
		return errLengthRequired
	default:
		return errBodyTooLarge
	}
}

// fields is what a raw header has that fasthttp does not tell.
type fields struct {
	malformed          bool // a line is continued, or does not end with CRLF
	coded              bool // Transfer-Encoding, whatever it says
	sized              bool // Content-Length
	apiKeys, adminKeys int
}

func fieldsOf(raw []byte) (f fields) {
	for len(raw) > 0 {
		end := bytes.IndexByte(raw, '\n')
		if end < 1 || raw[end-1] != '\r' || raw[0] == ' ' || raw[0] == '\t' {
			f.malformed = true
			return f
		}
		colon := max(bytes.IndexByte(raw[:end], ':'), 0)
		switch name := raw[:colon]; {
		case isName(name, transferEncoding):
			f.coded = true
		case isName(name, contentLength):
			f.sized = true
		case isName(name, headerAPIKey):
			f.apiKeys++
		case isName(name, headerAdminKey):
			f.adminKeys++
		}
		raw = raw[end+1:]
	}
	return f
}

// isName compares names of headers. Most differ in length.
func isName(sent, name []byte) bool { return len(sent) == len(name) && bytes.EqualFold(sent, name) }

var (
	transferEncoding = []byte("Transfer-Encoding")
	contentLength    = []byte("Content-Length")
)
