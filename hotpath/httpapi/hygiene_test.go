package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// raw is a connection on which requests are written byte by byte.
type raw struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (s *served) dial() *raw {
	s.t.Helper()
	c := must.Get(net.Dial("tcp", s.address))(s.t)
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return &raw{s.t, c, bufio.NewReader(c)}
}

func (c *raw) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Logf("write: %v", err) // the answer tells
	}
}

// receive reads the next answer.
func (c *raw) receive() answer {
	c.t.Helper()
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body := must.Get(io.ReadAll(response.Body))(c.t)
	if response.Close { // which takes the header out
		response.Header.Set("Connection", "close")
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// closed fails unless the service has closed the connection, with nothing more.
func (c *raw) closed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Errorf("not closed: %q, %v", rest, err)
	}
}

func post(headers, body string) string {
	return "POST /v1/checks HTTP/1.1\r\nHost: a\r\nX-API-Key: " + goodKey + "\r\nContent-Type: application/json\r\n" + headers + "\r\n" + body
}

func length(body string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(body)) }

const smuggled = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"

func TestTransferEncodingThatSmugglesIsRefused(t *testing.T) {
	s := start(t, nil)
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(plainCheck), plainCheck)
	f := func(headers, body string, status int) {
		t.Helper()
		c := s.dial()
		c.send(post(headers, body) + smuggled)
		a := c.receive()
		if a.status != status || a.code(t) != codeBadRequest || a.header.Get("Connection") != "close" {
			t.Errorf("%q: %d %v %s, want %d", headers, a.status, a.header, a.body, status)
		}
		c.closed()
	}
	te := "Transfer-Encoding: chunked\r\n"
	f(te, "ffffffffffffffffff\r\n", 400)
	f(te, "not a chunk", 400)
	f(te, strings.TrimSuffix(chunked, "\r\n")+"X-API-Key: "+goodKey+"\r\n\r\n", 400)
	f(te, strings.TrimSuffix(chunked, "\r\n")+"X-Forwarded-For: 10.0.0.1\r\n\r\n", 400)
	f(te, strings.TrimSuffix(chunked, "\r\n")+"Content-Length: 5\r\n\r\n", 400)
	f(te+length(plainCheck), chunked, 411)
	f(length(plainCheck)+te, plainCheck, 411)
	f(te+"Content-Length: 0\r\n", chunked, 411)
	f("Transfer-Encoding: identity\r\n"+length(plainCheck), plainCheck, 411)
	f("Expect: 100-continue\r\n"+length(plainCheck)+te, "", 411)
	f(te+te, chunked, 400)
	f("Transfer-Encoding: gzip, chunked\r\n", chunked, 400)
	f("Transfer-Encoding: xchunked\r\n"+length(plainCheck), plainCheck, 400)
	f(length(plainCheck)+"Content-Length: 5\r\n", plainCheck, 400)
	f(length(plainCheck)+length(plainCheck), plainCheck, 400)
	f("Content-Length: 5, 5\r\n", plainCheck, 400)
	f("Content-Length: +5\r\n", plainCheck, 400)
	f("Content-Length: -5\r\n", plainCheck, 400)
	f("Content-Length : 5\r\n", plainCheck, 400)
	f("Transfer-Encoding : chunked\r\n", chunked, 400)
	f(" folded: x\r\n"+te+length(plainCheck), chunked, 400)
	if len(s.fake.checked) != 0 {
		t.Errorf("%d of them were checked", len(s.fake.checked))
	}
	for start, status := range map[string]int{"GET /v1/violations HTTP/1.1": 411, "POST /v1/checks HTTP/1.0": 400} {
		c := s.dial()
		c.send(start + "\r\nHost: a\r\nX-API-Key: " + goodKey + "\r\n" + te + "\r\n" + chunked + smuggled)
		c.receive().is(t, start, status)
		c.closed()
	}
	// The order of S1 holds for them too.
	c := s.dial()
	c.send("POST /nowhere HTTP/1.1\r\nHost: a\r\n" + te + length(plainCheck) + "\r\n" + chunked + smuggled)
	c.receive().is(t, "unknown path", 404, `"code":"not_found"`)
	c.closed()
}

// Many clients send chunks when they do not know the length beforehand.
func TestChunkedBody(t *testing.T) {
	s := start(t, nil)
	head := post("Transfer-Encoding: chunked\r\n", "")
	whole := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(plainCheck), plainCheck)
	c := s.dial()
	c.send(head + whole)
	if a := c.receive(); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	// The next one is not confused with it, and may come byte by byte.
	c.send(head)
	for _, b := range []byte(plainCheck) {
		c.send(fmt.Sprintf("1;ext=x\r\n%c\r\n", b))
	}
	c.send("0\r\n\r\n" + smuggled)
	if a := c.receive(); a.status != 200 || len(s.fake.checked) != 2 || s.fake.checked[0].AgentID != s.fake.checked[1].AgentID {
		t.Errorf("%d %s, %d checked", a.status, a.body, len(s.fake.checked))
	}
	c.receive().is(t, "after it", 200, `"status"`)
	// Too large is said in its turn (S1).
	body := strings.Repeat("10000\r\n"+strings.Repeat(" ", 1<<16)+"\r\n", 40)
	for _, r := range []struct {
		head, limit string
		status      int
	}{
		{head, "100", 413},
		{strings.Replace(head, "/v1/checks", "/nowhere", 1), "10", 404},
		{strings.Replace(head, "POST /v1/checks", "PUT /v1/checks", 1), "10", 405},
		{strings.Replace(head, goodKey, "svc_live_wrong", 1), "10", 401},
	} {
		c := s.dial()
		go c.send(r.head + body)
		if a := c.receive(); a.status != r.status || a.header.Get("X-RateLimit-Limit") != r.limit {
			t.Errorf("%.20q and 2.5 MiB: %d %v", r.head, a.status, a.header)
		}
		c.closed()
	}
}

