package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/cli/clitest"
)

// startProvider starts an OpenID provider at which Ana signs in at once.
func startProvider(t *testing.T) *httptest.Server {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	public := oidctest.PublicKey{PublicKey: key.Public(), KeyID: "k", Algorithm: "ES256"}
	about := &oidctest.Server{PublicKeys: []oidctest.PublicKey{public}, Algorithms: []string{"ES256"}}
	var nonce atomic.Value
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); r.URL.Path {
		case "/auth":
			nonce.Store(q.Get("nonce"))
			http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"c"}, "state": {q.Get("state")}}.Encode(), http.StatusSeeOther)
		case "/token":
			now := time.Now().Unix()
			claims, _ := json.Marshal(map[string]any{
				"iss": server.URL, "aud": "spend", "sub": "7", "name": "Ana", "email": "ana@example.com", "groups": []string{"finance"},
				"iat": now, "exp": now + 60, "nonce": nonce.Load(),
			})
			w.Header().Set("Content-Type", "application/json")
			token := oidctest.SignIDToken(key, "k", "ES256", string(claims))
			_, _ = fmt.Fprintf(w, `{"access_token":"a","token_type":"Bearer","id_token":%q}`, token)
		default:
			about.ServeHTTP(w, r)
		}
	}))
	about.SetIssuer(server.URL)
	t.Cleanup(server.Close)
	return server
}

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	var listening net.ListenConfig
	l := must.Get(listening.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close() //nolint:errcheck // nothing was written
	return l.Addr().String()
}

// visit opens an address as a person's browser does, and follows the page's link.
func visit(t *testing.T, at string) string {
	t.Helper()
	jar := must.Get(cookiejar.New(nil))(t)
	browser := http.Client{Jar: jar, Timeout: time.Minute}
	get := func(at string, cookies []*http.Cookie) (string, []*http.Cookie) {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil))(t)
		for _, c := range cookies { // of http alone, where a jar keeps none that is Secure
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value, Quoted: false})
		}
		browser.CheckRedirect = func(next *http.Request, _ []*http.Request) error {
			for _, c := range cookies {
				next.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value, Quoted: false})
			}
			return nil
		}
		answer, err := browser.Do(r)
		must.Do(t, err)
		defer answer.Body.Close() //nolint:errcheck // only read
		text := must.Get(io.ReadAll(answer.Body))(t)
		return string(text), answer.Cookies()
	}
	page, cookies := get(at, nil)
	link := regexp.MustCompile(`<a href="([^"]+)">Sign in</a>`).FindStringSubmatch(page)
	if link == nil {
		t.Fatal(page)
	}
	text, _ := get(strings.ReplaceAll(link[1], "&amp;", "&"), cookies)
	return page + text
}

