package signin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"spendgate/bench/must"
)

// Keys are read twice at once, and then once in a while.
func TestSparing(t *testing.T) {
	now := time.Now()
	s := &sparing{now: func() time.Time { return now }}
	for i, want := range []bool{true, true, false, false} {
		if got := s.take(); got != want {
			t.Errorf("request %d: %t", i, got)
		}
	}
	taken := 0
	for range 60 {
		if now = now.Add(time.Second); s.take() {
			taken++
		}
	}
	if want := int(60 * time.Second / keysEvery); taken != want {
		t.Errorf("%d in a minute, want %d", taken, want)
	}
	now = now.Add(time.Hour)
	for i, want := range []bool{true, true, false} {
		if got := s.take(); got != want {
			t.Errorf("request %d after a rest: %t", i, got)
		}
	}
}

// rotating is a provider whose keys change.
type rotating struct {
	key  jose.JSONWebKey
	held chan struct{} // what it was asked for, it answers when this is closed
	gone bool
}

const issuer = "http://issuer.example"

// RoundTrip implements http.RoundTripper.
func (p *rotating) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := any(map[string]string{
		"issuer": issuer, "authorization_endpoint": issuer, "token_endpoint": issuer, "jwks_uri": issuer + "/keys",
	})
	if r.URL.Path == "/keys" {
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.key.Public()}}
		if p.gone {
			return nil, errors.New("gone")
		}
		<-p.held
	}
	text, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(text)))}, err
}

// rotate makes a new key, and returns a token that is signed with it.
func (p *rotating) rotate(t *testing.T, id string) string {
	t.Helper()
	p.key = jose.JSONWebKey{Key: must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), KeyID: id, Algorithm: "ES256"}
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, nil))(t)
	claims := must.Get(json.Marshal(map[string]any{"iss": issuer, "aud": "a", "sub": "bot", "exp": time.Now().Add(time.Hour).Unix()}))(t)
	return must.Get(must.Get(signer.Sign(claims))(t).CompactSerialize())(t)
}

// TestKeysAskedForBefore: a token is not refused by keys that were asked for before it came.
func TestKeysAskedForBefore(t *testing.T) {
	for _, gone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := &rotating{held: make(chan struct{})}
			b := &Bearer{New(Options{Issuer: issuer, ClientID: "a", Logger: slog.New(slog.DiscardHandler), Now: time.Now, Transport: p}), "sub"}
			ends := make(chan error, 2)
			who := func(token string) { _, _, err := b.Who(t.Context(), token); ends <- err }
			first := p.rotate(t, "k1")
			go who(first)
			synctest.Wait()
			second := p.rotate(t, "k2")
			go who(second)
			synctest.Wait()
			p.gone = gone
			close(p.held)
			for range 2 {
				if err := <-ends; err != nil && !gone || errors.Is(err, ErrToken) {
					t.Errorf("gone: %t: %v", gone, err)
				}
			}
		})
	}
}
