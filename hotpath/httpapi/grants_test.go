package httpapi

import (
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// Keys without grants are answered byte for byte as before there were scopes; keys with grants show
// them.
func TestRecordsOfKeys(t *testing.T) {
	at := time.UnixMilli(instant).UTC()
	const id = "key_01a1f958502270008001020304050607"
	made := must.Get(spend.ParseID(id, spend.PrefixKey))(t)
	plain := audit.Key{ID: made, Name: "n", RateLimitRPM: 100, Active: true, CreatedAt: at}
	const created = "2026-11-20T10:11:12.034Z"
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{encoded(keyOf(&plain)), `{"key_id":"` + id + `","name":"n","rate_limit_rpm":100,"active":true,"created_at":"` + created +
			`","last_used_at":null}`},
		{encoded(newKeyOf(&plain, "svc_live_x")), `{"key_id":"` + id +
			`","name":"n","api_key":"svc_live_x","rate_limit_rpm":100,"created_at":"` + created + `"}`},
	} {
		if string(c.got) != c.want {
			t.Errorf("\n got %s\nwant %s", c.got, c.want)
		}
	}
	narrow := plain
	narrow.Grants = spend.Grants{
		Scopes: spend.EventsRead | spend.ChecksRead, PolicyIDs: []string{"p", "a"}, AgentIDs: []string{`"`}, Principal: "till", Owner: "team",
		ExpiresAt: at.Add(time.Millisecond),
	}
	want := `,"scopes":["checks:read","events:read"],"policy_ids":["p","a"],"agent_ids":["\""],"principal":"till","owner":"team",` +
		`"expires_at":"2026-11-20T10:11:12.035Z"}`
	got := string(encoded(keyOf(&narrow)))
	if plainText := string(encoded(keyOf(&plain))); got != plainText[:len(plainText)-1]+want {
		t.Errorf("got %s\nwant the record and %s", got, want)
	}
}

func encoded[T any](shown T) []byte { return wire.Append(nil, &shown, false) }

// A refusal for a scope comes before the body is looked at, and carries the
// limit that the request was counted against (S1, S6, S31).
func TestForbidden(t *testing.T) {
	s := start(t, nil)
	s.fake.admitErr = &hotpath.ForbiddenError{}
	for _, r := range [][3]string{
		{"POST", "/v1/policies", "{"},
		{"POST", "/v1/simulate", "{"},
		{"GET", "/v1/policies/p?x=1", ""},
		{"GET", "/v1/checks/x?x=1", ""},
		{"GET", "/v1/violations?x=1", ""},
		{"GET", "/v1/checks?x=1", ""},
		{"GET", "/v1/policies?x=1", ""},
		{"GET", "/v1/policies/p/versions?x=1", ""},
		{"GET", "/v1/checks/x/outcome?x=1", ""},
		{"POST", "/v1/checks/x/outcome", "{"},
		{"POST", "/v1/checks", "{"},
	} {
		a := s.do(r[0], r[1], r[2])
		if a.status != 403 || a.header.Get("X-RateLimit-Limit") != "100" || a.header.Get("Retry-After") != "" {
			t.Errorf("%v: %d %s with %v", r, a.status, a.body, a.header)
		}
	}
}

// An endpoint without callers stops the program at its start.
func TestEveryEndpointSaysWhoMayAsk(t *testing.T) {
	a := start(t, nil).api
	for _, e := range []endpoint{{method: "GET"}, {method: "GET", admin: true, scope: spend.ChecksRead}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was taken", e)
				}
			}()
			a.at(a.router, "/v1/forgotten", e)
		}()
	}
}