func TestOversize(t *testing.T) {
	s := start(t, nil)
	// The client gets to read its answer although it goes on sending.
	c := s.dial()
	body := strings.Repeat(" ", 3<<20)
	go c.send(post(length(body), body))
	if a := c.receive(); a.status != 413 || a.code(t) != codeBadRequest || a.header.Get("X-RateLimit-Limit") != "100" {
		t.Errorf("body: %d %v %s", a.status, a.header, a.body)
	}
	c.closed()

	c = s.dial()
	c.send(post("Expect: 100-continue\r\nContent-Length: 99999999999\r\n", ""))
	c.receive().is(t, "a body that was only announced", 413)
	c.closed()

	exact := plainCheck + strings.Repeat(" ", maxBody-len(plainCheck))
	s.do("POST", "/v1/checks", exact).is(t, "a body of exactly 1 MiB", 200)

	c = s.dial()
	c.send(post("X-Big: "+strings.Repeat("x", maxHeader)+"\r\n", ""))
	c.receive().is(t, "header", 431, `"code":"`+codeBadRequest+`"`)
	c.closed()
}

func TestMalformedHTTP(t *testing.T) {
	s := start(t, nil)
	for _, text := range []string{
		"nonsense\r\n\r\n", "GET\r\n\r\n", "GET /health\r\n\r\n", "GET /health HTTP/9.9x\r\n\r\n", "GET /he alth HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /health HTTP/1.1\r\n\r\n", "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET /health HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
		"GET /health HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: a\r\n\r\n",
		"GET /health HTTP/1.1\r\nHost: a\r\n:fault: size\r\n\r\n",
		"GET /health HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", "G\x00T /health HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		c := s.dial()
		c.send(text)
		c.receive().is(t, fmt.Sprintf("%q", text), 400, `"code":"`+codeBadRequest+`"`)
		c.closed()
	}
	for _, text := range []string{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"} {
		c := s.dial()
		c.send(text)
		c.receive().is(t, fmt.Sprintf("%q", text), 404, `"code":"not_found"`)
	}
	if logged := s.logged.String(); strings.Contains(logged, "nonsense") {
		t.Errorf("the log repeats what was sent: %s", logged)
	}
}

func TestPipeliningKeepsTheOrder(t *testing.T) {
	s := start(t, nil)
	c := s.dial()
	c.send(post(length(plainCheck), plainCheck) + "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n" +
		"GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + post(length("{"), "{") + smuggled)
	ids := map[string]bool{}
	for i, want := range []int{200, 404, 200, 400, 200} {
		a := c.receive()
		if a.status != want {
			t.Errorf("answer %d is %d, want %d", i, a.status, want)
		}
		ids[a.header.Get("X-Request-ID")] = true
	}
	if len(ids) != 5 {
		t.Errorf("request ids repeat: %v", ids)
	}
}

func TestExpectContinue(t *testing.T) {
	s := start(t, nil)
	c := s.dial()
	c.send(post("Expect: 100-continue\r\n"+length(plainCheck), ""))
	if line, _ := c.r.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("first line %q", line)
	}
	_, _ = c.r.ReadString('\n')
	c.send(plainCheck)
	c.receive().is(t, "", 200)
}

// S20: the time of a request begins with its first byte, not with the
// connection, nor with its last byte.
func TestStartedIsTheFirstByte(t *testing.T) {
	s := start(t, nil)
	c := s.dial()
	pause := 100 * time.Millisecond
	for round, tries := 0, 0; round < 2; tries++ {
		time.Sleep(pause) // an idle connection is no request
		before := time.Now()
		text := post(length(plainCheck), plainCheck)
		c.send(text[:10])
		time.Sleep(pause)
		rest := time.Now()
		c.send(text[10:])
		if a := c.receive(); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		started := s.fake.requests[tries].Started
		if started.After(rest) && tries < 4 {
			pause *= 2 // a busy machine may have shown the service the first bytes with the rest
			continue
		}
		if started.Before(before) || started.After(rest) {
			t.Errorf("round %d: started %v after the first byte was sent, the rest %v", round, started.Sub(before), rest.Sub(before))
		}
		round++
	}
}

func TestActionsOwnTheirBytes(t *testing.T) {
	s := start(t, nil)
	c := s.dial()
	for i := range 20 {
		body := strings.Replace(plainCheck, "agent-support-7", fmt.Sprintf("agent-%09d", i), 1)
		c.send(post(length(body), body))
		if a := c.receive(); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	want := spend.Action{
		PolicyID: "refunds-eu", Counterparty: "customer-48213", IdempotencyKey: "order-99-refund-1", PaymentMethod: "card", Currency: "EUR",
	}
	for i, a := range s.fake.checked {
		if a.AgentID != fmt.Sprintf("agent-%09d", i) || a.PolicyID != want.PolicyID || a.Counterparty != want.Counterparty ||
			a.IdempotencyKey != want.IdempotencyKey || a.PaymentMethod != want.PaymentMethod || a.Currency != want.Currency ||
			!strings.HasSuffix(a.Metadata.JSON, `"order_id":"A-9912"}`) {
			t.Errorf("action %d has changed: %+v", i, a)
		}
	}
}
