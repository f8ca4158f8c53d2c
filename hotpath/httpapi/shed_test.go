package httpapi

import (
	"bufio"
	"bytes"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valyala/fasthttp"

	"spendgate/hotpath/trace"
)

// checkRequest is a check as clients send it.
func checkRequest(headers, body string) string { return post(length(body)+headers, body) }

// G9: a check that is refused before it is parsed gets the answer that it would
// get after, is counted like it, and the connection goes on.
func TestShedLikeServed(t *testing.T) {
	full := func() bool { return true }
	parsed := start(t, func(o *Options) {
		o.Full, o.Trace = full, func(*trace.Record) trace.ID { return trace.ID{} }
	})
	shed := start(t, func(o *Options) { o.Full = full })
	shed.api.router = nil // nothing of this gets there
	changing := regexp.MustCompile(`req_[0-9a-f]{12}|Date: [^\r\n]*|X-Ratelimit-Reset: \d+|[0-9T:.-]{23}Z`)
	var answers [2]string
	for i, s := range []*served{parsed, shed} {
		c := s.dial()
		for range 3 {
			c.send(checkRequest("", plainCheck))
			line, err := c.r.Peek(len("HTTP/1.1 500 Internal Server Error"))
			if err != nil {
				t.Fatal(err)
			}
			text := bytes.NewBuffer(append(bytes.Clone(line), '\n'))
			a := c.receive()
			_ = a.header.Write(text)
			text.WriteString(a.body)
			answers[i] = changing.ReplaceAllString(text.String(), "*")
			if n := len(changing.FindAllString(text.String(), -1)); n != 5 {
				t.Errorf("%d of the 5 that differ: %s", n, text)
			}
		}
		if n := testutil.ToFloat64(s.api.check.counters[5]); n != 3 {
			t.Errorf("%v answers are counted", n)
		}
	}
	if answers[0] != answers[1] {
		t.Errorf("parsed\n%s\nshed\n%s", answers[0], answers[1])
	}
}

// However requests are cut into segments, what looks like a check within
// another one's body is not answered.
func TestShedNotWithinARequest(t *testing.T) {
	var full atomic.Bool
	s := start(t, func(o *Options) { o.Full = full.Load })
	check := checkRequest("", plainCheck)
	within := checkRequest("", check)
	header := strings.TrimSuffix(within, check)
	if header == within {
		t.Fatal("no body")
	}
	full.Store(true)
	for name, segments := range map[string][]string{
		"header, body":                     {header, check},
		"request with a header, body":      {check + header, check},
		"halves":                           {check[:40], check[40:]},
		"100 Continue":                     {strings.TrimSuffix(checkRequest("Expect: 100-continue\r\n", check), check), check},
		"large answer and header, body":    {"GET /openapi.yaml HTTP/1.1\r\nHost: h\r\n\r\n" + header, check},
		"another request and header, body": {"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n" + header, check},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.dial()
			c.t = t
			for _, segment := range segments {
				c.send(segment)
				time.Sleep(20 * time.Millisecond) // a segment of its own
			}
			want := 1
			if strings.Contains(segments[0], "GET") || strings.HasPrefix(segments[0], check) {
				want = 2
			}
			// What is asked next is answered next.
			c.send("GET /v1/keys HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			for got := 0; ; {
				switch c.receive().status {
				case fasthttp.StatusContinue:
				case fasthttp.StatusUnauthorized:
					if got != want {
						t.Errorf("%d answers, want %d", got, want)
					}
					return
				default:
					got++
				}
			}
		})
	}
}

// After refusals that fasthttp never saw a check on the same connection is served,
// and its time counts from its own first byte (S20).
func TestServedAfterShed(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	s := start(t, func(o *Options) { o.Full = full.Load })
	c := s.dial()
	c.send(checkRequest("", plainCheck))
	if a := c.receive(); a.status != fasthttp.StatusInternalServerError {
		t.Errorf("%d %s", a.status, a.body)
	}
	time.Sleep(20 * time.Millisecond)
	full.Store(false)
	sent := time.Now()
	c.send(checkRequest("", plainCheck))
	if a := c.receive(); a.status != fasthttp.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if started := s.fake.requests[0].Started; started.Before(sent) {
		t.Errorf("the check counts as begun %v before it was sent", sent.Sub(started))
	}
}

func TestIsWhole(t *testing.T) {
	for text, want := range map[string]bool{
		checkRequest("", plainCheck):                                                 true,
		"GET /health HTTP/1.1\r\nHost: h\r\n\r\n":                                    true,
		"POST / HTTP/1.1\r\ncontent-length:\t2 \r\nconnection: Keep-Alive\r\n\r\nab": true,
		"": false,
		"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\na":                                       false,
		"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabc":                                     false,
		"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab":                 false,
		"POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\nab":                                     false,
		"POST / HTTP/1.1\r\nContent-Length: \r\n\r\n":                                         false,
		"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n":                     false,
		"POST / HTTP/1.1\r\nContent-Length : 2\r\n\r\nab":                                     false,
		"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": false,
		"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nab":              false,
		"POST / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n":                                             false,
		"POST / HTTP/1.1\r\nConnection: close\r\n\r\n":                                        false,
		"POST / HTTP/1.1\r\nA: b\r\n c: d\r\n\r\n":                                            false,
		"POST / HTTP/1.1\r\nA: b\nContent-Length: 2\r\n\r\nab":                                false,
		"POST / HTTP/1.1\nA: b\r\n\r\n":                                                       false,
		"GET / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab":                                       false,
		"POST / HTTP/1.0\r\n\r\n":                                                             false,
		"\r\nPOST / HTTP/1.1\r\n\r\n":                                                         false,
	} {
		if isWhole([]byte(text)) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}

// FuzzIsWhole: what is taken for one whole request, fasthttp reads whole, or
// refuses, which ends the connection.
func FuzzIsWhole(f *testing.F) {
	for _, p := range []string{
		checkRequest("", plainCheck), "GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab",
		"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "GET / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab",
		"POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\nab", "POST / HTTP/1.1\r\nContent-Length : 2\r\n\r\nab", "POST / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST / HTTP/1.1\nA: b\r\n\r\n", "POST / HTTP/1.1\r\nA: b\nContent-Length: 3\r\n\r\n",
		"\r\nPOST / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nx", "PUT / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
	} {
		f.Add([]byte(p))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if !isWhole(p) {
			return
		}
		r := bufio.NewReaderSize(bytes.NewReader(p), maxHeader)
		var request fasthttp.Request
		if err := request.ReadLimitBody(r, maxBody); err == nil && r.Buffered() != 0 {
			t.Fatalf("%q leaves %d bytes", p, r.Buffered())
		}
	})
}
