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
	// freeBody is the size up to which each connection may hold a body uncounted. Almost all checks
	// are smaller.
	freeBody = 4 << 10
	// strangersBodies is the total size of larger bodies of callers whose key this node does not know.
	strangersBodies = 4 << 20
)

// byteLimit bounds the bytes of bodies that are received or processed. A body counts with the size
// that its header declares, before its first byte has arrived.
type byteLimit struct {
	most int64
	held atomic.Int64
}

// take reserves n bytes, and reports whether so many were left.
func (b *byteLimit) take(n int) bool {
	if b.held.Add(int64(n)) <= b.most {
		return true
	}
	b.release(n)
	return false
}

func (b *byteLimit) release(n int) { b.held.Add(-int64(n)) }

// receive reads the body of a request as it arrives, into memory that grows with it. After any failure
// the rest of the body is still unread.
func (a *API) receive(x *exchange) error {
	x.body = x.body[:0]
	stream := x.ctx.RequestBodyStream()
	if stream == nil {
		x.body = append(x.body, x.ctx.Request.Body()...) // none, or in a test
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
			return errTrailers // trailers could add headers that a proxy did not see
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
		if a.Authorizer.Knows(x.sender()) {
			x.counted = &a.bodies
		}
	}
	if !x.counted.take(n - x.held) {
		return false
	}
	x.held = n
	return true
}

// release gives back the bytes that were reserved for the body of a request, and ends its reads.
func (x *exchange) release() {
	if x.endReading != nil {
		x.endReading()
	}
	if x.counted != nil {
		x.counted.release(x.held)
	}
	if cap(x.body) > 2*freeBody {
		x.body = nil
	}
}

// faultMark marks a request whose body must not be read, with the reason. No client can send the mark:
// a header's name never begins with a colon.
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
		// A body is accepted only if no two servers can disagree about its end: chunked alone, without
		// a Content-Length, and where a body is usual.
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

// headerFault returns the fault that inspectHeader found.
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

// fields has the parts of a raw header that fasthttp does not report.
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
