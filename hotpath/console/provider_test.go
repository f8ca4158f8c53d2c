package console_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// startProvider starts an OpenID provider at which Ana, of finance, is signed in. It
// returns the settings of a node at an address.
func startProvider(t *testing.T, address string) fleet.Settings {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Do(t, err)
	about := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: "ES256"}}}
	var issuer, nonce string
	mux := http.NewServeMux()
	mux.Handle("/", about)
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		nonce = r.FormValue("nonce")
		http.Redirect(w, r, r.FormValue("redirect_uri")+"?"+url.Values{"code": {"c"}, "state": {r.FormValue("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		claims, err := json.Marshal(map[string]any{
			"iss": issuer, "aud": "spend", "sub": "7", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": nonce,
			"name": "Ana Díaz", "email": "ana@example.com", "groups": []string{"finance"},
		})
		must.Check(t, err)
		w.Header().Set("Content-Type", "application/json")
		must.Check(t, json.NewEncoder(w).
			Encode(map[string]string{
				"access_token": "a", "token_type": "Bearer", "id_token": oidctest.SignIDToken(key, "k", "ES256", string(claims)),
			}))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	issuer = s.URL
	about.SetIssuer(issuer)
	return signInSettings(address, issuer, "finance")
}

// signInSettings are the settings of a node at an address where the provider's group finance approves,
// as a group of approvers.
func signInSettings(address, issuer, group string) fleet.Settings {
	return fleet.Settings{
		"LISTEN_ADDR": address, "OIDC_ISSUER": "acme=" + issuer, "OIDC_CLIENT_ID": "spend", "OIDC_CLIENT_SECRET": "secret",
		"OIDC_REDIRECT_URL": "http://" + address + "/console/callback",
		"OIDC_ROLES":        `[{"group":"finance","role":"approver","groups":["` + group + `"]}]`,
	}
}