// A false service cannot send people to sign in at another one and get that session.
func TestLoginElsewhere(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"sign_in": "https://provider", "origin": "https://gate.example"}`)
	}))
	t.Cleanup(web.Close)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), cli.Process{Stdout: &stdout, Stderr: &stderr}, []string{"login", "--url", web.URL})
	clitest.Result{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}.Has(t, 1, "people sign in at https://gate.example")
	if strings.Contains(stderr.String(), "open in a browser") {
		t.Error(stderr.String())
	}
}

// TestLogin: a person signs in at the command line twice, uses their rights, and signs out.
func TestLogin(t *testing.T) {
	provider, address := startProvider(t), freeAddress(t)
	n := startDev(t, "SPENDGATE_LISTEN_ADDR="+address, "SPENDGATE_OIDC_ISSUER=acme="+provider.URL, "SPENDGATE_OIDC_CLIENT_ID=spend",
		"SPENDGATE_OIDC_CLIENT_SECRET=secret", "SPENDGATE_OIDC_REDIRECT_URL=http://"+address+"/console/callback",
		`SPENDGATE_OIDC_ROLES=[{"group":"finance","scopes":["policies:read","policies:write","approvals:decide","checks:read"]}]`)
	home := t.TempDir()
	environ := []string{"SPENDGATE_API_URL=" + n.url, "XDG_CONFIG_HOME=" + home}
	command := func(args ...string) clitest.Result {
		t.Helper()
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), cli.Process{Stdout: &stdout, Stderr: &stderr, Environ: environ}, args)
		return clitest.Result{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
	}
	command("policies", "list").Has(t, 1, "nobody is signed in: spendgate login")
	command("logout").Has(t, 1, "nobody is signed in")

	login := func() (log *clitest.Log, out, seen string) {
		t.Helper()
		log, stdout, done := new(clitest.Log), new(bytes.Buffer), make(chan int, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			done <- run(ctx, cli.Process{Stdout: stdout, Stderr: log, Environ: environ}, []string{"login"})
		}()
		var at []string
		for at = log.Find(`http://\S+port=(\d+)\S+`); at == nil && ctx.Err() == nil; at = log.Find(`http://\S+port=(\d+)\S+`) {
			time.Sleep(10 * time.Millisecond)
		}
		if at == nil {
			t.Fatal(log.String())
		}
		for _, guess := range []string{"guessed", "guessed&state=guessed"} {
			r, err := http.Get("http://127.0.0.1:" + at[1] + "/?code=" + guess)
			if err != nil || r.Body.Close() != nil || r.StatusCode != http.StatusNotFound {
				t.Fatal(r, err)
			}
		}
		seen = visit(t, at[0])
		if code := <-done; code != 0 || stdout.String() != "signed in as acme:7\n" || !strings.Contains(seen, "this page can be closed") {
			t.Fatalf("exit %d: %s %s %s", code, stdout, log, seen)
		}
		return log, stdout.String(), seen
	}
	log, stdout, seen := login()
	if shown := log.Find(`code ([A-Z2-7]{4}-[A-Z2-7]{4})`); shown == nil || !strings.Contains(seen, shown[1]) {
		t.Errorf("the page and the command line show other codes: %v", shown)
	}
	file := filepath.Join(home, "spendgate", "session.json")
	kept, err := os.ReadFile(file) //nolint:gosec // the test's
	info, missing := os.Stat(file)
	if err != nil || missing != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(err, missing, info)
	}
	var s cli.SignedIn
	if err := json.Unmarshal(kept, &s); err != nil || s.Session == "" || strings.Contains(log.String()+stdout+seen, s.Session) {
		t.Errorf("kept %+v, %v", s, err)
	}

	// Signing in again ends the session before.
	if _, _, _ = login(); strings.Count(n.as(t, "", false, "", "sessions", "list").Stdout, "acme:7") != 1 {
		t.Error("a session that was replaced goes on")
	}
	if kept, err = os.ReadFile(file); err != nil { //nolint:gosec // the test's
		t.Fatal(err)
	}

	policy := filepath.Join(home, "p.json")
	const rules = `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}]`
	must.Do(t, os.WriteFile(policy, []byte(`{"policy_id":"p","name":"P","rules":`+rules+`}`), 0o600))
	command("policies", "apply", "-f", policy).Has(t, 0, "p version 1") // a write
	command("checks", "list").Has(t, 0, "CHECK ID")
	n.as(t, "", false, "", "sessions", "list").Has(t, 0, "acme:7", "ana@example.com")
	environ[0] = "SPENDGATE_API_URL=http://localhost:1"
	command("policies", "list").Has(t, 1, "nobody is signed in") // to that service
	environ[0] = "SPENDGATE_API_URL=" + n.url
	command("logout").Has(t, 0, "signed out")
	if _, err := os.Stat(file); err == nil {
		t.Error("the session is kept")
	}
	must.Do(t, os.WriteFile(file, kept, 0o600))
	command("policies", "list").Has(t, 1, "unauthorized")
}
