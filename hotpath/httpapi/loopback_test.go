package httpapi

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// A command line takes over the session for which a browser signed in, once; nobody else can, and
// the browser has no session (S78).
func TestSignInFromTheCommandLine(t *testing.T) {
	p := startPeople(t)
	verifier := "a-verifier-that-nobody-else-has"
	proof := sha256.Sum256([]byte(verifier))
	begin := "/console/sign-in?port=4567&challenge=" + b64(proof[:])
	challenge := "challenge=" + b64(proof[:])
	for _, wrong := range []string{
		"?port=4567", "?" + challenge, "?port=0&" + challenge, "?port=65536&" + challenge, "?port=1&challenge=abc",
	} {
		p.browser().send("GET", "/console/sign-in"+wrong, "").is(t, wrong, 400)
	}
	handOver := func() (*browser, string) {
		t.Helper()
		b := p.browser()
		page := b.send("GET", begin, "")
		link := regexp.MustCompile(`<a href="([^"]+)">Sign in</a>`).FindStringSubmatch(page.body)
		if page.status != 200 || link == nil || !regexp.MustCompile(`<b>[A-Z2-7]{4}(-[A-Z2-7]{4}){2}</b>`).MatchString(page.body) {
			t.Fatalf("the page is %d %s", page.status, page.body)
		}
		back := b.idp.authorize(strings.ReplaceAll(link[1], "&amp;", "&"))
		a := b.send("GET", strings.TrimPrefix(back, b.origin), "")
		to, err := url.Parse(a.header.Get("Location"))
		if err != nil || a.status != http.StatusSeeOther || to.Host != "127.0.0.1:4567" || to.Path != "/" || b.cookies[sessionCookie] != "" ||
			to.Query().Get("state") != b64(proof[:]) {
			t.Fatalf("handed over: %d %v %v", a.status, a.header, b.cookies)
		}
		return b, to.Query().Get("code")
	}
	take := func(code, verifier string) answer {
		return p.browser().send("POST", "/console/take-over", fmt.Sprintf(`{"code":%q,"verifier":%q}`, code, verifier))
	}
	_, code := handOver()
	for name, a := range map[string]answer{
		"another verifier": take(code, verifier+"x"), "none": take(code, ""),
		"another code": take("x"+code, verifier), "no code": take("AA", verifier),
		"a code that was changed": take(code[:len(code)-3]+"AAA", verifier),
	} {
		if a.status != 400 && a.status != 422 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	a := take(code, verifier)
	if a.status != 200 || a.header.Get("Set-Cookie") != "" || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("taken over: %d %s %v", a.status, a.body, a.header)
	}
	mine := p.browser()
	mine.cookies[sessionCookie] = field(t, a.body, "session")
	mine.send("GET", "/v1/keys/self", "").is(t, "it is", 200, `"principal":"acme:248289"`)
	take(code, verifier).is(t, "taken over twice", 401)
	mine.send("POST", "/v1/policies", simplePolicy).is(t, "a write without an origin", 403, "Origin")
	a = mine.send("POST", "/console/sign-out", "", "Origin: "+p.origin)
	if a.status != 204 || mine.send("GET", "/v1/keys/self", "").status != 401 {
		t.Errorf("sign-out: %d", a.status)
	}
	for _, secret := range []string{code, verifier, mine.cookies[sessionCookie]} {
		if secret != "" && strings.Contains(p.logged.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}
