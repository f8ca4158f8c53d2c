package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// withToken is an HTTP client of an agent.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

const (
	tokenA = "token-of-agent-a"
	tokenB = "token-of-agent-b"
)

// tokenFolder makes a folder with the tokens of two agents.
func tokenFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write(t, folder, "a", tokenA+"\n")
	write(t, folder, "b", tokenB)
	write(t, folder, ".hidden", "x")
	return folder
}

func agentWith(t *testing.T, address, token, version string) *sdk.ClientSession {
	t.Helper()
	web := &http.Client{Transport: withToken(token)}
	return connect(t, agentClient(), &sdk.StreamableClientTransport{Endpoint: address, HTTPClient: web}, version)
}

// TestWhoAsks: the token says which agent asks, in both eras; who has none, or has another one's session, is refused.
func TestWhoAsks(t *testing.T) {
	s, p := newService(t), newProvider(t)
	address := served(t, guarded(t, s, p, "listen: 127.0.0.1:0\ntokens: "+tokenFolder(t)+"\n", ""))
	for _, version := range []string{legacyVersion, latestVersion} {
		wants(t, agentWith(t, address+Path, tokenA, version), "ch_"+version, 1, stateExecuted, "")
	}
	for c, err := range s.api.AllChecks(t.Context(), client.CheckQuery{PolicyID: s.policy}) {
		if err != nil || c.Action.AgentID != "a" {
			t.Error(c.Action.AgentID, err)
		}
	}
	own := agentWith(t, address+Path, tokenA, legacyVersion)
	for _, c := range []struct {
		token, origin, session, version, path string
		want                                  int
	}{
		{"", "", "", "", Path, http.StatusUnauthorized},
		{"z", "", "", latestVersion, Path, http.StatusUnauthorized},
		{tokenA, "http://evil.example", own.ID(), "", Path, http.StatusForbidden},
		{tokenB, "", own.ID(), "", Path, http.StatusForbidden},
		{tokenA, "", own.ID(), "2025-06-19", Path, http.StatusBadRequest},
		{tokenA, "", "none", "", Path, http.StatusNotFound},
		{tokenA, "", own.ID(), "", Path + "/other", http.StatusNotFound},
		{tokenA, "", own.ID(), "2025-06-18", Path + "/psp", http.StatusNoContent},
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodDelete, address+c.path, nil))(t)
		for name, value := range map[string]string{
			"Authorization": "Bearer " + c.token, "Origin": c.origin, headerSession: c.session, headerVersion: c.version,
		} {
			if value != "" && value != "Bearer " {
				r.Header.Set(name, value)
			}
		}
		response, err := http.DefaultClient.Do(r)
		must.Do(t, err)
		if _ = response.Body.Close(); response.StatusCode != c.want {
			t.Errorf("%+v: %d", c, response.StatusCode)
		}
		if c.want == http.StatusUnauthorized && response.Header.Get("WWW-Authenticate") == "" {
			t.Error("nothing says how to authenticate")
		}
	}
}

