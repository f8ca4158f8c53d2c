package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"testing"

	"spendgate/audit"
)

// TestActors hands who asks for a change to the Authorizer: an admin by the key
// that was used, a caller without what only an admin's request may say.
func TestActors(t *testing.T) {
	s := start(t, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	const from, client = "X-Forwarded-For: 2001:db8::1:2", "2001:db8::1:2"
	credential := func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return hex.EncodeToString(sum[:])[:8]
	}
	for i, c := range []struct {
		method, path, body string
		status             int
		admin              string
		want               audit.Actor
	}{
		{"POST", "/v1/keys", `{"name":"n"}`, 201, "second", audit.Actor{Credential: credential("second"), Address: client}},
		{
			"PATCH", "/v1/keys/" + testID(instant).Text("key_"), `{"active":false}`, 200, adminKey,
			audit.Actor{Credential: credential(adminKey), Address: client},
		},
		// the admin key may force a policy, if need be (S80)
		{"POST", "/v1/policies", simplePolicy, 201, adminKey, audit.Actor{Credential: credential(adminKey), Address: client}},
	} {
		a := s.do(c.method, c.path, c.body, from, "X-Admin-Key: "+c.admin)
		if a.status != c.status || len(s.fake.by) != i+1 {
			t.Fatalf("%s: %d %s", c.path, a.status, a.body)
		}
		c.want.RequestID = a.header.Get("X-Request-Id")
		if got := s.fake.by[i]; got != c.want || got.RequestID == "" {
			t.Errorf("%s: by %+v, want %+v", c.path, got, c.want)
		}
	}
}
