package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
)

// bearer sends a token with every request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// There are no sessions: two replicas behind one address serve one client.
func TestHTTPIsStateless(t *testing.T) {
	s := serve(t, "200 "+allowed)
	var replicas []http.Handler
	for range 2 {
		replicas = append(replicas, newServer(t, s, io.Discard, nil).Handler("token"))
	}
	turn := 0
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn++
		replicas[turn%2].ServeHTTP(w, r)
	}))
	t.Cleanup(balancer.Close)
	session := dial(t, &sdk.StreamableClientTransport{Endpoint: balancer.URL + Path, HTTPClient: &http.Client{Transport: bearer{"token"}}})
	for i := range 3 {
		callTool(t, session, checkAction, fmt.Sprintf(arguments, fmt.Sprintf("%d.999999999999999999", i+1)[:19])).
			check(t, true, "9 fraction digits")
		callTool(t, session, checkAction, fmt.Sprintf(arguments, fmt.Sprintf("12345678901234567.%d", i+1))).check(t, false, "Decision: allow.")
		if want := fmt.Sprintf(`"amount":12345678901234567.%d,`, i+1); !strings.Contains(s.requests[i], want) {
			t.Errorf("no %s in %s", want, s.requests[i])
		}
	}
}

// Requests from other origins, with rebound host names or without the token are refused.
func TestHTTPKeepsOthersOut(t *testing.T) {
	s := serve(t, "200 "+allowed)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	for _, test := range []struct {
		name, token, method, path string
		headers                   map[string]string
		status                    int
	}{
		{"a plain client", "", "POST", Path, nil, 200},
		{"the right token", "t", "POST", Path, map[string]string{"Authorization": "Bearer t"}, 200},
		{"no token", "t", "POST", Path, nil, 401},
		{"a wrong token", "t", "POST", Path, map[string]string{"Authorization": "Bearer tt"}, 401},
		{"another scheme", "t", "POST", Path, map[string]string{"Authorization": "t"}, 401},
		{"another origin", "", "POST", Path, map[string]string{"Origin": "https://evil.example"}, 403},
		{"another origin by Sec-Fetch-Site", "", "POST", Path, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a page without an origin", "", "POST", Path, map[string]string{"Origin": "null"}, 403},
		{"a rebound name", "", "POST", Path, map[string]string{"Host": "evil.example", "Origin": "http://evil.example"}, 403},
		{"a form", "", "POST", Path, map[string]string{"Content-Type": "text/plain"}, 415},
		{"another path", "", "POST", "/", nil, 404},
		{"a stream", "", "GET", Path, nil, 405},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(newServer(t, s, io.Discard, nil).Handler(test.token))
			defer server.Close()
			r := must.Get(http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, strings.NewReader(list)))(t)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			for name, value := range test.headers {
				r.Header.Set(name, value)
			}
			if host := test.headers["Host"]; host != "" {
				r.Host = host
			}
			response, err := http.DefaultClient.Do(r)
			must.Do(t, err)
			defer response.Body.Close() //nolint:errcheck // only read
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != test.status || (test.status == 200) != strings.Contains(string(body), checkAction) {
				t.Errorf("%d %s %v", response.StatusCode, body, err)
			}
		})
	}
}

// The request to the service has the trace of the call itself or, without one, of the HTTP request.
func TestTraceIsPassedOn(t *testing.T) {
	const (
		call    = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		carrier = "00-1bf7651916cd43dd8448eb211c80319c-c7ad6b7169203331-00"
	)
	s := serve(t, "200 "+allowed)
	server := newServer(t, s, io.Discard, nil)
	api := server.Handler("")
	carried := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("traceparent", carrier)
		r.Header.Set("tracestate", "carrier=1")
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(carried.Close)
	overHTTP := dial(t, &sdk.StreamableClientTransport{Endpoint: carried.URL + Path})
	for i, test := range []struct {
		session *sdk.ClientSession
		meta    sdk.Meta
		want    string
	}{
		{connect(t, server), nil, " "},
		{connect(t, server), sdk.Meta{"traceparent": call, "tracestate": "call=1"}, call + " call=1"},
		{connect(t, server), sdk.Meta{"traceparent": 1, "tracestate": "call=1"}, " "},
		{overHTTP, nil, carrier + " carrier=1"},
		{overHTTP, sdk.Meta{"traceparent": call, "tracestate": "call=1"}, call + " call=1"},
		{overHTTP, sdk.Meta{"traceparent": call}, call + " "},
	} {
		_, err := test.session.CallTool(t.Context(), &sdk.CallToolParams{
			Meta: test.meta, Name: checkAction, Arguments: json.RawMessage(fmt.Sprintf(arguments, "1")),
		})
		if err != nil || len(s.traces) != i+1 || s.traces[i] != test.want {
			t.Errorf("%v: sent %q, want %q; %v", test.meta, s.traces[i:], test.want, err)
		}
	}
}

// Pending keys are bounded in number and time, and a key is used once.
func TestPendingKeys(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := newPendingKeys(func() time.Time { return now })
	take := func() string {
		key, isNew := p.take(call{1})
		if isNew {
			return "another"
		}
		return key
	}
	p.keep(call{1}, "a")
	if take() != "a" || take() != "another" {
		t.Error("a key is not used once")
	}
	p.keep(call{1}, "a")
	p.drop(call{1}, "b")
	if take() != "a" {
		t.Error("another key's answer drops this one")
	}
	p.keep(call{1}, "a")
	p.drop(call{1}, "a")
	if take() != "another" {
		t.Error("an answered key is kept")
	}
	p.keep(call{1}, "old")
	now = now.Add(pendingLife / 2)
	p.keep(call{1}, "new")
	now = now.Add(pendingLife / 2)
	if take() != "new" {
		t.Error("the age of the first failure counts for the second")
	}
	p.keep(call{1}, "new")
	now = now.Add(pendingLife)
	if take() != "another" || len(p.keys) != 0 || len(p.order) != 0 {
		t.Error("a key outlives its time")
	}
	for i := range 3 * maxPending {
		p.keep(call{byte(i), byte(i >> 8), byte(i >> 16)}, "k")
	}
	if len(p.keys) > maxPending || len(p.order) > maxPending {
		t.Errorf("%d keys, %d in order", len(p.keys), len(p.order))
	}
}
