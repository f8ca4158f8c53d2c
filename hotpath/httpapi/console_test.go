package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
	"spendgate/hotpath/console"
)

func startConsole(t *testing.T) (*served, *console.Links) {
	links := console.NewLinks(func(context.Context) (console.Keys, error) {
		return console.Keys{API: "the key", Admin: "the admin's"}, nil
	})
	return start(t, func(o *Options) { o.Console = console.New(links) }), links
}

func TestConsoleHeaders(t *testing.T) {
	s, _ := startConsole(t)
	for _, f := range console.New(nil).Files() {
		r := sendAt(t, s.address, "GET", f.Path, "")
		if r.status != 200 || r.header.Get("Content-Security-Policy") != console.Policy || r.header.Get("X-Content-Type-Options") != "nosniff" ||
			r.header.Get("Referrer-Policy") != "no-referrer" || r.header.Get("Content-Type") != f.ContentType {
			t.Errorf("%s: %d %v", f.Path, r.status, r.header)
		}
		head := sendAt(t, s.address, "HEAD", f.Path, "")
		if head.status != 200 || head.header.Get("Content-Type") != f.ContentType || head.body != "" {
			t.Errorf("HEAD %s: %d %v", f.Path, head.status, head.header)
		}
		if lasting := strings.Contains(r.header.Get("Cache-Control"), "immutable"); lasting != f.Lasting {
			t.Errorf("%s: %s", f.Path, r.header.Get("Cache-Control"))
		}
		sendAt(t, s.address, "GET", f.Path, "", "If-None-Match: "+r.header.Get("ETag")).is(t, f.Path, http.StatusNotModified)
	}
	for _, part := range []string{"'unsafe", "data:", "blob:", "*"} {
		if strings.Contains(console.Policy, part) {
			t.Errorf("the policy has %s", part)
		}
	}
	beside := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+"/console", http.NoBody))(t)
	r, err := http.DefaultTransport.RoundTrip(beside)
	must.Do(t, err)
	if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusPermanentRedirect || r.Header.Get("Location") != "/console/" {
		t.Errorf("/console: %d %v", r.StatusCode, err)
	}
	sendAt(t, s.address, "GET", "/console/assets/0000/main.js", "").is(t, "a file of another version", 404)
	sendAt(t, start(t, nil).address, "GET", "/console/", "").is(t, "without the console", 404)
}

func TestSignInIsLocal(t *testing.T) {
	s, links := startConsole(t)
	body := `{"code":"` + links.Make(time.Now()) + `"}`
	for header, want := range map[string]int{
		"Origin: http://evil.example": 403, "X-Forwarded-For: 127.0.0.1": 403, "Forwarded: for=127.0.0.1": 403,
	} {
		sendAt(t, s.address, "POST", "/console/sign-in", body, header).is(t, header, want)
	}
	c := s.dial() // behind the others an empty value is nil
	c.send("POST /console/sign-in HTTP/1.1\r\nHost: localhost\r\nX-1: 1\r\nX-2: 1\r\nX-3: 1\r\nX-Forwarded-For:\r\n" +
		"Content-Type: application/json\r\n" + length(body) + "\r\n" + body)
	c.receive().is(t, "by a proxy that names nobody", 403)
	named, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/console/sign-in", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	named.Host = "leads.to.loopback.example"
	named.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(named)
	must.Do(t, err)
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("by another name: %d %v", response.StatusCode, err)
	}
	sendAt(t, s.address, "POST", "/console/sign-in", `{"code":"wrong"}`).is(t, "a wrong code", 401)
	r := sendAt(t, s.address, "POST", "/console/sign-in", body)
	if r.status != 200 || !strings.Contains(r.body, "the key") || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the right one: %d %s", r.status, r.body)
	}
	sendAt(t, s.address, "POST", "/console/sign-in", body).is(t, "again", 401)
}
