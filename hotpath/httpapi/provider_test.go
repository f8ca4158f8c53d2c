package httpapi

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/prometheus/client_golang/prometheus"

	"spendgate/bench/must"
	"spendgate/hotpath"
	"spendgate/hotpath/console"
	"spendgate/hotpath/signin"
)

// idp is an OpenID provider that does as it is told, which may be wrong.
type idp struct {
	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex
	ec      *ecdsa.PrivateKey
	rsa     *rsa.PrivateKey
	kid     string
	codes   map[string]url.Values // what each was asked with, until it is redeemed
	person  map[string]any        // claims of who signs in
	alter   func(claims map[string]any)
	sign    func(claims map[string]any) string // nil signs well
	info    map[string]any                     // of userinfo; nil for none
	behind  string                             // text behind the last member of userinfo
	asked   int                                // times that userinfo was
	down    bool
	sid     string   // of the last sign-in
	read    int      // times that its keys were
	secrets []string // that went over the wire
}

const idpSecret = "a-client-secret"

func newIDP(t *testing.T) *idp {
	p := &idp{t: t, codes: make(map[string]url.Values), person: map[string]any{
		"sub": "248289", "name": "Ana Díaz", "email": "ana@example.com", "groups": []string{"eng", "finance"},
	}}
	p.rotate("k1")
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	p.rsa = key
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		about := map[string]any{
			"issuer": p.server.URL, "authorization_endpoint": p.server.URL + "/authorize", "token_endpoint": p.server.URL + "/token",
			"jwks_uri": p.server.URL + "/keys", "scopes_supported": []string{"openid", "groups"},
			// As if the weak ones were good enough for it.
			"id_token_signing_alg_values_supported": []string{"none", "HS256", "RS256", "ES256"},
		}
		if p.info != nil {
			about["userinfo_endpoint"] = p.server.URL + "/userinfo"
		}
		p.write(w, about)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.read++
		x, y := make([]byte, 32), make([]byte, 32)
		p.write(w, map[string]any{"keys": []any{
			map[string]any{
				"kty": "EC", "crv": "P-256", "kid": p.kid, "alg": "ES256", "use": "sig", "x": b64(p.ec.X.FillBytes(x)), "y": b64(p.ec.Y.FillBytes(y)),
			},
			map[string]any{"kty": "RSA", "kid": "r1", "use": "sig", "n": b64(p.rsa.N.Bytes()), "e": "AQAB"},
		}})
	})
	mux.HandleFunc("/token", p.token)
	mux.HandleFunc("/userinfo", func(w http.ResponseWriter, _ *http.Request) {
		p.asked++
		_, _ = w.Write([]byte(p.jsonBefore(p.info, p.behind)))
	})
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	return p
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (p *idp) write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	must.Check(p.t, json.NewEncoder(w).Encode(value))
}

// rotate has the provider sign with a new key.
func (p *idp) rotate(kid string) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(p.t)
	p.ec, p.kid = key, kid
}

// as changes the provider while nobody asks it.
func (p *idp) as(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// reads is how often its keys were read.
func (p *idp) reads() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read
}

// authorize is the page on which a person signs in; it returns where it sends the browser.
func (p *idp) authorize(at string) string {
	u, err := url.Parse(at)
	if err != nil || !strings.HasPrefix(at, p.server.URL+"/authorize?") {
		p.t.Fatalf("sent to %s, %v", at, err)
	}
	q, code := u.Query(), rand.Text()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "spend", "code_challenge_method": "S256", "scope": "openid profile email groups",
	} {
		if q.Get(name) != want {
			p.t.Errorf("%s is %q, want %q", name, q.Get(name), want)
		}
	}
	p.as(func() { p.codes[code] = q })
	p.secrets = append(p.secrets, code, q.Get("state"), q.Get("nonce"))
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.server.URL}}.Encode()
}

