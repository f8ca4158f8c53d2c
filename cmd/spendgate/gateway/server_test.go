package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Requests without a token, from a page of another origin, that name another agent's session, or have a version of the protocol
// that is none, are refused.
func TestServed(t *testing.T) {
	g := load(t, "agent_id: a\nshadow: true\nlisten: 127.0.0.1:0\nupstreams:\n  one:\n    url: http://127.0.0.1:1\n    tools: {}\n")
	g.file.Agents = map[string]agent{"a": {token: "x"}, "b": {token: "y"}}
	s := NewServer(g)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(s.Stop)
	own, full := s.open("a")
	if full != "" {
		t.Fatal(full)
	}
	for _, c := range []struct {
		token, origin, session, version string
		want                            int
	}{
		{"", "", own.id, "", http.StatusUnauthorized},
		{"z", "", own.id, "", http.StatusUnauthorized},
		{"x", "http://evil.example", own.id, "", http.StatusForbidden},
		{"y", "", own.id, "", http.StatusNotFound},
		{"x", "", "", "", http.StatusBadRequest},
		{"x", "", own.id, "2025-06-19", http.StatusBadRequest},
		{"x", web.URL, own.id, "2025-06-18", http.StatusNoContent},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, web.URL+Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Authorization": "Bearer " + c.token, "Origin": c.origin, headerSession: c.session, headerVersion: c.version,
		} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != c.want {
			t.Errorf("%+v: %d", c, response.StatusCode)
		}
	}
}

// Two names of the agent in one request are ambiguous, so the request has no agent.
func TestTwoAgents(t *testing.T) {
	s := NewServer(&Gateway{file: &File{AgentID: agentID{header: "X-Agent-Id"}}})
	r := httptest.NewRequestWithContext(t.Context(), "POST", Path, nil)
	r.Header.Add("X-Agent-Id", "a")
	if name, ok := s.agentOf(r); name != "a" || !ok {
		t.Error(name, ok)
	}
	r.Header.Add("X-Agent-Id", "b")
	if name, ok := s.agentOf(r); name != "" || !ok {
		t.Error(name, ok)
	}
}

// An agent with a token does not keep the others out.
func TestSessionsOfAnAgent(t *testing.T) {
	g := load(t, "agent_id: a\nshadow: true\nlisten: 127.0.0.1:0\nupstreams:\n  one:\n    url: http://127.0.0.1:1\n    tools: {}\n")
	for agents, want := range map[string]int{"without tokens": maxSessions, "with tokens": maxSessions - reserved} {
		limit := "of all agents"
		if g.file.Agents = nil; want != maxSessions {
			limit = "of this agent"
			g.file.Agents = map[string]agent{"a": {token: "x"}, "b": {token: "y"}}
		}
		s := NewServer(g)
		for range want {
			if _, full := s.open("a"); full != "" {
				t.Fatal(agents, ": too few sessions: ", full)
			}
		}
		if _, full := s.open("a"); !strings.Contains(full, limit) {
			t.Error(agents, full)
		}
		for range maxSessions - want {
			if _, full := s.open("b"); full != "" {
				t.Fatal(agents, ": kept out: ", full)
			}
		}
		if _, full := s.open("b"); !strings.Contains(full, "of all agents") {
			t.Error(agents, full)
		}
		s.mu.Lock()
		for _, a := range s.sessions {
			a.hangUp()
		}
		s.mu.Unlock()
	}
}

// Agents that went without a word keep nobody out: where no session fits, the longest idle one ends.
func TestIdleSessions(t *testing.T) {
	g := load(t, "agent_id: a\nshadow: true\nlisten: 127.0.0.1:0\nupstreams:\n  one:\n    url: http://127.0.0.1:1\n    tools: {}\n")
	s := NewServer(g)
	var all []*remoteAgent
	for range maxSessions {
		a, full := s.open("a")
		if full != "" {
			t.Fatal(full)
		}
		all = append(all, a)
	}
	idle := func(i int, since time.Duration) { all[i].used = time.Now().Add(-since) }
	idle(1, 2*leastIdle)
	idle(2, 3*leastIdle)
	idle(3, 4*leastIdle)
	all[3].general = new(stream) // it listens
	for _, want := range []int{2, 1} {
		if _, full := s.open("a"); full != "" || all[want].ended.Err() == nil {
			t.Errorf("session %d keeps others out: %s", want, full)
		}
	}
	if _, full := s.open("a"); full == "" || all[3].ended.Err() != nil {
		t.Error("a session that is in use is ended for another one")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.sessions {
		a.hangUp()
	}
}

// An agent that has all the sessions that it may have ends none of another agent's.
func TestIdleSessionsOfOthers(t *testing.T) {
	g := load(t, "agent_id: a\nshadow: true\nlisten: 127.0.0.1:0\nupstreams:\n  one:\n    url: http://127.0.0.1:1\n    tools: {}\n")
	g.file.Agents = map[string]agent{"a": {token: "x"}, "b": {token: "y"}}
	s := NewServer(g)
	t.Cleanup(s.Stop)
	open := func(agent string, idle time.Duration) *remoteAgent {
		a, full := s.open(agent)
		if full != "" {
			t.Fatal(agent, full)
		}
		a.used = time.Now().Add(-idle)
		return a
	}
	other := open("b", 3*leastIdle)
	for range maxSessions - reserved - 2 {
		open("a", 0)
	}
	own := open("a", 2*leastIdle)
	if open("a", 0); own.ended.Err() == nil || other.ended.Err() != nil {
		t.Error("another session than its own unused one was ended")
	}
	if _, full := s.open("a"); full == "" || other.ended.Err() != nil {
		t.Error("another agent's session was ended for it")
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
