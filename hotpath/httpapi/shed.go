package httpapi

import (
	"bytes"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"spendgate/ratelimit"
)

// checkLine is what a check begins with.
var checkLine = []byte("POST /v1/checks HTTP/1.1\r\n")

// sheds reports whether a whole request is a check that is to be refused for
// overload before fasthttp parses it, when there is nothing to spare (G9).
func (a *API) sheds(c *conn, request []byte) bool {
	return bytes.HasPrefix(request, checkLine) && !c.excess && !a.draining.Load() && a.full()
}

// shed answers such a check as serve would.
func (a *API) shed(c *conn) error {
	x := exchanges.Get().(*exchange)
	x.takeID()
	now := time.Now()
	body := appendError(x.out[:0], overloaded, x.id, now)
	out := append(body, "HTTP/1.1 500 Internal Server Error\r\nServer: "...)
	out = append(out, a.server.Name...)
	out = append(out, "\r\nDate: "...)
	out = fasthttp.AppendHTTPDate(out, now)
	out = append(out, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(len(body)), 10)
	out = append(out, "\r\nRetry-After: 1\r\nX-Request-ID: "...)
	out = append(out, x.id...)
	q := ratelimit.Unspent(ratelimit.DemoLimit, now)
	out = append(out, "\r\nX-RateLimit-Limit: "...)
	out = strconv.AppendInt(out, int64(q.Limit), 10)
	out = append(out, "\r\nX-RateLimit-Remaining: "...)
	out = strconv.AppendInt(out, int64(q.Remaining), 10)
	out = append(out, "\r\nX-RateLimit-Reset: "...)
	out = strconv.AppendInt(out, q.ResetUnix(), 10)
	out = append(out, "\r\n\r\n"...)
	out = append(out, body...)
	_, err := c.Write(out[len(body):])
	a.check.counters[5].Inc()
	a.metrics.checks.Observe(time.Since(c.first).Seconds())
	a.logOverload()
	*x = exchange{out: out[:0], ids: x.ids}
	exchanges.Put(x)
	c.first = time.Time{}
	c.allow(c.server.IdleTimeout)
	return err
}

// isWhole reports whether p is one request, all of it and nothing else, that
// nobody could end elsewhere: its lines end with CRLF and none is continued, its
// body is as long as the one Content-Length says, and only POST has a body.
func isWhole(p []byte) bool {
	head, body, ended := bytes.Cut(p, endOfHeader)
	line, headers, _ := bytes.Cut(head, endOfLine)
	if !ended || !bytes.HasSuffix(line, []byte(" HTTP/1.1")) || bytes.IndexByte(line, '\n') >= 0 {
		return false
	}
	length := -1
	for len(headers) > 0 {
		line, headers, _ = bytes.Cut(headers, endOfLine)
		name, value, named := bytes.Cut(line, []byte(":"))
		if !named || len(name) == 0 || bytes.ContainsAny(name, " \t") || bytes.IndexByte(line, '\n') >= 0 {
			return false
		}
		switch value = bytes.Trim(value, " \t"); name[0] | 0x20 {
		case 'c':
			if bytes.EqualFold(name, []byte("Connection")) && !bytes.EqualFold(value, []byte("keep-alive")) {
				return false
			}
			if bytes.EqualFold(name, contentLength) {
				n, err := strconv.ParseUint(string(value), 10, 31) // digits only
				if err != nil || length >= 0 {
					return false
				}
				length = int(n)
			}
		case 'e', 't', 'u':
			if bytes.EqualFold(name, []byte("Expect")) || bytes.EqualFold(name, transferEncoding) || bytes.EqualFold(name, []byte("Upgrade")) {
				return false
			}
		}
	}
	return len(body) == max(length, 0) && (length < 0 || bytes.HasPrefix(p, []byte("POST ")))
}

var (
	endOfLine   = []byte("\r\n")
	endOfHeader = []byte("\r\n\r\n")
)