// TestTokens: the folder is read again when it has changed. A fault takes the access of the agents that it concerns, and no other's.
func TestTokens(t *testing.T) {
	folder := tokenFolder(t)
	logged, faulty := new(strings.Builder), prometheus.NewGauge(prometheus.GaugeOpts{})
	tokens := must.Get(readTokens(&File{Tokens: folder}, slog.New(slog.NewTextHandler(logged, nil)), faulty))(t)
	const tokenC, none = "another-token-of-c", "no agent has this token"
	put := func(name, text string) func() { return func() { write(t, folder, name, text) } }
	remove := func(name string) func() {
		return func() {
			must.Do(t, os.RemoveAll(filepath.Join(folder, name)))
		}
	}
	for _, step := range []struct {
		what    string
		change  func()
		a, b, c string // of these agents' tokens: the agent, or why not
		faults  float64
		said    string
	}{
		{"two agents", func() {}, "a", "b", none, 0, ""},
		{"one more", put("c", tokenC), "a", "b", "c", 0, ""},
		{"a is removed", remove("a"), none, "b", "c", 0, ""},
		{"a token too short", put("b", "short"), none, none, "c", 1, "agent_id=b error=\"must have at least 16"},
		{"still", func() {}, none, none, "c", 1, ""},
		{"another file changes", put("a", tokenA), "a", none, "c", 1, ""},
		{"nothing in it", put("b", ""), "a", none, "c", 1, "is empty"},
		{"corrected", put("b", tokenB), "a", "b", "c", 0, ""},
		{"one token twice", put("d", tokenB), "a", none, "c", 2, "agent_id=d error=\"has the same token"},
		{"and three times", put("e", tokenB), "a", none, "c", 3, "agent_id=e"},
		{"two gone", func() { remove("d")(); remove("e")() }, "a", "b", "c", 0, ""},
		{"no folder", remove(""), errUnknown.Error(), errUnknown.Error(), errUnknown.Error(), 1, "cannot be read"},
	} {
		step.change()
		logged.Reset()
		tokens.mu.Lock()
		tokens.next = time.Time{}
		tokens.mu.Unlock()
		for token, want := range map[string]string{tokenA: step.a, tokenB: step.b, tokenC: step.c} {
			info, err := tokens.verify(t.Context(), token, nil)
			if got := fmt.Sprint(err); err == nil && info.UserID != want || err != nil && !strings.Contains(got, want) {
				t.Errorf("%s: %s: %v %v", step.what, token, info, err)
			}
		}
		if got := testutil.ToFloat64(faulty); got != step.faults {
			t.Errorf("%s: %v faults", step.what, got)
		}
		if log := logged.String(); !strings.Contains(log, step.said) || step.said == "" && log != "" || strings.Contains(log, tokenB) {
			t.Errorf("%s: %s", step.what, log)
		}
	}
}

// TestRevokedWhileWaiting: a call that people approve after its agent's file was removed is not carried out, and gives back.
func TestRevokedWhileWaiting(t *testing.T) {
	for _, version := range []string{legacyVersion, latestVersion} {
		p, s, folder := newProvider(t), newService(t), tokenFolder(t)
		g := guarded(t, s, p, "listen: 127.0.0.1:0\ntokens: "+folder+"\n", "        wait_seconds: 20\n")
		a := agentWith(t, served(t, g)+Path, tokenA, version)
		go func() {
			within(t, "people are asked", func() bool { return len(s.outcomes(t)) == 1 })
			_ = os.Remove(filepath.Join(folder, "a"))
			time.Sleep(lookEvery)
			s.approve(t, true)
		}()
		wants(t, a, "ch_1", 45_000, stateError, "not valid any more")
		s.became(t, "escalate", "voided")
		if paid := p.paid(); len(paid) != 0 {
			t.Errorf("%s: paid %q", version, paid)
		}
	}
}

// TestInFlight: an agent's requests without an answer are bounded, and keep no other agent out.
func TestInFlight(t *testing.T) {
	p := newProvider(t)
	s := newService(t)
	g := guarded(t, s, p, "listen: 127.0.0.1:0\ntokens: "+tokenFolder(t)+"\n", "")
	address := served(t, g) + Path
	for _, version := range []string{legacyVersion, latestVersion} {
		a, b := agentWith(t, address, tokenA, version), agentWith(t, address, tokenB, version)
		for range maxRequests {
			must.Get(g.enter("a"))(t)
		}
		wants(t, a, "ch_a"+version, 1, stateError, "64 requests of this agent have no answer yet")
		if _, err := a.ListTools(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "64 requests") {
			t.Error(err)
		}
		wants(t, b, "ch_b"+version, 1, stateExecuted, "")
		g.mu.Lock()
		if len(g.requests) != 1 {
			t.Error(g.requests)
		}
		g.requests = make(map[string]int)
		g.mu.Unlock()
	}
}

