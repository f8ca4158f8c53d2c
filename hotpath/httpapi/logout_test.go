package httpapi

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"spendgate/hotpath/signin"
)

// logout sends a logout token as the provider does, and returns the status.
func (p *people) logout(token string) int {
	p.t.Helper()
	return p.browser().send("POST", "/console/backchannel-logout", url.Values{"logout_token": {token}}.Encode(),
		"Content-Type: application/x-www-form-urlencoded").status
}

// A provider says that somebody signed out, once, and nobody else says so.
func TestBackChannelLogout(t *testing.T) {
	p := startPeople(t)
	b := p.mustSignIn()
	var replayed string
	for name, c := range map[string]map[string]any{
		"another audience": {"aud": "other"}, "another issuer": {"iss": "https://other.example"}, "no event": {"events": nil},
		"another event": {"events": map[string]any{"x": map[string]any{}}},
		"a nonce":       {"nonce": "n"}, "no jti": {"jti": nil}, "nobody": {"sub": nil}, "no iat": {"iat": nil},
		"made long ago": {"iat": time.Now().Add(-time.Hour).Unix()},
		"expired":       {"exp": time.Now().Add(-time.Hour).Unix()},
		"not valid yet": {"nbf": time.Now().Add(time.Hour).Unix()},
		"another name":  {"jti": nil, "Jti": "j"}, "of an event": {"events": nil, "Events": logoutEvents()},
	} {
		c["sub"] = map[bool]any{true: nil, false: "248289"}[name == "nobody"]
		if status := p.logout(p.idp.logoutToken(c)); status != 400 || !b.signedIn() {
			t.Errorf("%s: %d", name, status)
		}
	}
	for _, repeated := range []string{`,"sub":"248289"`, `,"sid":"x","sid":"x"`} {
		p.idp.as(func() { p.idp.sign = p.idp.signedBefore(repeated) })
		if status := p.logout(p.idp.logoutToken(map[string]any{"sub": "248289"})); status != 400 || !b.signedIn() {
			t.Errorf("with %s: %d", repeated, status)
		}
	}
	p.idp.as(func() { p.idp.sign = p.idp.signedBefore(`,"ſub":"248289","SUB":"248289"`) })
	if status := p.logout(p.idp.logoutToken(map[string]any{"sub": "somebody"})); status != 200 || !b.signedIn() {
		t.Errorf("of somebody else: %d", status)
	}
	p.idp.as(func() { p.idp.sign = p.idp.unsigned })
	if status := p.logout(p.idp.logoutToken(map[string]any{"sub": "248289"})); status != 400 || !b.signedIn() {
		t.Errorf("unsigned: %d", status)
	}
	p.idp.as(func() { p.idp.sign = nil })
	replayed = p.idp.logoutToken(map[string]any{"sub": "248289", "exp": nil})
	if status := p.logout(replayed); status != 200 || b.signedIn() {
		t.Errorf("logged out: %d", status)
	}
	b = p.mustSignIn()
	if status := p.logout(replayed); status != 400 || !b.signedIn() {
		t.Errorf("again: %d", status)
	}
	other := p.mustSignIn()
	session := p.idp.sid
	if status := p.logout(p.idp.logoutToken(map[string]any{"sid": session})); status != 200 || other.signedIn() || !b.signedIn() {
		t.Errorf("one session: %d", status)
	}
	if status := p.logout(rand.Text()); status != 400 {
		t.Errorf("no token: %d", status)
	}
}

// A logout that comes between the exchange of the code and the session ends that session,
// too, and what comes before a sign-in ends none, whatever clock the node has.
func TestLogoutsMeanwhile(t *testing.T) {
	for _, ahead := range []time.Duration{0, 40 * time.Second, -40 * time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			logoutsMeanwhile(t, startPeopleWith(t, func(o *signin.Options) { o.Now = func() time.Time { return time.Now().Add(ahead) } }))
		})
	}
}

func logoutsMeanwhile(t *testing.T, p *people) {
	if status := p.logout(p.idp.logoutToken(map[string]any{"sub": "somebody"})); status != 200 { // so that the keys are known
		t.Fatal(status)
	}
	b := p.browser()
	back := b.begin()
	p.idp.as(func() {
		p.idp.alter = func(map[string]any) {
			p.idp.alter = nil
			if status := p.logout(p.idp.logoutToken(map[string]any{"sub": "248289", "sid": p.idp.sid})); status != 200 {
				t.Errorf("logged out: %d", status)
			}
		}
	})
	if a := b.send("GET", back, ""); a.status != 400 || b.cookies[sessionCookie] != "" || !strings.Contains(a.body, "signed out, or") {
		t.Errorf("signed in though logged out: %d %s", a.status, a.body)
	}
	// So does the provider's word, by way of another browser, that they have no role.
	back = b.begin()
	p.idp.as(func() { p.idp.alter = func(c map[string]any) { c["groups"] = []string{"sales"} } })
	p.browser().signIn().is(t, "signed in without a role", 403)
	p.idp.as(func() { p.idp.alter = nil })
	if a := b.send("GET", back, ""); a.status != 400 || b.cookies[sessionCookie] != "" {
		t.Errorf("signed in though the role was gone: %d %s", a.status, a.body)
	}
	p.mustSignIn()
}

// Tokens of keys that nobody knows have the keys read a few times, not each time.
func TestLogoutsOfUnknownKeys(t *testing.T) {
	p := startPeople(t)
	p.mustSignIn()
	before, logged := p.idp.reads(), strings.Count(p.logged.String(), "logout token refused")
	unknown := p.idp.signedBy(p.idp.rsa, "none", "RS256", map[string]any{"iss": p.idp.server.URL, "aud": "spend"})
	for range 50 {
		if status := p.logout(unknown); status != 400 {
			t.Errorf("signed by nobody: %d", status)
		}
	}
	if n := p.idp.reads() - before; n > 20 { // a slow machine takes seconds
		t.Errorf("the keys were read %d times", n)
	}
	if n := strings.Count(p.logged.String(), "logout token refused") - logged; n > 20 {
		t.Errorf("50 refusals are %d lines", n)
	}
	q := startPeople(t)
	one := q.mustSignIn()
	q.idp.as(func() { q.idp.rotate("k2") })
	token := q.idp.logoutToken(map[string]any{"sub": "248289"})
	if status := q.logout(token); status != 200 || one.signedIn() {
		t.Errorf("signed by a new key: %d", status)
	}
}