func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	asked, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	proof := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !known || id != "spend" || secret != idpSecret || asked.Get("code_challenge") != b64(proof[:]) ||
		asked.Get("redirect_uri") != r.FormValue("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		p.write(w, map[string]string{"error": "invalid_grant", "error_description": "the code was " + r.FormValue("code")})
		return
	}
	p.secrets = append(p.secrets, r.FormValue("code_verifier"))
	now := time.Now()
	claims := map[string]any{
		"iss": p.server.URL, "aud": "spend", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": asked.Get("nonce"), "sid": "s-" +
			r.FormValue("code")[:8],
	}
	p.sid = claims["sid"].(string)
	maps.Copy(claims, p.person)
	if p.alter != nil {
		p.alter(claims)
	}
	token := p.signed(claims)
	access := rand.Text()
	p.secrets = append(p.secrets, token, access)
	p.write(w, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 60, "id_token": token})
}

func (p *idp) signed(claims map[string]any) string {
	if p.sign != nil {
		return p.sign(claims)
	}
	return p.signedBy(p.ec, p.kid, "ES256", claims)
}

func (p *idp) signedBy(key crypto.PrivateKey, kid, alg string, claims map[string]any) string {
	return oidctest.SignIDToken(key, kid, alg, p.json(claims))
}

func (p *idp) json(value any) string {
	text := must.Get(json.Marshal(value))(p.t)
	return string(text)
}

// jsonBefore has a text behind the last member of an object.
func (p *idp) jsonBefore(object map[string]any, text string) string {
	return strings.TrimSuffix(p.json(object), "}") + text + "}"
}

// signedBefore signs claims with a text behind the last.
func (p *idp) signedBefore(text string) func(map[string]any) string {
	return func(claims map[string]any) string {
		return oidctest.SignIDToken(p.ec, p.kid, "ES256", p.jsonBefore(claims, text))
	}
}

// unsigned is a token that says that it need not be signed.
func (p *idp) unsigned(claims map[string]any) string {
	return b64([]byte(`{"alg":"none"}`)) + "." + b64([]byte(p.json(claims))) + "."
}

// confused is signed by the public key, as if that were a secret.
func (p *idp) confused(claims map[string]any) string {
	public := must.Get(x509.MarshalPKIXPublicKey(&p.rsa.PublicKey))(p.t)
	text := b64([]byte(`{"alg":"HS256","kid":"r1"}`)) + "." + b64([]byte(p.json(claims)))
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	mac.Write([]byte(text))
	return text + "." + b64(mac.Sum(nil))
}

func logoutEvents() map[string]any {
	return map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}
}

// logoutToken says that somebody signed out.
func (p *idp) logoutToken(change map[string]any) string {
	now := time.Now()
	claims := map[string]any{
		"iss": p.server.URL, "aud": "spend", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "jti": rand.Text(),
		"events": logoutEvents(),
	}
	for name, value := range change {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	return p.signed(claims)
}

// people is a node that people sign in to.
type people struct {
	*described
	idp    *idp
	logged *lockedBuffer
	origin string
	failed prometheus.Counter // sign-ins
}

func startPeople(t *testing.T) *people { return startPeopleWith(t, func(*signin.Options) {}) }

func startPeopleWith(t *testing.T, change func(*signin.Options)) *people {
	p := &people{described: describe(t), idp: newIDP(t), logged: new(lockedBuffer)}
	roles := must.Get(signin.ParseRoles(idpRoles))(t)
	log := slog.New(slog.NewTextHandler(p.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := realOptions(t, func(c *hotpath.Components) { c.Logger = log })
	o.Logger = log
	o.Console = console.New(nil)
	p.origin = "http://localhost:1"
	options := signin.Options{
		Label: "acme", Issuer: p.idp.server.URL, ClientID: "spend", ClientSecret: idpSecret, RedirectURL: p.origin + "/console/callback",
		Roles: roles, GroupsClaim: "groups", EmailClaim: "email", NameClaim: "name", Logger: log, Now: time.Now,
	}
	change(&options)
	o.SignIn = signin.New(options)
	api := New(o)
	p.address, p.failed = serveOn(t, api), api.metrics.signIns
	p.key = field(t, doAt(t, p.address, "POST", "/v1/keys", `{"name":"n"}`, "X-Admin-Key: "+adminKey).body, "api_key")
	return p
}