// TestShares: an agent that loops leaves the other ones a part of the rate limit of the gateway's key.
func TestShares(t *testing.T) {
	p, s := newProvider(t), newService(t)
	const limit = 16
	key := must.Get(s.api.CreateKey(t.Context(), client.KeyRequest{
		Name: "gateway", RateLimitRPM: new(limit), Grants: client.Grants{Role: "gateway", Principal: s.policy},
	}))(t)
	s.own = must.Get(client.New(client.Options{BaseURL: s.API, APIKey: key.APIKey, HTTPClient: &http.Client{Transport: s.shares}}))(t)
	address := served(t, guarded(t, s, p, "listen: 127.0.0.1:0\ntokens: "+tokenFolder(t)+"\n", "")) + Path
	a, b := agentWith(t, address, tokenA, latestVersion), agentWith(t, address, tokenB, legacyVersion)
	wants(t, a, "ch_1", 1, stateExecuted, "")
	refused := 0
	for range limit {
		if state, text := refund(t, a, "ch_1", 1); state == stateError && strings.Contains(text, "call again after") {
			refused++
		}
	}
	if refused != 5 { // with two requests before, it makes 13, and leaves 3
		t.Errorf("%d calls are refused", refused)
	}
	wants(t, b, "ch_2", 1, stateExecuted, "")
}

// TestSessions: an agent's sessions are bounded, and keep no other agent out. The one that was not used for the longest time ends.
func TestSessions(t *testing.T) {
	g := load(t, "shadow: true\nlisten: 127.0.0.1:0\ntokens: "+tokenFolder(t)+"\nupstreams:\n  one:\n    url: http://127.0.0.1:1\n")
	s := NewServer(g)
	t.Cleanup(s.Stop)
	var all []*session
	for range maxOfAgent {
		own, full := s.open("a", "one")
		if full != "" {
			t.Fatal(full)
		}
		all = append(all, own)
	}
	if _, full := s.open("a", "one"); !strings.Contains(full, "of this agent") {
		t.Error(full)
	}
	if _, full := s.open("b", "one"); full != "" {
		t.Error(full)
	}
	all[3].used, all[5].used = time.Now().Add(-2*leastIdle), time.Now().Add(-3*leastIdle)
	all[7].use(1) // a call that waits for people
	all[7].used = time.Now().Add(-4 * leastIdle)
	for _, ended := range []int{5, 3} {
		if _, full := s.open("a", "one"); full != "" {
			t.Error(full)
		}
		if _, there := s.sessions[all[ended]]; there {
			t.Errorf("session %d was not ended", ended)
		}
	}
	g.stop()
	if _, full := s.open("b", "one"); !strings.Contains(full, "stopped") {
		t.Error(full)
	}
}

// TestSeveral: each upstream has a path, and its tools keep their names.
func TestSeveral(t *testing.T) {
	one := streamable(t, func() *sdk.Server { return features(legacyVersion) }, legacyVersion)
	_, plain := newPlain(t)
	g := load(t, "shadow: true\nagent_id: a\nlisten: 127.0.0.1:0\n"+
		"upstreams:\n  one:\n    url: "+one+"\n  two:\n    url: "+plain.url+"\n")
	address := served(t, g)
	for path, tool := range map[string]string{"/one": "echo", "/two": "refund"} {
		for _, version := range []string{legacyVersion, latestVersion} {
			a := connect(t, agentClient(), &sdk.StreamableClientTransport{Endpoint: address + Path + path}, version)
			if _, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: tool}); err != nil {
				t.Error(path, version, err)
			}
		}
	}
	if _, err := agentClient().Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: address + Path}, nil); err == nil {
		t.Error("no upstream is meant")
	}
	if err := g.ServeStdio(t.Context(), "", strings.NewReader(""), t.Output()); err == nil || !strings.Contains(err.Error(), "one, two") {
		t.Error(err)
	}
}

