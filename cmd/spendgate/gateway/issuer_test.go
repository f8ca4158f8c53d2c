package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
	"spendgate/hotpath/signin"
)

// idp is an issuer of access tokens.
type idp struct {
	t   *testing.T
	url string
	key *ecdsa.PrivateKey
	kid string
	// audience and typ are of the tokens that it makes.
	audience, typ string
	keys          string // in place of its keys
	close         func()
}

func newIDP(t *testing.T) *idp {
	p := &idp{t: t}
	p.rotate("k1")
	mux := http.NewServeMux()
	about := func(w http.ResponseWriter, _ *http.Request) {
		p.write(w, map[string]any{
			"issuer": p.url, "authorization_endpoint": p.url + "/authorize", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		})
	}
	mux.HandleFunc("/.well-known/openid-configuration", about)
	mux.HandleFunc("/.well-known/oauth-authorization-server", about)
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		if p.keys == "503" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if p.keys != "" {
			_, _ = w.Write([]byte(p.keys))
			return
		}
		x, y := make([]byte, 32), make([]byte, 32)
		p.write(w, map[string]any{"keys": []any{map[string]any{
			"kty": "EC", "crv": "P-256", "kid": p.kid, "alg": "ES256", "use": "sig", "x": b64(p.key.X.FillBytes(x)), "y": b64(p.key.Y.FillBytes(y)),
		}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		p.write(w, map[string]any{"access_token": p.sign(nil), "token_type": "Bearer", "expires_in": 300})
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	p.url, p.close = web.URL, web.Close
	return p
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (p *idp) write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	must.Check(p.t, json.NewEncoder(w).Encode(value))
}

// rotate has the issuer sign with a new key.
func (p *idp) rotate(kid string) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(p.t)
	p.key, p.kid = key, kid
}

// sign makes a token for support-bot, with other claims.
func (p *idp) sign(more map[string]any) string {
	claims := map[string]any{
		"iss": p.url, "aud": p.audience, "sub": "7", "client_id": "support-bot",
		"exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
	}
	maps.Copy(claims, more)
	text := b64([]byte(encode(map[string]string{"alg": "ES256", "kid": p.kid, "typ": p.typ}))) + "." + b64([]byte(encode(claims)))
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, p.key, sum[:])
	must.Do(p.t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + b64(signature)
}

// behindIssuer serves a gateway whose agents have tokens of an issuer, and returns its address.
func behindIssuer(t *testing.T, s *service, p *idp) string {
	t.Helper()
	var handler http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	p.audience = web.URL + Path
	g := guarded(t, s, newProvider(t), "agent_id: nobody\nlisten: 127.0.0.1:0\nissuers: [{url: \""+p.url+"\", audience: \""+p.audience+
		"\", agent_claim: client_id}]\n", "")
	server := NewServer(g)
	t.Cleanup(server.Stop)
	handler = server.Handler()
	return p.audience
}

// TestIssuers: a token says who asks if its issuer signed it for the gateway, and it is valid.
func TestIssuers(t *testing.T) {
	p := newIDP(t)
	address := behindIssuer(t, newService(t), p)
	post := func(token string) int { return begin(t, address, token) }
	typed := func(typ string) string {
		p.typ = typ
		defer func() { p.typ = "" }()
		return p.sign(nil)
	}
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	none := func(token string) string {
		parts := strings.Split(token, ".")
		return b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
	}
	other := newIDP(t)
	other.audience = p.audience
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"good":              {p.sign(nil), http.StatusOK},
		"several":           {p.sign(map[string]any{"aud": []string{"x", p.audience}}), http.StatusOK},
		"within the skew":   {p.sign(map[string]any{"exp": in(-30 * time.Second), "nbf": in(30 * time.Second)}), 200},
		"expired":           {p.sign(map[string]any{"exp": in(-2 * time.Minute)}), http.StatusUnauthorized},
		"without end":       {p.sign(map[string]any{"exp": nil}), http.StatusUnauthorized},
		"later":             {p.sign(map[string]any{"nbf": in(2 * time.Minute)}), http.StatusUnauthorized},
		"for another":       {p.sign(map[string]any{"aud": "https://other.example/mcp"}), http.StatusUnauthorized},
		"of nobody":         {p.sign(map[string]any{"client_id": " "}), http.StatusUnauthorized},
		"of a number":       {p.sign(map[string]any{"client_id": 7}), http.StatusUnauthorized},
		"resembling":        {p.sign(map[string]any{"client_id": nil, "Client_ID": "x"}), http.StatusUnauthorized},
		"another issuer":    {p.sign(map[string]any{"iss": other.url}), http.StatusUnauthorized},
		"of another issuer": {other.sign(nil), http.StatusUnauthorized},
		"plain":             {typed("JWT"), http.StatusOK},
		"access token":      {typed("application/at+jwt"), http.StatusOK},
		"logout token":      {typed("logout+jwt"), http.StatusUnauthorized},
		"alg none":          {none(p.sign(nil)), http.StatusUnauthorized},
		"changed":           {p.sign(nil) + "x", http.StatusUnauthorized},
		"none":              {"x", http.StatusUnauthorized},
	} {
		if got := post(c.token); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	p.rotate("k2")
	// Tokens that nobody knows make the issuer's keys be read only now and then.
	within(t, "a rotated key is read", func() bool { return post(p.sign(nil)) == http.StatusOK })
}

// TestWithdrawnKey: a key that its issuer withdrew counts for ten minutes at most, and each while the issuer does not answer.
func TestWithdrawnKey(t *testing.T) {
	var later atomic.Int64
	p := newIDP(t)
	p.audience = "https://gateway.example/mcp"
	b := signin.NewBearer(p.url, p.audience, "client_id", quiet(), func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	token := func() string { return p.sign(map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()}) }
	refused := func(token string) bool {
		_, _, err := b.Who(t.Context(), token)
		if err != nil && !errors.Is(err, signin.ErrToken) {
			t.Error(err)
		}
		return err != nil
	}
	first := token()
	if refused(first) {
		t.Error("a token is refused")
	}
	p.rotate("k2")
	later.Store(int64(6 * time.Minute))
	within(t, "keys are read again in the background", func() bool { return refused(first) })
	p.rotate("k3")
	second := token()
	later.Store(int64(17 * time.Minute))
	if refused(second) {
		t.Error("a new key is not known")
	}
	p.rotate("k4")
	later.Store(int64(28 * time.Minute))
	if !refused(second) {
		t.Error("after a rest a withdrawn key counts once more")
	}
	third, outages := token(), []func(){func() { p.keys = "503" }, func() { p.keys = `{"keys": 5}` }, p.close}
	if refused(third) {
		t.Error("a new key is not known")
	}
	for i, begin := range outages {
		begin()
		later.Add(int64(11 * time.Minute))
		if refused(third) {
			t.Errorf("outage %d: the old key does not count", i)
		}
	}
}

// begin begins a session with a token, and returns the status.
func begin(t *testing.T, address, token string) int {
	t.Helper()
	const text = `{"jsonrpc":"2.0","id":1,"method":"initialize",` +
		`"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(text)))(t)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	must.Do(t, err)
	_ = response.Body.Close()
	return response.StatusCode
}

// TestSeveralIssuers: agents of several issuers and of files have no name in common, and an issuer's outage stops no other agent.
func TestSeveralIssuers(t *testing.T) {
	one, two, three := newIDP(t), newIDP(t), newIDP(t)
	folder := tokenFolder(t)
	const accent, like = "the-token-of-an-accent", "the-token-like-an-issuer"
	write(t, folder, "e\u0301", accent) // not in NFC
	write(t, folder, "o-e\u0301-1", like)
	head := "shadow: true\nlisten: 127.0.0.1:0\ntokens: " + folder + "\nissuers:\n"
	for _, p := range []*idp{one, two, three} {
		p.audience = "https://gateway.example/mcp"
		head += "- {url: \"" + p.url + "\", audience: \"" + p.audience + "\", agent_claim: client_id" +
			map[*idp]string{one: ", agent_prefix: \"o-\"", three: ", agent_prefix: \"o-e\u0301\""}[p] + "}\n"
	}
	g := load(t, head+"upstreams:\n  psp:\n    url: "+newProvider(t).url+"\n")
	address := served(t, g) + Path
	named := func(p *idp, name string) string { return p.sign(map[string]any{"client_id": name}) }
	const another = "that of another agent"
	for _, c := range []struct{ token, want, refused string }{
		{tokenA, "a", ""},
		{accent, "\u00e9", ""},
		{like, "", "no agent has this token"},
		{named(one, "bot"), "o-bot", ""},
		{named(one, "e"), "o-e", ""},
		{named(one, "e\u0301x"), "", another},
		{named(one, "\u00e9x"), "", another},
		{named(two, "bot"), two.url + "#bot", ""},
		{named(two, "o-\u00e9"), two.url + "#o-\u00e9", ""},
		{named(three, "bot"), "o-\u00e9bot", ""},
	} {
		info, err := g.tokens.verify(t.Context(), c.token, nil)
		if c.refused == "" && (err != nil || info.UserID != c.want) || c.refused != "" && !strings.Contains(fmt.Sprint(err), c.refused) {
			t.Errorf("%+v: %v %v", c, info, err)
		}
	}
	for keys, p := range map[string]*idp{"503": one, "<html>": three} {
		p.keys = keys
		p.rotate(keys)
		for range 3 { // then its keys are not asked for each time
			if got := begin(t, address, p.sign(nil)); got != http.StatusServiceUnavailable {
				t.Errorf("an issuer gives %s for its keys: %d", keys, got)
			}
		}
		for name, token := range map[string]string{"another issuer": two.sign(nil), "a file": tokenA} {
			if got := begin(t, address, token); got != http.StatusOK {
				t.Errorf("%s: %d", name, got)
			}
		}
	}
}

// TestSignIn: a client of the SDK finds out where to sign in, and does.
func TestSignIn(t *testing.T) {
	s, p := newService(t), newIDP(t)
	address := behindIssuer(t, s, p)
	for _, version := range []string{legacyVersion, latestVersion} {
		handler := must.Get(auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
			PreregisteredClient: &oauthex.ClientCredentials{ClientID: "support-bot"}, RedirectURL: "http://127.0.0.1:1/back",
			AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
				u, err := url.Parse(args.URL)
				if err != nil || !strings.HasPrefix(args.URL, p.url+"/authorize?") || u.Query().Get("resource") != p.audience {
					t.Error(args.URL)
				}
				return &auth.AuthorizationResult{Code: "c", State: u.Query().Get("state")}, err
			},
		}))(t)
		agent := connect(t, agentClient(), &sdk.StreamableClientTransport{Endpoint: address, OAuthHandler: handler}, version)
		wants(t, agent, "ch_"+version, 1, stateExecuted, "")
	}
	for c, err := range s.api.AllChecks(t.Context(), client.CheckQuery{PolicyID: s.policy}) {
		if err != nil || c.Action.AgentID != "support-bot" {
			t.Error(c.Action.AgentID, err)
		}
	}
}
