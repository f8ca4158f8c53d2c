package httpapi

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// Bodies are taken as they come: a compressed one is no JSON, so that a small
// one cannot become a large one here.
func TestCompressedBodiesAreNotDecoded(t *testing.T) {
	s := start(t, nil)
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	must.Get(w.Write(bytes.Repeat([]byte(" "), 10*maxBody)))(t)
	must.Do(t, w.Close())
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "identity, gzip"} {
		a := s.do("POST", "/v1/checks", bomb.String(), "Content-Encoding: "+coding)
		if a.status != http.StatusBadRequest || a.code(t) != codeBadRequest {
			t.Errorf("%s: %d %s", coding, a.status, a.body)
		}
	}
	if a := s.do("POST", "/v1/checks", plainCheck, "Accept-Encoding: gzip"); a.header.Get("Content-Encoding") != "" {
		t.Errorf("an answer is compressed: %v", a.header)
	}
}

// Nothing that a client sends begins a line of the log or a header of its own.
func TestNothingIsInjected(t *testing.T) {
	s := start(t, nil)
	const mark = "INJECTED"
	for _, path := range []string{
		"/x%0d%0aSet-Cookie:%20" + mark, "/x%0alevel=ERROR%20msg=" + mark, "/v1/checks/%0d%0a" + mark, "/v1/policies/%00%1b[31m" + mark,
		"/v1/violations?agent_id=%0d%0aX-" + mark + ":1&cursor=%0a" + mark, "/x\u2028" + mark,
	} {
		c := s.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\nX-API-Key: " + goodKey + "\r\nX-Request-ID: mine\r\n\r\n")
		a := c.receive()
		for name, values := range a.header {
			if strings.Contains(name+strings.Join(values, ""), mark) || a.header.Get("X-Request-ID") == "mine" {
				t.Errorf("%s: header %s: %q", path, name, values)
			}
		}
	}
	for _, field := range []string{`"agent_id":"a\r\nlevel=ERROR msg=` + mark + `"`, `"` + mark + `\n\u001b[31m":1`} {
		s.do("POST", "/v1/checks", "{"+field+"}", "X-Forwarded-For: 1.2.3.4\t"+mark)
	}
	for line := range strings.Lines(s.logged.String()) {
		if !strings.HasPrefix(line, "time=") || strings.ContainsAny(line, "\r\x1b\u2028") || strings.Contains(line, "?") {
			t.Errorf("a line of the log: %q", line)
		}
	}
}

// A client finds its own name for a request in the log, if it is fit for one.
func TestClientsRequestIDIsLogged(t *testing.T) {
	s := start(t, nil)
	long := strings.Repeat("x", 129)
	for id, logged := range map[string]bool{
		"Job-7_retry.2": true, long[:128]: true, long: false, "a b": false, "a=b": false, "caf\u00e9": false, `a"b`: false, "": false,
	} {
		before := len(s.logged.String())
		s.do("GET", "/nowhere", "", "X-Request-ID: "+id)
		line := s.logged.String()[before:]
		if strings.Contains(line, "client_request_id="+id+"\n") != logged || strings.Contains(line, "client_request_id") != logged {
			t.Errorf("%q: %s", id, line)
		}
	}
}