// TestNeitherEra: an upstream that speaks no version of the protocol is reported as such.
func TestNeitherEra(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	t.Cleanup(web.Close)
	g := load(t, "shadow: true\nagent_id: a\nlisten: 127.0.0.1:0\nupstreams:\n  one:\n    url: "+web.URL+"\n")
	address := served(t, g)
	for _, version := range []string{legacyVersion, latestVersion} {
		over, options := &sdk.StreamableClientTransport{Endpoint: address + Path}, &sdk.ClientSessionOptions{ProtocolVersion: version}
		_, err := agentClient().Connect(t.Context(), over, options)
		if err == nil || !strings.Contains(err.Error(), "it speaks none of the versions of the protocol") {
			t.Error(version, err)
		}
	}
}

// TestNobodyThere: an upstream that does not listen is not said to speak another protocol.
func TestNobodyThere(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	g := load(t, "shadow: true\nagent_id: a\nlisten: 127.0.0.1:0\nupstreams:\n  one:\n    url: "+gone.URL+"\n")
	_, err := agentClient().Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: served(t, g) + Path}, nil)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "versions of the protocol") {
		t.Error(err)
	}
}

// Pages of other origins are refused, also where their name leads here.
func TestForeign(t *testing.T) {
	local := &net.TCPAddr{IP: net.ParseIP("127.0.0.1")}
	reached := &net.TCPAddr{IP: net.ParseIP("192.0.2.7")}
	for _, c := range []struct {
		to           *net.TCPAddr
		host, origin string
		want         bool
	}{
		{local, "127.0.0.1:8090", "", false},
		{local, "localhost:8090", "http://localhost:8090", false},
		{local, "localhost:8090", "http://localhost:8091", true},
		{local, "evil.example", "", true},
		{local, "evil.example", "http://evil.example", true},
		{reached, "gateway.internal:8090", "", false},
		{reached, "192.0.2.7:8090", "http://192.0.2.7:8090", false},
		{reached, "192.0.2.7:8090", "http://evil.example", true},
		{reached, "evil.example", "http://evil.example", true},
	} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(c.to)), "POST", Path, nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if got := foreign(r); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
}

// TestStrayMessages (P11): no call without an identifier reaches a server, and nothing but what was read.
func TestStrayMessages(t *testing.T) {
	s, p := newPlain(t)
	f := newService(t)
	address := served(t, guarded(t, f, p, "listen: 127.0.0.1:0\n", "")) + Path
	own := connect(t, agentClient(), &sdk.StreamableClientTransport{Endpoint: address}, legacyVersion)
	post := func(text string) string {
		t.Helper()
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(text)))(t)
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			headerSession: own.ID(), headerVersion: legacyVersion,
		} {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r)
		must.Do(t, err)
		defer response.Body.Close() //nolint:errcheck // only read
		return string(must.Get(io.ReadAll(response.Body))(t))
	}
	const arguments = `"arguments":{"charge":"ch_1","amount":1}`
	for _, text := range []string{
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"refund",` + arguments + `}}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/call","params":{"name":"refund",` + arguments + `}}`,
		`{"jsonrpc":"2.0","id":7,"method":"Tools/Call","params":{"name":"refund",` + arguments + `}}`,
		`{"jsonrpc":"2.0","id":8,"method":"x/tools/call","params":{"name":"refund",` + arguments + `}}`,
		`[{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"refund",` + arguments + `}}]`,
		`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"Name":"refund",` + arguments + `}}`,
	} {
		post(text)
	}
	if f.became(t); s.paid != 0 {
		t.Errorf("%d payments: %s", s.paid, s.params)
	}
	s.result = `{"content":[],"structuredContent":{"z":9007199254740993,"a":[1.10,null]}}` // more digits than floats have
	answer := post(`{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"refund","task":{},"Arguments":{"amount":9},` + arguments +
		`,"_meta":{"progressToken":5,"traceparent":"00-1","amount":9,"psp/amount":9,"io.modelcontextprotocol/clientInfo":{}}}}`)
	f.became(t, "executed")
	const sent = `{"_meta":{"progressToken":"gateway-1","traceparent":"00-1"},"name":"refund","arguments":{"charge":"ch_1","amount":1}}`
	if got := strings.Join(s.params, ""); got != sent || !strings.Contains(answer, `:{"z":9007199254740993,"a":[1.10,null]}`) {
		t.Error(got, answer)
	}
}
