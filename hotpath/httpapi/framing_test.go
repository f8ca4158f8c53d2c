package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A request with two keys may have been let pass by the other one: neither
// counts, not even the same one twice, and it is no demo (S23).
func TestTwoKeysAuthenticateNobody(t *testing.T) {
	s := start(t, nil)
	const good, wrong = "X-API-Key: " + goodKey + "\r\n", "x-api-key: svc_live_wrong\r\n"
	const admin, noAdmin = "X-Admin-Key: " + adminKey + "\r\n", "X-ADMIN-KEY: no\r\n"
	for _, keys := range []string{good + wrong, wrong + good, good + good, "X-API-Key:\r\n" + good} {
		for path, body := range map[string]string{"/v1/checks": plainCheck, "/v1/simulate": simulationOf(2), "/v1/policies": simplePolicy} {
			c := s.dial()
			c.send("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + keys + length(body) + "\r\n" + body)
			c.receive().is(t, fmt.Sprintf("%s with %q", path, keys), 401, `"code":"`+codeUnauthorized+`"`)
		}
	}
	for keys, want := range map[string]int{admin + noAdmin: 401, noAdmin + admin: 401, admin + admin: 401, admin: 201} {
		c := s.dial()
		c.send("POST /v1/keys HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + keys + length(`{"name":"n"}`) + "\r\n" +
			`{"name":"n"}`)
		c.receive().is(t, fmt.Sprintf("%q", keys), want)
	}
	if s.fake.keys != 1 || len(s.fake.checked) != 0 {
		t.Errorf("%d keys, %d checks", s.fake.keys, len(s.fake.checked))
	}
}

// Names are compared whole: what only begins like one that matters is another.
func TestHeaderNamesAreComparedWhole(t *testing.T) {
	s := start(t, nil)
	chunked := "Transfer-Encoding: chunked\r\n"
	for _, headers := range []string{
		"Transfer-Encoding-Foo: x\r\n", "Transfer-Encodin: x\r\n", "Content-Length-Foo: 7\r\n", "X-Api-Key-Id: 1\r\n",
		"X-Api-Key-Id: 1\r\nX-Admin-Key-Id: 2\r\n",
	} {
		c := s.dial()
		c.send(post(headers+length(plainCheck), plainCheck))
		c.receive().is(t, fmt.Sprintf("%q", headers), 200)
		c.send(post(headers+chunked, "0\r\n\r\n"))
		if a := c.receive(); a.status != 400 || !strings.Contains(a.body, "empty") { // it was read
			t.Errorf("%q and a chunked body: %d %s", headers, a.status, a.body)
		}
	}
}

// Lines that another server may join or part elsewhere make a request malformed,
// and end the connection.
func TestLinesThatSmuggleAreRefused(t *testing.T) {
	s := start(t, nil)
	for _, headers := range []string{
		"Content-Length:\r\n 185\r\n", "Content-Length: 1\r\n 85\r\n", "X: a\r\n b\r\n" + length(plainCheck), "X: a\r\n\tb\r\n" +
			length(plainCheck), "X:\r\n \r\n" + length(plainCheck),
		"X: a\nContent-Length: 5\r\n", length(plainCheck) + "X: a\n", "X: a\nTransfer-Encoding: chunked\r\n", "X: a\r\n\n",
		"X: a\rContent-Length: 5\r\n" + length(plainCheck), "Transfer-Encoding:\r\n chunked\r\n",
	} {
		c := s.dial()
		c.send(post(headers, plainCheck) + smuggled)
		if a := c.receive(); a.status != 400 || a.code(t) != codeBadRequest || !strings.Contains(a.body, "malformed HTTP") ||
			a.header.Get("Connection") != "close" {
			t.Errorf("%q: %d %v %s", headers, a.status, a.header, a.body)
		}
		c.closed()
	}
	if len(s.fake.checked) != 0 {
		t.Errorf("%d of them were checked", len(s.fake.checked))
	}
}

// A header whose lines end with a bare LF is refused at once, not when its end did not
// come in time; the next of some requests, too.
func TestBareLF(t *testing.T) {
	s := start(t, nil)
	for _, text := range []string{
		"GET /health HTTP/1.1\nHost: a\n\n", "GET /health HTTP/1.1\r\nHost: a\n\n", "GET /health HTTP/1.1\r\nHost: a\r\n\n",
		"GET /health HTTP/1.1\nHost: a\r\n\r\n",
		"\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n", "GET /health HTTP/1.1\n\n", post(length(plainCheck)+"X: a\n", plainCheck),
	} {
		for _, before := range []string{"", smuggled, post(length("{}\n\n"), "{}\n\n")} {
			for _, pieces := range [][]string{{before, text}, {before, text[:9], text[9:]}, {before, text[:len(text)-1], text[len(text)-1:]}} {
				c, began := s.dial(), time.Now()
				for _, piece := range pieces {
					c.send(piece)
					if before != "" && piece == before {
						c.receive()
					}
				}
				if a := c.receive(); a.status != 400 || a.code(t) != codeBadRequest || time.Since(began) > defaultReadTimeout/2 {
					t.Errorf("%q: %d %s after %v", pieces, a.status, a.body, time.Since(began))
				}
				c.closed()
			}
		}
	}
	c := s.dial()
	c.send(smuggled + "GET /health HTTP/1.1\r\nHost: a\n\n")
	if a, b := c.receive(), c.receive(); a.status != 200 || b.status != 400 {
		t.Errorf("at once: %d, %d", a.status, b.status)
	}
	c = s.dial()
	c.send(post("Transfer-Encoding: chunked\r\n", "3\r\n{\n\n\r\n"))
	time.Sleep(20 * time.Millisecond)
	c.send("1\r\n}\r\n0\r\n\r\n")
	c.receive().is(t, "a body with bare LF", 422)
}
