package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/bench/must"
)

const idpRoles = `[{"group":"finance","role":"approver","groups":["Finance"]},{"group":"eng","role":"author"},` +
	`{"group":"eng","groups":["Engineering"]},
	{"group":"ops","scopes":["checks:read"],"policy_ids":["elsewhere"]}]`

// browser is one, with its cookies.
type browser struct {
	*people
	cookies map[string]string
}

func (p *people) browser() *browser { return &browser{p, make(map[string]string)} }

// send sends a request as a browser does, and follows nothing.
func (b *browser) send(method, path, body string, headers ...string) answer {
	b.t.Helper()
	r := must.Get(http.NewRequest(method, "http://"+b.address+path, strings.NewReader(body)))(b.t)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value, Quoted: false})
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	must.Do(b.t, err)
	defer response.Body.Close() //nolint:errcheck // only read
	text := must.Get(io.ReadAll(response.Body))(b.t)
	for _, c := range response.Cookies() {
		if !strings.HasPrefix(c.Name, "__Host-") || c.Path != "/" || c.Domain != "" || !c.Secure || !c.HttpOnly ||
			c.SameSite != http.SameSiteLaxMode {
			b.t.Errorf("cookie %+v", c)
		}
		if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// begin opens the sign-in page, and returns where the provider sends the browser back to.
func (b *browser) begin() (back string) {
	b.t.Helper()
	time.Sleep(2 * time.Millisecond) // what came before came in an earlier millisecond
	a := b.send("GET", "/console/sign-in", "")
	if a.status != http.StatusSeeOther {
		b.t.Fatalf("sign-in: %d %s", a.status, a.body)
	}
	back = b.idp.authorize(a.header.Get("Location"))
	return strings.TrimPrefix(back, b.origin)
}

func (b *browser) signIn() answer {
	b.t.Helper()
	return b.send("GET", b.begin(), "")
}

// signedIn reports whether the browser has a session in force.
func (b *browser) signedIn() bool {
	b.t.Helper()
	a := b.send("GET", "/v1/policies", "")
	return a.status == 200 || a.status == 403
}

// mustSignIn returns a browser with a session.
func (p *people) mustSignIn() *browser {
	p.t.Helper()
	b := p.browser()
	if a := b.signIn(); a.status != http.StatusSeeOther || a.header.Get("Location") != "/console/" || !b.signedIn() {
		p.t.Fatalf("signed in: %d %s %v", a.status, a.body, a.header)
	}
	return b
}

// sessionIn returns the first session_id of a list.
func sessionIn(list string) string { return list[strings.Index(list, "ses_"):][:len("ses_")+32] }

const sameOriginHeader = "Sec-Fetch-Site: same-origin"

// A person signs in, acts within their role and signs out; no secret appears anywhere.
func TestSignIn(t *testing.T) {
	p := startPeople(t)
	b := p.mustSignIn()
	first := b.cookies[sessionCookie]
	self := b.send("GET", "/v1/keys/self", "").body
	for _, want := range []string{
		`"name":"Ana Díaz","email":"ana@example.com"`, `"role":"approver"`, `"principal":"acme:248289"`, `"owner":"ana@example.com"`,
		`"groups":["Finance","Engineering"]`,
	} {
		if !strings.Contains(self, want) {
			t.Errorf("its own record lacks %s: %s", want, self)
		}
	}
	admin := "X-Admin-Key: " + adminKey
	list := p.described.send("GET", "/v1/sessions", "", 200, true, admin)
	id := sessionIn(list)
	if !strings.Contains(list, `"principal":"acme:248289"`) || !strings.HasPrefix(id, "ses_") {
		t.Errorf("listed %s", list)
	}
	b.send("POST", "/v1/policies", simplePolicy, sameOriginHeader).is(t, "an approver wrote a policy", 403, "policies:write")
	b.send("GET", "/v1/keys", "").is(t, "keys without the admin key", 401)
	if a := b.send("POST", "/console/sign-out", ""); a.status != 403 || !b.signedIn() {
		t.Errorf("signed out from elsewhere: %d", a.status)
	}
	if a := b.send("POST", "/console/sign-out", "", sameOriginHeader); a.status != 204 || b.cookies[sessionCookie] != "" {
		t.Errorf("sign-out: %d %v", a.status, b.cookies)
	}
	b.cookies[sessionCookie] = first
	b.send("GET", "/v1/keys/self", "").is(t, "the session outlived its end", 401, `"code":"unauthorized"`)
	again := p.mustSignIn()
	p.described.send("DELETE", "/v1/sessions/"+id, "", 404, true, admin)
	list = p.described.send("GET", "/v1/sessions?limit=1", "", 200, true, admin)
	id = sessionIn(list)
	p.described.send("DELETE", "/v1/sessions/"+id, "", 204, true, admin)
	if again.signedIn() {
		t.Error("a session outlived an admin's command")
	}
	p.idp.secrets = append(p.idp.secrets, idpSecret, first)
	for _, secret := range p.idp.secrets {
		if strings.Contains(p.logged.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
	if !strings.Contains(p.logged.String(), "signed in") {
		t.Errorf("the log says nothing: %s", p.logged)
	}
}

// Nobody is signed in except by what the provider says about them, now, to this browser.
func TestSignInIsRefused(t *testing.T) {
	p := startPeople(t)
	claim := func(name string, value any) func() {
		return func() { p.idp.alter = func(claims map[string]any) { claims[name] = value } }
	}
	refused := func(name string, status int, wrong func(), back func(*browser) string) {
		t.Helper()
		p.idp.as(func() { p.idp.alter, p.idp.sign = nil, nil })
		p.mustSignIn() // so that only the fault under test can be the reason
		b := p.browser()
		if wrong != nil {
			p.idp.as(wrong)
		}
		at := b.begin()
		if back != nil {
			at = back(b)
		}
		a := b.send("GET", at, "")
		if a.status != status || b.cookies[sessionCookie] != "" || a.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, status)
		}
	}
	now := time.Now()
	refused("another audience", 400, claim("aud", "other"), nil)
	refused("a second audience", 400, claim("aud", []string{"spend", "other"}), nil)
	refused("another party", 400, claim("azp", "other"), nil)
	refused("another issuer", 400, claim("iss", "https://other.example"), nil)
	refused("another nonce", 400, claim("nonce", "other"), nil)
	refused("no nonce", 400, func() { p.idp.alter = func(c map[string]any) { delete(c, "nonce") } }, nil)
	refused("expired", 400, claim("exp", now.Add(-2*time.Minute).Unix()), nil)
	refused("no expiry", 400, func() { p.idp.alter = func(c map[string]any) { delete(c, "exp") } }, nil)
	refused("made long ago", 400, claim("iat", now.Add(-time.Hour).Unix()), nil)
	refused("made in the future", 400, claim("iat", now.Add(time.Hour).Unix()), nil)
	refused("not valid yet", 400, claim("nbf", now.Add(2*time.Minute).Unix()), nil)
	refused("not valid yet, far off", 400, claim("nbf", 1e300), nil)
	refused("no subject", 400, claim("sub", ""), nil)
	refused("a subject that is not printable", 400, claim("sub", "a\u202eb"), nil)
	refused("a subject that is too long", 400, claim("sub", strings.Repeat("x", 130)), nil)
	refused("unsigned", 400, func() { p.idp.sign = p.idp.unsigned }, nil)
	refused("signed with a public key", 400, func() { p.idp.sign = p.idp.confused }, nil)
	refused("signed by a key that is not published", 400, func() {
		known, kid := p.idp.ec, p.idp.kid
		p.idp.rotate(kid)
		other := p.idp.ec
		p.idp.ec = known
		p.idp.sign = func(c map[string]any) string { return p.idp.signedBy(other, kid, "ES256", c) }
	}, nil)
	refused("another at_hash", 400, claim("at_hash", "bm90"), nil)
	refused("no group with a role", 403, claim("groups", []string{"sales"}), nil)
	refused("a name that is no text", 400, claim("name", 5), nil)
	for name, text := range map[string]string{
		"repeated groups": `,"groups":["finance"]`, "a repeated subject": `,"sub":"1"`, "a repeated audience": `,"aud":"spend"`,
		"a repeated name inside another claim": `,"address":{"a":1,"a":2}`,
	} {
		refused(name, 400, func() { p.idp.sign = p.idp.signedBefore(text) }, nil)
	}
	refused("names that resemble those that it lacks", 400, func() {
		p.idp.alter = func(c map[string]any) { c["Nonce"] = c["nonce"]; delete(c, "nonce") }
	}, nil)
	refused("another state", 400, nil, func(b *browser) string {
		return strings.Replace(b.begin(), "state=", "state=x", 1)
	})
	refused("another issuer's answer", 400, nil, func(b *browser) string {
		return strings.Replace(b.begin(), "iss=", "iss=x", 1)
	})
	refused("a stolen answer", 400, nil, func(b *browser) string { return p.browser().begin() })
	refused("an answer without its cookie", 400, nil, func(b *browser) string {
		at := b.begin()
		clear(b.cookies)
		return at
	})
	refused("a code without its verifier", 400, nil, func(b *browser) string {
		stolen, _ := url.Parse(p.browser().begin())
		own, _ := url.Parse(b.begin())
		q := own.Query()
		q.Set("code", stolen.Query().Get("code"))
		return own.Path + "?" + q.Encode()
	})
	refused("a refusal", 400, nil, func(b *browser) string {
		own, _ := url.Parse(b.begin())
		return own.Path + "?" + url.Values{"state": own.Query()["state"], "error": {"access_denied"}}.Encode()
	})
	b := p.browser()
	back := b.begin()
	attempt := b.cookies[attemptCookie]
	if a := b.send("GET", back, ""); a.status != http.StatusSeeOther || b.cookies[attemptCookie] != "" {
		t.Errorf("signed in: %d %v", a.status, b.cookies)
	}
	again := p.browser()
	again.cookies[attemptCookie] = attempt
	if a := again.send("GET", back, ""); a.status != 400 || again.cookies[sessionCookie] != "" {
		t.Errorf("a code was taken twice: %d", a.status)
	}
	if n := testutil.ToFloat64(p.failed); n < 10 {
		t.Errorf("%v refused sign-ins are counted", n)
	}
	for _, secret := range append(p.idp.secrets, idpSecret) {
		if strings.Contains(p.logged.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// A provider that is away keeps people out and nobody else; one that is back, or has other
// keys, signs in.
func TestProviderIsAway(t *testing.T) {
	p := startPeople(t)
	p.idp.as(func() { p.idp.down = true })
	b := p.browser()
	b.send("GET", "/console/sign-in", "").is(t, "sign-in", http.StatusBadGateway)
	doAt(t, p.address, "GET", "/v1/policies", "", "X-API-Key: "+p.key).is(t, "a key meanwhile", 200)
	p.idp.as(func() { p.idp.down = false })
	deadline := time.Now().Add(20 * time.Second)
	for b.send("GET", "/console/sign-in", "").status != http.StatusSeeOther {
		if time.Now().After(deadline) {
			t.Fatal("it stays away")
		}
		time.Sleep(50 * time.Millisecond)
	}
	one := p.mustSignIn()
	p.idp.as(func() { p.idp.rotate("k2") })
	p.mustSignIn()
	p.idp.as(func() {
		p.idp.sign = func(c map[string]any) string { return p.idp.signedBy(p.idp.rsa, "r1", "RS256", c) }
	})
	p.mustSignIn()
	p.idp.as(func() { p.idp.down = true })
	if !one.signedIn() {
		t.Error("a session needs the provider")
	}
}

// Somebody who left all groups, or whose rights changed, loses their sessions. Claims that the ID
// token lacks are read from userinfo.
func TestGroupsOfThePerson(t *testing.T) {
	p := startPeople(t)
	before := p.mustSignIn()
	p.idp.as(func() { p.idp.person["groups"] = "eng" })
	author := p.mustSignIn()
	if before.signedIn() {
		t.Error("an approver's session outlived the group")
	}
	if self := author.send("GET", "/v1/keys/self", "").body; !strings.Contains(self, `"role":"author"`) || strings.Contains(self, "Finance") {
		t.Errorf("an author is %s", self)
	}
	author.send("POST", "/v1/policies", simplePolicy, sameOriginHeader).is(t, "an author wrote no policy", 201)
	p.idp.as(func() { p.idp.person["groups"] = []string{"sales"} })
	if a := p.browser().signIn(); a.status != 403 || author.signedIn() {
		t.Errorf("without a role: %d", a.status)
	}
	q := startPeople(t)
	q.idp.person = map[string]any{"sub": "7"}
	q.idp.info = map[string]any{"sub": "7", "preferred_username": "bo", "groups": []any{"ops", 3}}
	bo := q.mustSignIn()
	if self := bo.send("GET", "/v1/keys/self", "").body; !strings.Contains(self, `"name":"bo"`) ||
		!strings.Contains(self, `"scopes":["checks:read"],"policy_ids":["elsewhere"]`) ||
		!strings.Contains(self, `"owner":"acme:7"`) {
		t.Errorf("bo is %s", self)
	}
	q.idp.as(func() { q.idp.info["sub"] = "8" })
	q.browser().signIn().is(t, "userinfo of somebody else", 400)
}

// Writes with a session come from the console's origin; keys need not.
func TestWritesAreOfTheOrigin(t *testing.T) {
	p := startPeople(t)
	p.idp.person["groups"] = "eng"
	b := p.mustSignIn()
	for _, c := range []struct {
		status  int
		headers []string
	}{
		{403, nil},
		{403, []string{"Sec-Fetch-Site: cross-site"}},
		{403, []string{"Sec-Fetch-Site: same-site", "Origin: " + p.origin}},
		{403, []string{"Sec-Fetch-Site: none"}},
		{403, []string{"Sec-Fetch-Site: same-origin", "Origin: http://evil.example"}},
		{403, []string{"Origin: http://evil.example"}},
		{403, []string{"Origin: null"}},
		{403, []string{"Origin: http://" + p.address}},
		{403, []string{"Referer: " + p.origin + "/console/"}},
		{201, []string{"Sec-Fetch-Site: same-origin"}},
		{201, []string{"Origin: " + p.origin}},
		{201, []string{"Sec-Fetch-Site: same-origin", "Origin: " + p.origin}},
	} {
		b.send("POST", "/v1/policies", simplePolicy, c.headers...).is(t, fmt.Sprintf("%v", c.headers), c.status)
	}
	b.send("POST", "/v1/checks", matrixCheck).is(t, "a check from elsewhere", 403, "Sec-Fetch-Site")
	b.send("POST", "/v1/policies", simplePolicy, "X-API-Key: "+p.key).is(t, "with a key beside the cookie", 201)
	b.send("GET", "/v1/policies", "", "X-API-Key: ").is(t, "with an empty key beside the cookie", 401)
}
