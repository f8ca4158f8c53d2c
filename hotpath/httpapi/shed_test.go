package httpapi

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valyala/fasthttp"

	"spendgate/hotpath/trace"
)

// requestOf is a request as clients send it.
func requestOf(line, body string, headers ...string) string {
	return fmt.Sprintf("%s HTTP/1.1\r\nHost: h\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		line, goodKey, len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

func dial(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c, bufio.NewReader(c)
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, r *bufio.Reader) (head string, status int, body string) {
	t.Helper()
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	_ = response.Header.Write(&b)
	return response.Proto + " " + response.Status + "\n" + b.String(), response.StatusCode, string(text)
}

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
		c, r := dial(t, s.address)
		for range 3 {
			send(t, c, requestOf("POST /v1/checks", plainCheck))
			head, _, body := receive(t, r)
			answers[i] = changing.ReplaceAllString(head+body, "*")
			if n := len(changing.FindAllString(head+body, -1)); n != 5 {
				t.Errorf("%d of the 5 that differ: %s%s", n, head, body)
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
	check := requestOf("POST /v1/checks", plainCheck)
	smuggled := requestOf("POST /v1/checks", check)
	header := strings.TrimSuffix(smuggled, check)
	if header == smuggled {
		t.Fatal("no body")
	}
	full.Store(true)
	for name, segments := range map[string][]string{
		"header, body":                     {header, check},
		"request with a header, body":      {check + header, check},
		"halves":                           {check[:40], check[40:]},
		"100 Continue":                     {strings.TrimSuffix(requestOf("POST /v1/checks", check, "Expect: 100-continue"), check), check},
		"large answer and header, body":    {"GET /openapi.yaml HTTP/1.1\r\nHost: h\r\n\r\n" + header, check},
		"another request and header, body": {"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n" + header, check},
	} {
		t.Run(name, func(t *testing.T) {
			c, r := dial(t, s.address)
			for _, segment := range segments {
				send(t, c, segment)
				time.Sleep(20 * time.Millisecond) // a segment of its own
			}
			want := 1
			if strings.Contains(segments[0], "GET") || strings.HasPrefix(segments[0], check) {
				want = 2
			}
			// What is asked next is answered next.
			send(t, c, "GET /v1/keys HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			for got := 0; ; {
				switch _, status, _ := receive(t, r); status {
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
	c, r := dial(t, s.address)
	send(t, c, requestOf("POST /v1/checks", plainCheck))
	if _, status, body := receive(t, r); status != fasthttp.StatusInternalServerError {
		t.Errorf("%d %s", status, body)
	}
	time.Sleep(20 * time.Millisecond)
	full.Store(false)
	sent := time.Now()
	send(t, c, requestOf("POST /v1/checks", plainCheck))
	if _, status, body := receive(t, r); status != fasthttp.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if started := s.fake.requests[0].Started; started.Before(sent) {
		t.Errorf("the check counts as begun %v before it was sent", sent.Sub(started))
	}
}

func TestIsWhole(t *testing.T) {
	for text, want := range map[string]bool{
		requestOf("POST /v1/checks", plainCheck):                                     true,
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
		requestOf("POST /v1/checks", plainCheck), "GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab",
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
