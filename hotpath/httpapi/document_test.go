package httpapi

import (
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"
)

// The documents are sent compressed to who takes that, and not again to who has them.
func TestDocuments(t *testing.T) {
	s := start(t, nil)
	for path, want := range map[string][]byte{"/openapi.yaml": openAPI, "/openapi.json": openAPIJSON()} {
		tags := make(map[string]bool)
		for accepted, zipped := range map[string]bool{
			"": false, "identity": false, "gzip;q=0": false, "gzip; q=0.0, *": false, "br": false, "*;q=0": false, "gzip;q=x": false,
			"gzip": true, "br, GZIP;q=0.5": true, "deflate, *": true,
		} {
			send := s.do
			if zipped { // which the document does not describe
				send = func(method, path, body string, headers ...string) answer {
					return sendAt(t, s.address, method, path, body, headers...)
				}
			}
			a := send("GET", path, "", "Accept-Encoding: "+accepted, "If-None-Match: \"x\"")
			got := a.body
			if zipped {
				r, err := gzip.NewReader(strings.NewReader(a.body))
				if err != nil {
					t.Fatalf("%s, %s: %v", path, accepted, err)
				}
				text, _ := io.ReadAll(r)
				got = string(text)
			}
			if a.status != 200 || got != string(want) || (a.header.Get("Content-Encoding") == "gzip") != zipped ||
				a.header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s, %s: %d %v", path, accepted, a.status, a.header)
			}
			tag := a.header.Get("ETag")
			tags[tag] = true
			for _, asked := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
				if a := s.do("GET", path, "", "Accept-Encoding: "+accepted, "If-None-Match: "+asked); a.status != 304 || a.body != "" ||
					a.header.Get("ETag") != tag {
					t.Errorf("%s, %s, If-None-Match %s: %d %v", path, accepted, asked, a.status, a.header)
				}
			}
		}
		if len(tags) != 2 {
			t.Errorf("%s has the tags %v", path, tags)
		}
	}
}

// A client that asks for documents faster than it takes them gets one after the other, and other
// clients are served meanwhile.
func TestPipelinedDocuments(t *testing.T) {
	s := start(t, nil)
	c, began := s.dial(), time.Now()
	c.send(strings.Repeat("GET /openapi.yaml HTTP/1.1\r\nHost: a\r\n\r\n", 4) + smuggled)
	for range 4 {
		if a := c.receive(); a.status != 200 || a.body != string(openAPI) {
			t.Fatalf("%d", a.status)
		}
	}
	if took := time.Since(began); c.receive().status != 200 || took < 3*pipelinedEvery {
		t.Errorf("after %v", took)
	}
}
